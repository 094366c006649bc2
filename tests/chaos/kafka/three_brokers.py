"""A Kafka cluster of three brokers, started by the first scenario that needs it and stopped at the end of the session.

It is the cluster of `tidegate stack up --brokers 3`: each broker is a voter of the quorum, so that any one may die;
with two dead, the third has no controller until one is back. Here each broker has one more listener, advertised at a
proxy's port: clients behind the proxies never find a way around them.
"""

import os
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bench.producers import three_brokers as measured
from bench.producers.three_brokers import free_ports
from platform_defs.settings.settings import settings
from platform_defs.stack import jars, java, processes
from platform_defs.stack import kafka_servers as kafka
from platform_defs.stack.kafka_node import Node, Program, new_cluster
from platform_defs.stack.state import Cluster, Server
from tests.chaos.postgres.proxy import Proxy
from tests.support.waiting import BOUND, wait_for
from tests.support.world import World

NODES = (1, 2, 3)
THREE_BROKERS = "three brokers"  # shared by the scenarios that need this cluster

# In addition to platform_defs/stack/kafka_node.py: dead brokers are noticed faster.
PROPERTIES = """\
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
replica.lag.time.max.ms=3000
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
log.initial.task.delay.ms=500
log.retention.check.interval.ms=500
"""


class Broker(measured.Broker):
    """One broker. Its `pid` is available only while it is running."""

    @property
    def pid(self) -> int:
        assert self.process is not None, f"broker {self.node.number} does not run"
        return self.process.pid


class ThreeBrokers:
    """The cluster and the actions on it."""

    def __init__(self, home: Path) -> None:
        self._program = Program(java.find_java(), jars.broker_classpath(lambda _: None))
        ports = free_ports(4 * len(NODES))
        servers = tuple(Server(ports.pop(), ports.pop(), ports.pop()) for _ in NODES)
        self.nodes = {n: _broker(Node(home / "brokers", n, servers), ports.pop()) for n in NODES}
        cluster = new_cluster(servers)
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda broker: self._format(broker, cluster), self.nodes.values()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        running = [broker.process for broker in self.nodes.values() if broker.process]
        processes.end(running, signal.SIGKILL, within=10.0)  # its data goes with the session's home
        for broker in self.nodes.values():
            broker.proxy.close()

    def world(self, of: World) -> World:
        """Return `of` on this cluster: three replicas of everything."""
        return self._world(of, [node.port for node in self.nodes.values()])

    def behind_proxies(self, of: World) -> World:
        """Return `of` on this cluster, reached only through the proxies."""
        return self._world(of, [node.proxy.port for node in self.nodes.values()])

    def start(self, numbers: Sequence[int]) -> None:
        """Start these brokers and wait until each responds. Raises AssertionError with the end of the log otherwise."""
        for number in numbers:
            node = self.nodes[number].node
            process = processes.start(node.run(self._program), node.console, cwd=node.folder)
            self.nodes[number].process = process
        for number in numbers:
            broker = self.nodes[number]
            wait_for(lambda it=broker: not it.runs or kafka.answers(it.port), f"broker {number} answers")
            assert broker.runs, processes.failed(f"broker {number}", [broker.node.console])

    def kill(self, numbers: Sequence[int]) -> None:
        """Kill these brokers (SIGKILL)."""
        for number in numbers:
            os.kill(self.nodes[number].pid, signal.SIGKILL)
        wait_for(lambda: not any(self.nodes[n].runs for n in numbers), f"brokers {numbers} are dead")

    def leaders(self, topic: str) -> dict[int, int]:
        """Return the leader of each partition."""
        return {n: leader for n, (leader, _) in self._partitions(topic).items()}

    def in_sync(self, topic: str) -> dict[int, set[int]]:
        """Return the in-sync replicas of each partition."""
        return {n: replicas for n, (_, replicas) in self._partitions(topic).items()}

    def wait_until_whole(self, topic: str) -> None:
        """Wait until every replica of the topic is in sync."""
        wait_for(lambda: all(found == set(NODES) for found in self.in_sync(topic).values()), f"{topic} is whole")

    def wait_until_all_is_whole(self) -> None:
        """Wait until every replica of every topic is in sync."""
        wait_for(self._all_is_whole, "every topic is whole")

    def wait_until_known(self, topic: str) -> None:
        """Wait until every running broker knows the topic: Kafka reports creation before that."""
        wait_for(
            lambda: all(_knows(node.port, topic) for node in self.nodes.values() if node.runs), f"{topic} is known"
        )

    def wait_until_led_by_others(self, topic: str, than: int) -> None:
        """Wait until this broker leads no partition of the topic."""
        wait_for(lambda: than not in self.leaders(topic).values(), f"broker {than} leads nothing of {topic}")

    def _world(self, of: World, ports: Sequence[int]) -> World:
        servers = ",".join(f"127.0.0.1:{port}" for port in ports)
        return replace(of, endpoints=replace(of.endpoints, bootstrap_servers=servers), replicas=3)

    def _partitions(self, topic: str) -> dict[int, tuple[int, set[int]]]:
        alive = [f"127.0.0.1:{node.port}" for node in self.nodes.values() if node.runs]
        admin = AdminClient({"bootstrap.servers": ",".join(alive), "log_level": 0})
        held = admin.list_topics(topic, timeout=20).topics[topic].partitions
        return {number: (item.leader, set(item.isrs)) for number, item in held.items()}

    def _all_is_whole(self) -> bool:
        ports = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes.values())
        topics = AdminClient({"bootstrap.servers": ports, "log_level": 0}).list_topics(timeout=20).topics.values()
        return all(set(item.isrs) == set(item.replicas) for topic in topics for item in topic.partitions.values())

    def _format(self, broker: Broker, cluster: Cluster) -> None:
        broker.write_properties(PROPERTIES)
        node = broker.node
        process = processes.start(node.format(self._program, cluster), node.console, cwd=node.folder)
        assert process.wait(timeout=BOUND) == 0, processes.failed("Kafka's format", [node.console])


def _knows(port: int, topic: str) -> bool:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    try:
        found = admin.list_topics(topic, timeout=2).topics[topic]
    except KafkaException:  # it was killed just now
        return False
    return found.error is None and all(item.leader > 0 for item in found.partitions.values())


def _broker(node: Node, behind: int) -> Broker:
    return Broker(node, behind, Proxy("127.0.0.1", behind))


_started: list[ThreeBrokers] = []


def three_brokers() -> ThreeBrokers:
    """Return the session's cluster, with all three brokers running."""
    if not _started:
        _started.append(ThreeBrokers(settings().home))
    cluster = _started[0]
    cluster.start([number for number, node in cluster.nodes.items() if not node.runs])
    return cluster


def stop() -> None:
    """Stop the cluster, if it was started."""
    while _started:
        _started.pop().__exit__()
