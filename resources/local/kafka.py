"""The embedded Kafka: one real broker, or three (KRaft, each its own controller), listening on 127.0.0.1 only."""

import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil

from platform_defs.words import plural
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
    servers = tuple(
        _with_ports(kept[number - 1] if number <= len(kept) else Server(), progress, new=number in missing)
        for number in range(1, brokers + 1)
    )
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


def answers(port: int) -> bool:
    """Whether a broker gives its metadata at this port of 127.0.0.1."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    try:
        return bool(client.list_topics(timeout=2).brokers)
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


def _with_ports(kept: Server, progress: Progress, *, new: bool) -> Server:
    """The broker's ports: those that it has, or had where they are still free."""
    if not new:
        return kept
    return Server(
        port=processes.kept_or_free_port(kept.port, progress),
        controller_port=processes.kept_or_free_port(kept.controller_port, progress),
        internal_port=processes.kept_or_free_port(kept.internal_port, progress),
    )


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
        if not _answers_in_time(node, started[node.number], until):
            processes.end(started.values(), signal.SIGTERM, within=STOP_SECONDS)
            raise processes.failed("Kafka", [node.console, node.logs / "kafka.log"])
    return {number: process.pid for number, process in started.items()}


def _answers_in_time(node: Node, process: psutil.Process, until: float) -> bool:
    port = node.server.port or 0
    while processes.is_running(process) and time.monotonic() < until:
        if not processes.is_free(port) and answers(port):
            return True
        time.sleep(0.1)  # a broker says that it is up only to who asks
    return False
