"""The embedded Kafka: one real broker (KRaft, its own controller), listening on 127.0.0.1 only."""

import base64
import signal
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import psutil

from resources.local import jars, java, processes
from resources.local.state import Server, kafka_properties

START_SECONDS = 60.0
STOP_SECONDS = 15.0

# A broker that was killed registers again only when its old session has ended: 9 s by default.
SESSION_MS = 4000

# One broker, so every internal topic has one replica; few partitions of them, so that a first start is quick.
# https://kafka.apache.org/43/configuration/broker-configs/
PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms={session_ms}
broker.heartbeat.interval.ms={heartbeat_ms}
"""

JVM = ("-Xmx1G", "-Xms256m", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:-UsePerfData")


def start(home: Path, kept: Server, progress: Callable[[str], None]) -> Server:
    """Start the broker over its data in this home and return once it answers.

    Raises BadInput: no usable Java, a jar that cannot be downloaded; ServerFailed where the broker does not start.
    """
    executable = java.find_java()
    classpath = jars.broker_classpath(progress)
    stop(home)
    port = processes.kept_or_free_port(kept.port, progress)
    server = Server(port=port, controller_port=processes.kept_or_free_port(kept.controller_port, progress))
    command = java_command(home, executable, classpath)
    _write_properties(home, server)
    _format_once(home, command, progress)
    progress("starting Kafka")
    processes.keep_log_bounded(_console(home))
    process = processes.start([*command, "kafka.Kafka", str(kafka_properties(home))], _console(home), cwd=_folder(home))
    _wait_until_it_answers(home, process, port)
    return Server(port, server.controller_port, process.pid)


def stop(home: Path) -> None:
    """Stop every broker that runs over this home: asked to, and killed after 15 s."""
    processes.end(running(home), signal.SIGTERM, within=STOP_SECONDS)


def running(home: Path) -> list[psutil.Process]:
    """The brokers (and storage tools) that run over this home, whether or not stack.json knows them."""
    named = str(kafka_properties(home))

    def is_ours(process: psutil.Process) -> bool:
        words = process.cmdline()
        return named in words and ("kafka.Kafka" in words or "kafka.tools.StorageTool" in words)

    return processes.matching(is_ours)


def _folder(home: Path) -> Path:
    return home / "kafka"


def _console(home: Path) -> Path:
    return home / "logs" / "kafka-console.log"


def java_command(home: Path, executable: str, classpath: str) -> list[str]:
    """The command line of a broker over this home, and of its tools, up to the class and its arguments."""
    scratch = _folder(home) / "tmp"  # compression libraries unpack themselves there
    scratch.mkdir(parents=True, exist_ok=True)
    (home / "logs").mkdir(exist_ok=True)
    return [
        executable,
        *JVM,
        "-Djava.awt.headless=true",
        f"-Djava.io.tmpdir={scratch}",
        f"-XX:ErrorFile={home / 'logs'}/kafka-jvm-crash-%p.log",
        f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.xml')}",
        f"-Dtidegate.logs={home / 'logs'}",
        "-cp",
        classpath,
    ]


def _write_properties(home: Path, server: Server) -> None:
    text = PROPERTIES.format(
        port=server.port,
        controller_port=server.controller_port,
        data=_folder(home) / "data",
        session_ms=SESSION_MS,
        heartbeat_ms=SESSION_MS // 4,
    )
    kafka_properties(home).write_text(text)


def _format_once(home: Path, command: list[str], progress: Callable[[str], None]) -> None:
    if (_folder(home) / "data" / "meta.properties").exists():
        return
    progress("formatting Kafka's storage")
    arguments = ["format", "--standalone", "--ignore-formatted", "--cluster-id", new_cluster_id()]
    arguments += ["--config", str(kafka_properties(home))]
    process = processes.start([*command, "kafka.tools.StorageTool", *arguments], _console(home), cwd=_folder(home))
    if process.wait(timeout=START_SECONDS) != 0:
        raise processes.failed("Kafka", [_console(home)])


def new_cluster_id() -> str:
    """A random id in Kafka's own form: 16 bytes, URL-safe base64 without padding, no leading dash."""
    while (made := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        continue
    return made


def _wait_until_it_answers(home: Path, process: psutil.Process, port: int) -> None:
    until = time.monotonic() + START_SECONDS
    while processes.is_running(process) and time.monotonic() < until:
        if not processes.is_free(port) and answers(port):
            return
        time.sleep(0.1)
    processes.end([process], signal.SIGTERM, within=STOP_SECONDS)
    raise processes.failed("Kafka", [_console(home), home / "logs" / "kafka.log"])


def answers(port: int) -> bool:
    """Whether a broker gives its metadata at this port of 127.0.0.1."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    try:
        return bool(client.list_topics(timeout=2).brokers)
    except KafkaException:
        return False
