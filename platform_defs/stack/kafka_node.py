"""One broker of the embedded Kafka: its folder, its configuration, its command line. Each is a controller as well, so
that one of three may die.

https://kafka.apache.org/43/configuration/broker-configs/
"""

import base64
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from platform_defs.stack.state import Cluster, Server, kafka_folder, kafka_properties

# A broker that was killed registers again only when its old session has ended: 9 s by default.
SESSION_MS = 4000

# INTERNAL is for the brokers among themselves, EXTERNAL for all others; each client gets the address of the one that it
# came in by. Few partitions of internal topics, so that a first start is quick. Leaders that a killed broker lost stay
# elsewhere until an election is requested, so that skew is visible.
PROPERTIES = """\
process.roles=broker,controller
node.id={number}
broker.rack={rack}
listeners={listeners}
advertised.listeners={listeners}
listener.security.protocol.map={protocols}
inter.broker.listener.name=INTERNAL
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers={controllers}
log.dirs={data}
auto.create.topics.enable=false
auto.leader.rebalance.enable=false
default.replication.factor={replicas}
min.insync.replicas={in_sync}
offsets.topic.replication.factor={replicas}
offsets.topic.num.partitions=4
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={in_sync}
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms={session_ms}
broker.heartbeat.interval.ms={heartbeat_ms}
"""

PROTOCOLS = "EXTERNAL:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
_JVM = ("-server", "-XX:-UsePerfData", "-Djava.awt.headless=true")
_ALONE = ("-Xmx1G", "-Xms256m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
_OF_SEVERAL = ("-Xmx384m", "-Xms128m", "-XX:+UseSerialGC")  # three of them share a developer's machine


@dataclass(frozen=True)
class Program:
    """The program of a broker: Java, and the classes of Kafka's server."""

    executable: str
    classpath: str


@dataclass(frozen=True)
class Node:
    """The broker `number`, from 1, among `servers`: the ports of all brokers of the cluster, in their order."""

    home: Path
    number: int
    servers: tuple[Server, ...]

    @property
    def server(self) -> Server:
        return self.servers[self.number - 1]

    @property
    def listeners(self) -> str:
        """Its listeners, in the form of Kafka's configuration."""
        own = self.server
        ports = {"EXTERNAL": own.port, "INTERNAL": own.internal_port, "CONTROLLER": own.controller_port}
        return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())

    @property
    def folder(self) -> Path:
        return kafka_folder(self.home, self.number)

    @property
    def properties(self) -> Path:
        return kafka_properties(self.home, self.number)

    @property
    def logs(self) -> Path:
        """The folder of its logs: kafka.log, and the console."""
        return self.home / "logs" if self.number == 1 else self.home / "logs" / f"kafka-{self.number}"

    @property
    def console(self) -> Path:
        return self.logs / "kafka-console.log"

    @property
    def formatted(self) -> bool:
        return (self.folder / "data" / "meta.properties").exists()

    def write_properties(self, more: str = "") -> None:
        """Write server.properties, with the current ports. Lines in `more` override ours."""
        count = len(self.servers)
        text = PROPERTIES.format(
            number=self.number,
            rack=rack_of(self.number),
            listeners=self.listeners,
            protocols=PROTOCOLS,
            controllers=",".join(f"127.0.0.1:{one.controller_port}" for one in self.servers),
            data=self.folder / "data",
            replicas=min(3, count),
            in_sync=min(3, count) // 2 + 1,
            session_ms=SESSION_MS,
            heartbeat_ms=SESSION_MS // 4,
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        self.properties.write_text(text + more)

    def java(self, program: Program) -> list[str]:
        """Return the command line of the broker and of its tools, up to the class and its arguments."""
        scratch = self.folder / "tmp"  # compression libraries unpack themselves there
        scratch.mkdir(parents=True, exist_ok=True)
        self.logs.mkdir(parents=True, exist_ok=True)
        return [
            program.executable,
            *_JVM,
            *(_ALONE if len(self.servers) == 1 else _OF_SEVERAL),
            f"-Djava.io.tmpdir={scratch}",
            f"-XX:ErrorFile={self.logs}/kafka-jvm-crash-%p.log",
            f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.xml')}",
            f"-Dtidegate.logs={self.logs}",
            "-cp",
            program.classpath,
        ]

    def run(self, program: Program) -> list[str]:
        """Return the command line of the broker."""
        return [*self.java(program), "kafka.Kafka", str(self.properties)]

    def format(self, program: Program, cluster: Cluster) -> list[str]:
        """Return the command line that formats its storage."""
        arguments = ["format", "--ignore-formatted", "--cluster-id", cluster.cluster_id]
        arguments += ["--initial-controllers", ",".join(cluster.voters), "--config", str(self.properties)]
        return [*self.java(program), "kafka.tools.StorageTool", *arguments]


def rack_of(number: int) -> str:
    """Return the rack of the broker `number`: each has its own."""
    return "abc"[number - 1]


def new_cluster(servers: Sequence[Server]) -> Cluster:
    """Return a cluster whose quorum begins with these controllers, each with its future storage id."""
    voters = (f"{n}@127.0.0.1:{server.controller_port}:{new_id()}" for n, server in enumerate(servers, start=1))
    return Cluster(new_id(), tuple(voters))


def new_id() -> str:
    """Return a random id in Kafka's own form: 16 bytes, URL-safe base64 without padding, no leading dash."""
    while (made := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        continue
    return made
