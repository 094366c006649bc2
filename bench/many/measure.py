"""One measurement: the stack, the topics, Dagster, the messages for some minutes, and a minute without any."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import psycopg

from bench.ending import own_home, stack_up, undisturbed
from bench.many import ledger, processes
from bench.many.ledger import Batches, Tick
from bench.many.load import Load, create_topics, recreate_topic
from bench.many.plan import PARTITIONS, Planned, plan, write_project
from bench.many.watch import BENCH, Look, Watch
from platform_defs.contract.model.contract import Limits
from platform_defs.stack import dagster_dev as ui
from platform_defs.stack.endpoints import Endpoints, connection
from platform_defs.topics.dagster import sensor as topics

FIRST_ROUND = 600.0  # maximum seconds for what happens once: a run starts cold, tables are made, a backlog is read
STEADY = 60.0  # seconds without a late pipeline, after which that is over
CATCH_UP = 120.0  # maximum seconds from the last message until all are read and no run works
STATISTICS = 1.0  # seconds after which Postgres has counted a session's work
SETTLE = 10.0  # for the runs that end

LATENCY = Limits().lag_seconds  # of every contract
ALLOWED = 60.0  # seconds beyond it that a message may wait

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Broker:
    """The topics' needs from the broker."""

    seconds: float  # to create them
    memory_mb: float
    handles: int
    maps: int


@dataclass(frozen=True)
class Measured:
    """The data of the report. Shares are of one core."""

    planned: tuple[Planned, ...]
    first_round: float | None  # seconds from the first message until no pipeline was behind; None: some still were
    started: float  # when that was over and the measurement began, seconds since the epoch
    minutes: float
    latency: float  # seconds, in every contract
    messages: int
    broker: Broker
    looks: list[Look]
    ticks: list[Tick]
    batches: Batches
    runs: list[tuple[str, int, float | None]]
    inserted: Mapping[str, int]
    busy: Mapping[str, float]
    idle: Mapping[str, float]
    caught_up: float | None  # seconds after the last message until everything was read


def measure(pipelines: int, minutes: float, idle: float, say: Progress) -> Measured:
    """Measure `pipelines` pipelines for so many minutes, then for `idle` seconds without messages.

    In a separate home, which is deleted at the end.
    """
    planned = plan(pipelines)
    with own_home("bench-many", _stop_what_a_killed_one_left) as home, stack_up(say):
        write_project(home / "project", planned)
        endpoints = connection()
        broker = _topics(endpoints, planned, home, say)
        with _dagster(home, say):
            return _watched(planned, endpoints, home, broker, minutes, idle, say)


def _stop_what_a_killed_one_left(home: Path) -> None:
    from platform_defs.stack import stack

    if home.exists():
        ui.down()
        stack.reset()


def _topics(endpoints: Endpoints, planned: tuple[Planned, ...], home: Path, say: Progress) -> Broker:
    say(f"creating {len(planned)} topics of {PARTITIONS} partitions")
    started = time.monotonic()
    create_topics(endpoints.kafka_options(), [item.topic for item in planned])
    seconds = time.monotonic() - started
    return Broker(seconds, *processes.broker_needs(home))


@contextmanager
def _dagster(home: Path, say: Progress) -> Generator[None]:
    """Run `tidegate ui up`, in the project of this home."""
    project = home / "project"
    say("starting Dagster")
    try:
        subprocess.run(
            [sys.executable, "-m", "platform_defs.cli.main", "ui", "up"],
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(project), "DAGSTER_HOME": str(project)},
            check=True,
        )
        yield
    finally:
        with undisturbed():
            ui.down()


