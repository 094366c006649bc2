"""The peers as paths of the benchmark. A new one is a class with `carry(task)` and `close()`, and a line of STARTS."""

import os
import tarfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path as Folder
from tempfile import TemporaryDirectory
from typing import Protocol
from uuid import uuid4

import psycopg

from bench.baselines import by_hand
from bench.ending import undisturbed
from bench.paths import STAGED, Bench, Path
from bench.peers.asked import Task
from bench.peers.connect import Connect
from bench.peers.process import Asked, python_of
from bench.peers.versions import (
    CONNECT,
    CONNECT_LOCK,
    DEBEZIUM,
    DEBEZIUM_LOCK,
    QUIX,
    QUIX_PACKAGES,
    SPARK,
    SPARK_LOCK,
    SPARK_PACKAGES,
)
from bench.reports.aims import Ratio
from platform_defs.errors import BadInput
from platform_defs.settings.settings import settings
from platform_defs.stack.jars import archive, jars

STREAMING = f"Structured Streaming {SPARK}, foreachBatch and JDBC"
QUIX_STREAMS = f"Quix Streams {QUIX} with its PostgreSQL sink, one process"
KAFKA_CONNECT = f"Kafka Connect {CONNECT} with Debezium's JDBC sink {DEBEZIUM}"
PEER_AIMS = (
    Ratio("staged ÷ Structured Streaming", STAGED, STREAMING, 2.5),
    Ratio("staged ÷ Quix Streams", STAGED, QUIX_STREAMS, 10),
)
INSTEAD = "leave this peer out"
Say = Callable[[str], None]


class Peer(Protocol):
    """A running peer that carries a topic into a table."""

    def carry(self, task: Task) -> None: ...

    def close(self) -> None: ...


def streaming(_brokers: str, home: Folder, say: Say) -> Peer:
    """Start Spark in its own environment."""
    python = python_of(home, SPARK_PACKAGES)
    found = jars(SPARK_LOCK, STREAMING, INSTEAD, say)
    module = "bench.peers.structured_streaming"
    return Asked([str(python), "-m", module, ",".join(map(str, found))], home / "work", home / "peer.log")


def quix_streams(_brokers: str, home: Folder, _say: Say) -> Peer:
    """Start Quix Streams in its own environment."""
    python = python_of(home, QUIX_PACKAGES)
    return Asked([str(python), "-m", "bench.peers.quix_streams"], home / "work", home / "peer.log")


def connect(brokers: str, home: Folder, say: Say) -> Peer:
    """Start a worker of Kafka Connect."""
    plugins = _unpacked(archive(DEBEZIUM_LOCK, KAFKA_CONNECT, INSTEAD, say), home / DEBEZIUM)
    classpath = os.pathsep.join(map(str, jars(CONNECT_LOCK, KAFKA_CONNECT, INSTEAD, say)))
    return Connect(classpath, plugins, brokers, home)


def _unpacked(packed: Folder, target: Folder) -> Folder:
    """Return the unpacked tar.gz; renamed into place, so that an existing folder is complete."""
    if not target.exists():
        with TemporaryDirectory(dir=target.parent) as beside, tarfile.open(packed) as archived:
            whole = Folder(beside, "whole")
            archived.extractall(whole, filter="data")
            whole.rename(target)
    return target


STARTS: Mapping[str, Callable[[str, Folder, Say], Peer]] = {
    STREAMING: streaming,
    QUIX_STREAMS: quix_streams,
    KAFKA_CONNECT: connect,
}


@contextmanager
def peers_up(bench: Bench, say: Say) -> Generator[list[Path]]:
    """Start the available peers and yield them as paths. Reports what is missing for another, and skips it."""
    running: dict[str, Peer] = {}
    try:
        for name, start in STARTS.items():
            _start(name, start, running, bench, say)
        yield [Path(name, partial(_carry, peer), STAGED, ours=False) for name, peer in running.items()]
    finally:
        with undisturbed():
            for peer in running.values():
                peer.close()


def _start(
    name: str, start: Callable[[str, Folder, Say], Peer], running: dict[str, Peer], bench: Bench, say: Say
) -> None:
    say(f"starting {name} ...")
    if bench.endpoints.librdkafka:
        say(f"left out: {name}: TIDEGATE_KAFKA_* has options of librdkafka, which only librdkafka reads")
        return
    home = settings().home / "bench-peers" / start.__name__
    home.mkdir(parents=True, exist_ok=True)
    try:
        running[name] = start(bench.endpoints.bootstrap_servers, home, say)
    except BadInput as error:
        say(f"left out: {name}: {error}")


def _carry(peer: Peer, bench: Bench) -> int:
    """Make one pass into a new table; return its number of rows."""
    table, url = f"peer_{uuid4().hex[:6]}", bench.endpoints.postgres_url
    bench.create(by_hand.tables(f"bench.{table}"))
    task = Task(
        brokers=bench.endpoints.bootstrap_servers,
        topic=bench.topic,
        postgres_url=url,
        table=table,
        messages=bench.messages,
    )
    peer.carry(task)
    with psycopg.connect(url) as database:
        row = database.execute(f"SELECT count(amount) FROM bench.{table}".encode()).fetchone()
    assert row is not None
    return row[0]
