"""Three separate brokers for a measurement: killed, stopped and restarted one by one, their data thrown away.

They are like those of `tidegate stack up --brokers 3`, with one more listener each, which is advertised at a proxy's
port: clients that connect to it never bypass the proxies.
"""

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import psutil

from bench.producers.proxy import Proxy
from platform_defs.stack import jars, java, processes
from platform_defs.stack import kafka_servers as kafka
from platform_defs.stack.kafka_node import PROTOCOLS, Node, Program, new_cluster
from platform_defs.stack.state import Cluster, Server

NUMBERS = (1, 2, 3)

# Overrides for kafka_node.py's properties.
_PROPERTIES = """\
listeners={ours},PROXIED://127.0.0.1:{behind}
advertised.listeners={ours},PROXIED://127.0.0.1:{proxy}
listener.security.protocol.map={protocols},PROXIED:PLAINTEXT
"""


@dataclass
class Broker:
    """One broker: its node, the proxy before it, and its process while it runs."""

    node: Node
    behind: int  # the port of the listener that is advertised at the proxy
    proxy: Proxy
    process: psutil.Process | None = None

    @property
    def port(self) -> int:
        return self.node.server.port or 0

    @property
    def runs(self) -> bool:
        return self.process is not None and processes.is_running(self.process)

    def signal(self, number: int) -> None:
        """Send the signal to its process."""
        if self.process is not None:
            self.process.send_signal(number)

    def write_properties(self, more: str = "") -> None:
        """Write server.properties, with the listener behind the proxy, and `more` lines."""
        ours, proxy = self.node.listeners, self.proxy.port
        listeners = _PROPERTIES.format(ours=ours, protocols=PROTOCOLS, behind=self.behind, proxy=proxy)
        self.node.write_properties(listeners + more)


class ThreeBrokers:
    """The cluster, whose folder is emptied before and after. Raises BadInput or ServerFailed as `tidegate stack up`."""

    def __init__(self, home: Path, progress: Callable[[str], None]) -> None:
        self._home, self._program = home, Program(java.find_java(), jars.broker_classpath(progress))
        self._progress = progress
        self.brokers: dict[int, Broker] = {}

    def __enter__(self) -> Self:
        kafka.discard(self._home)
        try:
            self._restart()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers.values():
            broker.proxy.close()
        kafka.discard(self._home)

    @property
    def addresses(self) -> str:
        """The brokers' addresses for clients."""
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values())

    @property
    def proxied(self) -> str:
        """The brokers' addresses through the proxies only."""
        return ",".join(f"127.0.0.1:{broker.proxy.port}" for broker in self.brokers.values())

    @property
    def proxies(self) -> Sequence[Proxy]:
        """The proxies before the brokers' additional listeners."""
        return [broker.proxy for broker in self.brokers.values()]

    def start(self, *numbers: int) -> None:
        """Start these brokers, or wake them if they were only stopped, until each answers. Raises ServerFailed."""
        for broker in (self.brokers[number] for number in numbers):
            if broker.runs:
                broker.signal(signal.SIGCONT)
                continue
            node = broker.node
            broker.process = processes.start(node.run(self._program), node.console, cwd=node.folder)
        running = sum(broker.runs for broker in self.brokers.values())
        for broker in (self.brokers[number] for number in numbers):
            name, started = f"Kafka's broker {broker.node.number}", [broker.process] if broker.process else []
            if not processes.is_up(name, started, partial(kafka.answers, broker.port, running), self._progress):
                raise processes.failed(name, [broker.node.console, broker.node.logs / "kafka.log"])

    def kill(self, *numbers: int) -> None:
        """Send SIGKILL, and wait until they are dead."""
        found = [process for number in numbers if (process := self.brokers[number].process)]
        processes.end(found, signal.SIGKILL, within=10.0)

    def freeze(self, *numbers: int) -> None:
        """Send SIGSTOP: they keep their connections and stay silent."""
        for number in numbers:
            self.brokers[number].signal(signal.SIGSTOP)

    def thaw(self, *numbers: int) -> None:
        """Send SIGCONT."""
        for number in numbers:
            self.brokers[number].signal(signal.SIGCONT)

    def _restart(self) -> None:
        ports = iter(free_ports(4 * len(NUMBERS)))
        servers = tuple(Server(next(ports), next(ports), next(ports)) for _ in NUMBERS)
        cluster = new_cluster(servers)
        for number in NUMBERS:
            behind = next(ports)
            self.brokers[number] = Broker(Node(self._home, number, servers), behind, Proxy("127.0.0.1", behind))
        with ThreadPoolExecutor(len(NUMBERS)) as pool:
            list(pool.map(partial(self._format, cluster=cluster), self.brokers.values()))
        self.start(*NUMBERS)

    def _format(self, broker: Broker, cluster: Cluster) -> None:
        broker.write_properties()
        kafka.format_storage(broker.node, self._program, cluster, self._progress)


def free_ports(count: int) -> list[int]:
    """Return `count` different free ports of 127.0.0.1."""
    found = list[int]()
    while len(found) < count:
        found.append(processes.kept_or_free_port(None, lambda _: None, found))
    return found
