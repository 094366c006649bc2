"""The embedded Kafka: one real broker, or three (KRaft, each its own controller), listening on 127.0.0.1 only."""

import shutil
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil

from platform_defs.errors.words import plural
from platform_defs.stack import jars, java, processes
from platform_defs.stack.kafka_node import Node, Program, new_cluster
from platform_defs.stack.state import (
    Cluster,
    Server,
    broker_runs,
    brokers_of,
    kafka_properties,
    load_cluster,
    save_cluster,
)

STOP_SECONDS = 15.0
MEASURE_FOLDER = "measure"  # of bench.producers, under TIDEGATE_HOME
Progress = Callable[[str], None]


def start(home: Path, kept: Sequence[Server], brokers: int, progress: Progress) -> tuple[Server, ...]:
    """Start the brokers of this home that are not running, and return all when they answer.

    Raises BadInput: no usable Java, a jar that cannot be downloaded; ServerFailed if a broker does not start.
    """
    program = Program(java.find_java(), jars.broker_classpath(progress))
    missing = [number for number in range(1, brokers + 1) if not broker_runs(home, kept, number)]
    processes.end(_running(home, missing), signal.SIGTERM, within=STOP_SECONDS)  # processes missing in stack.json
    servers = _with_ports(home, [*kept, *[Server()] * (brokers - len(kept))], missing, progress)
    nodes = [Node(home, number, servers) for number in missing]
    for node in nodes:
        node.write_properties()
    _format_once(home, nodes, program, progress)
    progress(f"starting Kafka, {plural(brokers, 'broker')}" if brokers > 1 else "starting Kafka")
    pids = _run(nodes, program, progress)
    return tuple(replace(server, pid=pids.get(n, server.pid)) for n, server in enumerate(servers, start=1))


def stop(home: Path) -> None:
    """Stop every broker that runs over this home: SIGTERM, then SIGKILL after 15 s."""
    processes.end(running(home), signal.SIGTERM, within=STOP_SECONDS)


def discard(home: Path) -> None:
    """Kill every broker that runs over this folder, and delete the folder."""
    if home.exists():
        processes.end(running(home), signal.SIGKILL, within=processes.KILL_SECONDS)
        shutil.rmtree(home, ignore_errors=True)


def running(home: Path) -> list[psutil.Process]:
    """Return the brokers (and storage tools) that run over this home, also those not in stack.json."""
    return _running(home, range(1, max(3, brokers_of(home)) + 1))


def answers(port: int, brokers: int = 1) -> bool:
    """Return True if a broker returns metadata at this port of 127.0.0.1, and knows at least `brokers` brokers."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    try:
        return len(client.list_topics(timeout=2).brokers) >= brokers
    except KafkaException:
        return False


def _running(home: Path, numbers: Sequence[int]) -> list[psutil.Process]:
    named = {str(kafka_properties(home, number)) for number in numbers}

    def is_ours(process: psutil.Process) -> bool:
        words = process.cmdline()
        return not named.isdisjoint(words) and ("kafka.Kafka" in words or "kafka.tools.StorageTool" in words)

    return processes.matching(is_ours)


def _with_ports(home: Path, kept: Sequence[Server], missing: Sequence[int], progress: Progress) -> tuple[Server, ...]:
    """Return the brokers' ports: their current ones; for missing brokers their former ones, if they are still free."""
    reserved = {port for one in kept for port in (one.port, one.controller_port, one.internal_port) if port}
    cluster = load_cluster(home)
    # Several controllers have to find each other at their first ports. A single one may move: it elects itself.
    voters = cluster.voters if cluster and len(cluster.voters) > 1 else ()
    controllers = {number: int(voter.split(":")[1]) for number, voter in enumerate(voters, start=1)}
    reserved.update(controllers.values())

    def port(had: int | None) -> int:
        reserved.add(given := processes.kept_or_free_port(had, progress, reserved))
        return given

    def ports(number: int, had: Server) -> Server:
        if number not in missing:
            return had
        controller = controllers.get(number) or port(had.controller_port)
        if number in controllers and not processes.is_free(controller):
            raise processes.ServerFailed(
                f"Kafka did not start: another program uses port {controller}, which broker {number} needs (lsof -i "
                f":{controller} shows the program). Stop that program, then start again: tidegate stack up"
            )
        return Server(port=port(had.port), controller_port=controller, internal_port=port(had.internal_port))

    return tuple(ports(number, had) for number, had in enumerate(kept, start=1))


def _format_once(home: Path, nodes: Sequence[Node], program: Program, progress: Progress) -> None:
    """Format unformatted brokers: a cluster's with one id and the same voters, also after a killed start."""
    fresh = [node for node in nodes if not node.formatted]
    if not fresh:
        return
    progress("formatting Kafka's storage")
    cluster = load_cluster(home)
    if cluster is None:
        cluster = new_cluster(fresh[0].servers)
        save_cluster(home, cluster)
    with ThreadPoolExecutor(len(fresh)) as pool:
        list(pool.map(partial(format_storage, program=program, cluster=cluster, progress=progress), fresh))


def format_storage(node: Node, program: Program, cluster: Cluster, progress: Progress) -> None:
    """Format a broker's storage, with its properties written. Raises ServerFailed."""
    process = processes.start(node.format(program, cluster), node.console, cwd=node.folder)
    if not processes.succeeds("Kafka", process, progress):
        raise processes.failed("Kafka", [node.console])


def _run(nodes: Sequence[Node], program: Program, progress: Progress) -> dict[int, int]:
    """Start the brokers and return their pids, by number, when each answers. If one does not, all are ended."""
    started = dict[int, psutil.Process]()
    for node in nodes:
        processes.keep_log_bounded(node.console)
        started[node.number] = processes.start(node.run(program), node.console, cwd=node.folder)
    for node in nodes:  # each knows all brokers once it answers, so none may end meanwhile
        if not processes.is_up("Kafka", [*started.values()], partial(_answers, node, len(nodes)), progress):
            failed = next((one for one in nodes if not processes.is_running(started[one.number])), node)
            processes.end(started.values(), signal.SIGTERM, within=STOP_SECONDS)
            raise processes.failed("Kafka", [failed.console, failed.logs / "kafka.log"])
    return {number: process.pid for number, process in started.items()}


def _answers(node: Node, brokers: int) -> bool:
    port = node.server.port or 0
    return not processes.is_free(port) and answers(port, brokers)
