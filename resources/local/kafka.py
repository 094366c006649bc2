"""The embedded Kafka: one real broker, or three (KRaft, each its own controller), listening on 127.0.0.1 only."""

import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil

from platform_defs.errors.words import plural
from resources.local import jars, java, processes
from resources.local.kafka_node import Node, Program, new_cluster
from resources.local.state import Cluster, Server, brokers_of, kafka_properties, load_cluster, save_cluster

START_SECONDS = 60.0
STOP_SECONDS = 15.0
Progress = Callable[[str], None]


def start(home: Path, kept: Sequence[Server], brokers: int, progress: Progress) -> tuple[Server, ...]:
    """Start the brokers that do not run over their data in this home, and return all once they answer.

    Raises BadInput: no usable Java, a jar that cannot be downloaded; ServerFailed where a broker does not start.
    """
    program = Program(java.find_java(), jars.broker_classpath(progress))
    missing = [number for number in range(1, brokers + 1) if not _runs(home, kept, number)]
    processes.end(_running(home, missing), signal.SIGTERM, within=STOP_SECONDS)  # what stack.json does not know
    servers = _with_ports(home, [*kept, *[Server()] * (brokers - len(kept))], missing, progress)
    nodes = [Node(home, number, servers) for number in missing]
    for node in nodes:
        node.write_properties()
    _format_once(home, nodes, program, progress)
    progress(f"starting Kafka, {plural(brokers, 'broker')}" if brokers > 1 else "starting Kafka")
    pids = _run(nodes, program)
    return tuple(replace(server, pid=pids.get(n, server.pid)) for n, server in enumerate(servers, start=1))


def stop(home: Path) -> None:
    """Stop every broker that runs over this home: asked to, and killed after 15 s."""
    processes.end(running(home), signal.SIGTERM, within=STOP_SECONDS)


def running(home: Path) -> list[psutil.Process]:
    """The brokers (and storage tools) that run over this home, whether or not stack.json knows them."""
    return _running(home, range(1, max(3, brokers_of(home)) + 1))


def answers(port: int, brokers: int = 1) -> bool:
    """Return True if a broker gives its metadata at this port of 127.0.0.1, and has heard of so many."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    try:
        return len(client.list_topics(timeout=2).brokers) >= brokers
    except KafkaException:
        return False


def _runs(home: Path, kept: Sequence[Server], number: int) -> bool:
    return number <= len(kept) and kept[number - 1].runs_over(kafka_properties(home, number))


def _running(home: Path, numbers: Sequence[int]) -> list[psutil.Process]:
    named = {str(kafka_properties(home, number)) for number in numbers}

    def is_ours(process: psutil.Process) -> bool:
        words = process.cmdline()
        return not named.isdisjoint(words) and ("kafka.Kafka" in words or "kafka.tools.StorageTool" in words)

    return processes.matching(is_ours)


def _with_ports(home: Path, kept: Sequence[Server], missing: Sequence[int], progress: Progress) -> tuple[Server, ...]:
    """The brokers' ports: those that they have; of the missing ones those that they had, where they are still free."""
    reserved = {port for one in kept for port in (one.port, one.controller_port, one.internal_port) if port}
    controllers = _controllers(home)
    reserved.update(controllers.values())

    def port(had: int | None) -> int:
        reserved.add(given := processes.kept_or_free_port(had, progress, reserved))
        return given

    def ports(number: int, had: Server) -> Server:
        if number not in missing:
            return had
        controller = _fixed(number, controllers[number]) if number in controllers else port(had.controller_port)
        return Server(port=port(had.port), controller_port=controller, internal_port=port(had.internal_port))

    return tuple(ports(number, had) for number, had in enumerate(kept, start=1))


def _controllers(home: Path) -> dict[int, int]:
    """The ports of the controllers by number, where several have to find each other at the ports they began with. One
    that is alone may move: it elects itself.
    """
    cluster = load_cluster(home)
    return dict(enumerate(cluster.controller_ports, start=1)) if cluster and len(cluster.voters) > 1 else {}


def _fixed(number: int, port: int) -> int:
    if not processes.is_free(port):
        raise processes.ServerFailed(
            f"Kafka did not start: another program has taken port {port}, where the other brokers look for broker "
            f"{number} (lsof -i :{port} shows which). End that program, then start again: tidegate stack up"
        )
    return port


def _format_once(home: Path, nodes: Sequence[Node], program: Program, progress: Progress) -> None:
    """Format what is not: all brokers of a cluster with one id and the same voters, also where a start was killed."""
    fresh = [node for node in nodes if not node.formatted]
    if not fresh:
        return
    progress("formatting Kafka's storage")
    cluster = load_cluster(home)
    if cluster is None:
        cluster = new_cluster(fresh[0].servers)
        save_cluster(home, cluster)
    with ThreadPoolExecutor(len(fresh)) as pool:
        list(pool.map(partial(_format, program=program, cluster=cluster), fresh))


def _format(node: Node, program: Program, cluster: Cluster) -> None:
    process = processes.start(node.format(program, cluster), node.console, cwd=node.folder)
    if process.wait(timeout=START_SECONDS) != 0:
        raise processes.failed("Kafka", [node.console])


def _run(nodes: Sequence[Node], program: Program) -> dict[int, int]:
    """The pids of the brokers, by number, once each answers. Of those that do not, all are ended."""
    started = dict[int, psutil.Process]()
    for node in nodes:
        processes.keep_log_bounded(node.console)
        started[node.number] = processes.start(node.run(program), node.console, cwd=node.folder)
    until = time.monotonic() + START_SECONDS
    for node in nodes:
        if not _answers_in_time(node, started[node.number], len(nodes), until):
            processes.end(started.values(), signal.SIGTERM, within=STOP_SECONDS)
            raise processes.failed("Kafka", [node.console, node.logs / "kafka.log"])
    return {number: process.pid for number, process in started.items()}


def _answers_in_time(node: Node, process: psutil.Process, brokers: int, until: float) -> bool:
    port = node.server.port or 0
    while processes.is_running(process) and time.monotonic() < until:
        if not processes.is_free(port) and answers(port, brokers):
            return True
        time.sleep(0.1)  # a broker says that it is up only to who asks
    return False
