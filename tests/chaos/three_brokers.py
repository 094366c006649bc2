"""A Kafka cluster of three brokers, started by the first scenario that asks and stopped when the session ends.

Node 1 is the controller as well, so that two brokers may die and their leaders still be replaced. Each broker has a
second listener, advertised at a proxy's port: clients that are led there never find a way around it.
"""

import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import psutil
from confluent_kafka.admin import AdminClient

from resources.local import jars, java, kafka, processes
from resources.settings import settings
from tests.chaos.proxy import Proxy
from tests.world import World

NODES = (1, 2, 3)
THREE_BROKERS = "three brokers"  # what scenarios share that ask for this cluster
BOUND = 60.0  # seconds in which anything that is asked of the cluster has come true
JVM = (
    "-Xmx384m",
    "-Xms128m",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UseG1GC",
    "-XX:+UseSerialGC",
)  # small, and quick to start

PROPERTIES = """\
process.roles={roles}
node.id={node}
listeners={listeners}
advertised.listeners={advertised}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
log.dirs={data}
auto.create.topics.enable=false
auto.leader.rebalance.enable=false
default.replication.factor=3
min.insync.replicas=2
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.num.partitions=1
replica.lag.time.max.ms=3000
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
log.initial.task.delay.ms=500
log.retention.check.interval.ms=500
"""


@dataclass
class Node:
    """One broker: its ports, its folder, the proxy before it, and its process while it runs."""

    number: int
    home: Path
    port: int
    behind: int  # the port of the listener that is advertised at the proxy
    proxy: Proxy
    process: psutil.Process | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None, f"broker {self.number} does not run"
        return self.process.pid

    @property
    def runs(self) -> bool:
        return self.process is not None and processes.is_running(self.process)


class ThreeBrokers:
    """The cluster, and what can be done to it."""

    def __init__(self, home: Path) -> None:
        self._command = java.find_java(), jars.broker_classpath(lambda _: None)
        ports = [processes.kept_or_free_port(None, lambda _: None) for _ in range(7)]
        assert len(set(ports)) == 7, "two of seven random ports are the same; try again"
        self._controller = ports.pop()
        self.nodes = {n: _node(home / "brokers" / str(n), n, ports.pop(), ports.pop()) for n in NODES}
        cluster_id = kafka.new_cluster_id()
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda node: self._format(node, cluster_id), self.nodes.values()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        running = [node.process for node in self.nodes.values() if node.process]
        processes.end(running, signal.SIGKILL, within=10.0)  # its data goes with the session's home
        for node in self.nodes.values():
            node.proxy.close()

    def world(self, of: World) -> World:
        """`of`, on this cluster: three replicas of everything."""
        return self._world(of, [node.port for node in self.nodes.values()])

    def behind_proxies(self, of: World) -> World:
        """The same, on a way that leads through the proxies alone."""
        return self._world(of, [node.proxy.port for node in self.nodes.values()])

    def start(self, numbers: Sequence[int]) -> None:
        """Start these brokers, and wait until each answers. Raises AssertionError, with the end of the log, if not."""
        for number in numbers:
            node = self.nodes[number]
            command = [*self._java(node), "kafka.Kafka", str(node.home / "server.properties")]
            node.process = processes.start(command, node.home / "console.log", cwd=node.home)
        for number in numbers:
            node = self.nodes[number]
            wait_until(lambda node=node: not node.runs or kafka.answers(node.port), f"broker {number} answers")
            assert node.runs, processes.failed(f"broker {number}", [node.home / "console.log"])

    def kill(self, numbers: Sequence[int]) -> None:
        """SIGKILL."""
        for number in numbers:
            os.kill(self.nodes[number].pid, signal.SIGKILL)
        wait_until(lambda: not any(self.nodes[n].runs for n in numbers), f"brokers {numbers} are dead")

    def leaders(self, topic: str) -> dict[int, int]:
        """The leader of each partition."""
        return {n: leader for n, (leader, _) in self._partitions(topic).items()}

    def in_sync(self, topic: str) -> dict[int, set[int]]:
        """The replicas in sync of each partition."""
        return {n: replicas for n, (_, replicas) in self._partitions(topic).items()}

    def wait_until_whole(self, topic: str) -> None:
        """Until every replica of the topic is in sync."""
        wait_until(lambda: all(found == set(NODES) for found in self.in_sync(topic).values()), f"{topic} is whole")

    def wait_until_led_by_others(self, topic: str, than: int) -> None:
        """Until this broker leads no partition of the topic any more."""
        wait_until(lambda: than not in self.leaders(topic).values(), f"broker {than} leads nothing of {topic}")

    def _world(self, of: World, ports: Sequence[int]) -> World:
        servers = ",".join(f"127.0.0.1:{port}" for port in ports)
        return replace(of, endpoints=replace(of.endpoints, bootstrap_servers=servers), replicas=3)

    def _partitions(self, topic: str) -> dict[int, tuple[int, set[int]]]:
        alive = [f"127.0.0.1:{node.port}" for node in self.nodes.values() if node.runs]
        admin = AdminClient({"bootstrap.servers": ",".join(alive), "log_level": 0})
        held = admin.list_topics(topic, timeout=20).topics[topic].partitions
        return {number: (item.leader, set(item.isrs)) for number, item in held.items()}

    def _format(self, node: Node, cluster_id: str) -> None:
        node.home.mkdir(parents=True)
        (node.home / "server.properties").write_text(self._properties(node))
        role = "--standalone" if node.number == 1 else "--no-initial-controllers"
        arguments = ["format", role, "--cluster-id", cluster_id, "--config", str(node.home / "server.properties")]
        command = [*self._java(node), "kafka.tools.StorageTool", *arguments]
        process = processes.start(command, node.home / "console.log", cwd=node.home)
        assert process.wait(timeout=BOUND) == 0, processes.failed("Kafka's format", [node.home / "console.log"])

    def _properties(self, node: Node) -> str:
        leads = node.number == 1
        control = f",CONTROLLER://127.0.0.1:{self._controller}" if leads else ""
        ours = f"PLAINTEXT://127.0.0.1:{node.port},PROXIED://127.0.0.1:"
        return PROPERTIES.format(
            roles="broker,controller" if leads else "broker",
            node=node.number,
            controller=self._controller,
            listeners=f"{ours}{node.behind}{control}",
            advertised=f"{ours}{node.proxy.port}{control}",
            data=node.home / "data",
        )

    def _java(self, node: Node) -> list[str]:
        return [*kafka.java_command(node.home, *self._command), *JVM]


def wait_until(true: Callable[[], bool], what: str, seconds: float = BOUND) -> None:
    """Wait for it, at most `seconds`. Raises AssertionError, naming what did not come true."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"within {seconds:.0f} s it did not come true that {what}"
        time.sleep(0.1)


def _node(home: Path, number: int, port: int, behind: int) -> Node:
    return Node(number, home, port, behind, Proxy("127.0.0.1", behind))


_started: list[ThreeBrokers] = []


def three_brokers() -> ThreeBrokers:
    """The session's cluster, all three brokers running."""
    if not _started:
        _started.append(ThreeBrokers(settings().home))
    cluster = _started[0]
    cluster.start([number for number, node in cluster.nodes.items() if not node.runs])
    return cluster


def stop() -> None:
    """Stop the cluster, if anybody asked for one."""
    while _started:
        _started.pop().__exit__()