def _watched(
    planned: tuple[Planned, ...],
    endpoints: Endpoints,
    home: Path,
    broker: Broker,
    minutes: float,
    idle: float,
    say: Progress,
) -> Measured:
    load = Load(endpoints.kafka_options(), planned)
    watch = Watch(endpoints.postgres_url, load.times, planned)
    with psycopg.connect(endpoints.postgres_url, autocommit=True, application_name=BENCH) as database:
        load.start()
        watch.start()
        try:
            first_round = _first_round(planned, watch, say)
            rows, cpu, started = ledger.rows_inserted(database), processes.cpu_seconds(home), time.time()
            looks_before, sent_before = len(watch.looks), load.messages
            _let_it_run(planned, endpoints, watch, started + 60 * minutes, say)
            load.stop()
            busy = processes.shares(cpu, processes.cpu_seconds(home), time.time() - started)
            looks, sent = watch.looks[looks_before:], load.messages - sent_before
            ticks, batches = ledger.ticks(database, started), ledger.batches(database, started)
            runs = ledger.runs(database, started)
            time.sleep(STATISTICS)
            added = Counter(ledger.rows_inserted(database))
            added.subtract(rows)
            caught_up = _caught_up(database, watch, min(CATCH_UP, 60 * minutes), say)
            return Measured(
                planned=planned,
                first_round=first_round,
                started=started,
                minutes=minutes,
                latency=LATENCY,
                messages=sent,
                broker=broker,
                looks=looks,
                ticks=ticks,
                batches=batches,
                runs=runs,
                inserted=added,
                busy=busy,
                idle=_idle(home, idle, say),
                caught_up=caught_up,
            )
        finally:
            load.stop()
            watch.stop()


def _first_round(planned: tuple[Planned, ...], watch: Watch, say: Progress) -> float | None:
    """Return the seconds until every pipeline has committed, and none has had a message that is too old for STEADY
    s.
    """
    measured = [item.topic for item in planned if item.measured]
    began = last_late = time.monotonic()
    while (seconds := time.monotonic() - began) < FIRST_ROUND:
        time.sleep(1)
        late = [topic for topic in measured if watch.looks and watch.looks[-1].ages[topic] > LATENCY + ALLOWED]
        read = watch.moved.issuperset(measured)
        if late or not read:
            last_late = time.monotonic()
        elif time.monotonic() - last_late > STEADY:
            return seconds
        if int(seconds) % 10 == 0:
            say(f"the first round: {len(watch.moved)} topics read, {len(late)} pipelines behind")
    return None


def _let_it_run(planned: tuple[Planned, ...], endpoints: Endpoints, watch: Watch, until: float, say: Progress) -> None:
    """Wait until then; when the pipeline that is to halt has read something, create its topic again."""
    halting, recreated = next(item for item in planned if item.kind == "halted"), False
    message = 0.0
    while (now := time.time()) < until:
        if not recreated and halting.topic in watch.moved:
            recreate_topic(endpoints.kafka_options(), halting.topic)
            recreated = True
        if now - message >= 10 and watch.looks:
            ages = [watch.looks[-1].ages[item.topic] for item in planned if item.measured]
            say(f"{until - now:.0f} s to go; {len(watch.moved)} topics read; the oldest unread: {max(ages):.0f} s")
            message = now
        time.sleep(0.5)


def _caught_up(database: psycopg.Connection, watch: Watch, most: float, say: Progress) -> float | None:
    """Return the seconds until everything is read, at most `most`, when no run works and topics are recorded."""
    say("no more messages; waiting until all are read")
    began, read = time.monotonic(), None
    while time.monotonic() - began < most:
        time.sleep(1)
        if read is None and watch.unread() == 0:
            read = time.monotonic() - began
        if read is not None and not ledger.working_runs(database):
            break
    say("waiting until the topics' last offsets are recorded")
    count = len(watch.planned)
    every = topics.EVERY if count <= topics.PAGE else topics.EVERY_PAGE
    time.sleep(SETTLE + every * ceil(count / topics.PAGE))
    return read


def _idle(home: Path, seconds: float, say: Progress) -> dict[str, float]:
    say(f"{seconds:.0f} s without messages")
    before, began = processes.cpu_seconds(home), time.monotonic()
    time.sleep(seconds)
    return processes.shares(before, processes.cpu_seconds(home), time.monotonic() - began)
