"""The processes' use of a core: ours (Dagster's pieces and the runs), Kafka's and Postgres'."""

from collections.abc import Iterable
from pathlib import Path

import psutil

from platform_defs.stack import dagster_dev as ui
from platform_defs.stack import kafka_servers as kafka
from platform_defs.stack import postgres_server as postgres

PIECES = {  # a word of a process's command line → its piece
    "dagster_webserver": "web server",
    "dagster._daemon": "daemon",
    "code-server": "code server",
    "grpc": "code server",
    "dev": "dagster dev",
}
OURS = ("web server", "daemon", "code server", "dagster dev", "runs")
PARTS: tuple[str, ...] = (*OURS, "Kafka", "Postgres")


def cpu_seconds(home: Path) -> dict[str, float]:
    """Return CPU seconds so far by part. Our children that have ended were runs, or parts of one."""
    found: dict[str, float] = dict.fromkeys(PARTS, 0.0)
    for process in ui.running(home):
        _count(found, process, _piece(process), "runs")
    for name, servers in {"Kafka": kafka.running(home), "Postgres": postgres.running(home)}.items():
        for process in servers:
            _count(found, process, name, name)
    return found


def shares(before: dict[str, float], after: dict[str, float], seconds: float) -> dict[str, float]:
    """Return by part the share of one core that it used between two counts: 0.05 is 5%."""
    return {name: max(0.0, after[name] - before[name]) / seconds for name in PARTS}


def memory_mb(processes: Iterable[psutil.Process]) -> float:
    """Return the sum of these processes' resident memory."""
    return sum(process.memory_info().rss for process in processes) / 1e6


def broker_needs(home: Path) -> tuple[float, int, int]:
    """Return the broker's resident memory (MB), open file handles and mapped files."""
    broker = max(kafka.running(home), key=lambda process: process.memory_info().rss)
    return memory_mb([broker]), broker.num_fds(), len(broker.memory_maps(grouped=False))


def _count(found: dict[str, float], process: psutil.Process, own: str, of_children: str) -> None:
    try:
        used = process.cpu_times()
    except psutil.NoSuchProcess:
        return
    found[own] += used.user + used.system
    found[of_children] += used.children_user + used.children_system


def _piece(process: psutil.Process) -> str:
    try:
        words = process.cmdline()[1:6]
    except psutil.NoSuchProcess:
        return "runs"
    return next((piece for word, piece in PIECES.items() if any(item.startswith(word) for item in words)), "runs")
