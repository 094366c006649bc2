"""The time that a cold `dagster asset materialize` takes until its first batch is committed.

    python -m bench.start [ROUNDS]

A separate stack below TIDEGATE_HOME, deleted at the end. Each round sends 1,000 transfers and starts a new process, as
a user or Kubernetes does; the round before them makes the ledger and the tables, and does not count. The disk's content
stays in the system's cache: the process is cold, not the machine.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import psycopg
import typer
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.ending import ended_by_signals, own_home, say, stack_up
from bench.peers.process import end_group
from bench.reports.aims import Figure, Result, table
from bench.transfers import as_json, transfers
from platform_defs.errors import TidegateError
from platform_defs.settings.contracts import find_pipeline
from platform_defs.stack.endpoints import Endpoints, connection

MESSAGES, PARTITIONS, AIM = 1_000, 4, 10.0
SELECTION = 'group:"bank"'
LOOK = 0.02  # seconds between two polls of the ledger: the precision of the figure
LIMIT = 180.0  # maximum seconds until a commit
Say = Callable[[str], None]


def result(say: Say, _messages: int, rounds: int = 3) -> Result:
    """Return the seconds until the first commit, the median of the rounds."""
    with own_home("bench-start") as home, stack_up(say):
        endpoints = connection()
        topic = find_pipeline("bank_transfers").contract.topic
        _create(endpoints, topic)
        seconds = [_first_commit(endpoints, topic, home / "materialize.log") for _ in range(rounds + 1)]
    for number, one in enumerate(seconds):
        say(f"round {number} {'(makes the tables) ' if number == 0 else ''}until the first commit: {one:.1f} s")
    what = f"dagster asset materialize, cold, to the first commit of {MESSAGES:,} messages"
    figure = Figure(what, statistics.median(seconds[1:]), AIM, "at most", " s")
    return Result(f"Seconds of each round: {', '.join(f'{one:.1f}' for one in seconds[1:])}.", [figure])


def _first_commit(endpoints: Endpoints, topic: str, log: Path) -> float:
    """Send, materialize in a new process, and return the seconds to its commit; waits until the process ends."""
    _send(endpoints, topic)
    with psycopg.connect(endpoints.postgres_url, autocommit=True) as database, log.open("w") as output:
        before = _batches(database)
        started = time.perf_counter()
        run = _materialize(output)
        try:
            while _batches(database) == before:
                if run.poll() is not None or time.perf_counter() - started > LIMIT:
                    raise TidegateError(f"nothing was committed. The end of {log}:\n{log.read_text()[-2000:]}")
                time.sleep(LOOK)  # the ledger sends no notification
            seconds = time.perf_counter() - started
            run.wait(LIMIT)
        finally:
            end_group(run)
    return seconds


def _create(endpoints: Endpoints, topic: str) -> None:
    admin = AdminClient(endpoints.kafka_options())  # kept: its requests end with it
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)


def _send(endpoints: Endpoints, topic: str) -> None:
    producer = Producer({**endpoints.kafka_options(), "acks": "all"})
    for number, transfer in enumerate(transfers(MESSAGES)):
        producer.produce(topic, as_json(transfer), partition=number % PARTITIONS)
    producer.flush()


def _materialize(output: IO[str]) -> "subprocess.Popen[str]":
    dagster = Path(sys.executable).with_name("dagster")
    command = [str(dagster), "asset", "materialize", "-m", "platform_defs.definitions", "--select", SELECTION]
    return subprocess.Popen(
        command,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "DAGSTER_DISABLE_TELEMETRY": "1"},
        start_new_session=True,
    )


def _batches(database: psycopg.Connection) -> int:
    """Return how many are committed; 0 if there is no ledger yet."""
    there = database.execute("SELECT to_regclass('tidegate.batch') IS NOT NULL").fetchone()
    if there is None or not there[0]:
        return 0
    row = database.execute("SELECT count(*) FROM tidegate.batch").fetchone()
    assert row is not None
    return row[0]


def main(rounds: int = typer.Argument(3, min=1, help="That count.")) -> None:
    """Measure it, and print the figure and its aim."""
    with ended_by_signals():
        print(table(result(say, MESSAGES, rounds).figures))


if __name__ == "__main__":
    typer.run(main)
