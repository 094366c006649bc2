"""`make bench`: messages per second of each path, the same messages, one machine, one run; median of three, warm.

A machine's speed changes from minute to minute, so what is compared is each path with the hand-written loop of its own
round, and the medians are of those ratios; the two that matter most are measured right after one another.

    python -m bench [MESSAGES] [ROUNDS]

Where the stack is not running it is started, and stopped at the end, also when the benchmark is interrupted or cut off
by a time limit. Prints a Markdown table for docs/explanation/performance.md.
"""

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from uuid import uuid4

import psycopg
from pyspark.sql import SparkSession
from rich.console import Console

from assets import find_pipeline
from bench import by_hand, formats
from bench.ending import ended_by_signals, stack_up
from bench.formats import Written
from platform_defs.contract.model import Column, Contract, Table
from platform_defs.contract.pipeline import Pipeline
from platform_defs.engine.batch import drain
from platform_defs.engine.keep_nothing import read_alone
from platform_defs.offsets import OffsetRange
from platform_defs.operations.open_run import open_run
from resources.endpoints import connection
from resources.kafka.broker import KafkaBroker
from resources.kafka.source import KafkaSource
from resources.postgres import auditor
from resources.spark.session import spark_config, start_session

PARTITIONS = 4
STAGED = "staged, with checks, audit and publish"
DIRECT = "direct, with checks: each range published by the task that reads it"
BY_HAND = "by hand: confluent-kafka, orjson, psycopg COPY, no checks"
say = Console(stderr=True).print


class Bench:
    """One topic filled once; each path carries the whole of it, each time into new tables."""

    def __init__(self, messages: int) -> None:
        self.messages, self.topic = messages, f"bench-{uuid4().hex[:6]}"
        self.endpoints = replace(connection(), registry=None)  # the ledger has the schemas: no registry is asked
        self.options = self.endpoints.kafka_options()
        self.spark: SparkSession = start_session(spark_config())
        self.bank = find_pipeline("bank_transfers")
        self.hands = by_hand.processes()

    def fill(self) -> None:
        """The same transfers into a topic for each format, all good."""
        formats.fill(self.options, self.topic, self.messages, PARTITIONS)
        formats.know_schemas(self.endpoints.postgres_url)

    def source_only(self) -> None:
        """Read, decode and check; keep nothing."""
        contract = self._contract("source", transformed=False)
        view = KafkaBroker(self.options).describe(self.topic)
        ranges = tuple(OffsetRange(self.topic, p, held.low, held.end) for p, held in sorted(view.partitions.items()))
        rows = read_alone(self.spark, contract, KafkaSource(self.options), ranges)
        assert rows == self.messages, rows  # noqa: S101

    def staged(self, written: Written = formats.JSON) -> None:
        """All eight steps, without a transform."""
        contract, topic = self._contract("staged", transformed=False), written.topic(self.topic)
        self._drain(Pipeline(replace(contract, topic=topic, format=written.format, wire=written.wire)))

    def direct(self) -> None:
        """Each range a batch of its own, without batch rules."""
        contract = self._contract("direct", transformed=False)
        plain = replace(contract.row_table, batch_rules=())
        self._drain(Pipeline(replace(contract, tables=(plain,), publication="direct")))

    def staged_with_transform(self) -> None:
        """All eight steps of bank.transfers: twice as many rows, and balances."""
        self._drain(Pipeline(self._contract("transformed", transformed=True), self.bank.transform))

    def by_hand(self) -> None:
        """The hand-written loop."""
        table = f"bench.hand_{uuid4().hex[:6]}"
        with psycopg.connect(self.endpoints.postgres_url, autocommit=True) as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS by_hand_offsets (topic text, partition int, next_offset bigint, PRIMARY KEY"
                " (topic, partition))"
            )
            query = (
                f"CREATE TABLE {table} (transfer_id text, debit_account text, credit_account text, amount"
                " numeric(18,2), currency text, occurred_at timestamptz, memo text, _partition int, _offset bigint)"
            )
            database.execute(query.encode())
        view = KafkaBroker(self.options).describe(self.topic)
        spans = [(p, held.low, held.end) for p, held in sorted(view.partitions.items())]
        done = by_hand.run(self.hands, self.options, self.endpoints.postgres_url, self.topic, table, spans)
        assert done == self.messages, done  # noqa: S101

    def clean(self) -> None:
        """Between two measurements: drop what the last one wrote, and let Postgres write out what it owes."""
        with psycopg.connect(self.endpoints.postgres_url, autocommit=True) as database:
            database.execute("DROP SCHEMA IF EXISTS bench CASCADE")
            database.execute("CREATE SCHEMA bench")
            database.execute("CHECKPOINT")

    def close(self) -> None:
        """End Spark and the processes of the loop written by hand."""
        self.hands.terminate()
        self.hands.join()
        self.spark.stop()

    def _drain(self, pipeline: Pipeline) -> None:
        with open_run(pipeline, self.endpoints, lambda: self.spark) as outside:
            done = sum(batch.messages for batch in drain(pipeline, outside))
        assert done == self.messages, done  # noqa: S101

    def _contract(self, name: str, *, transformed: bool) -> Contract:
        """bank.transfers on the bench's topic; untransformed, its row table holds the message's own fields."""
        bank, run = self.bank.contract, f"bench_{name}_{uuid4().hex[:6]}"
        if transformed:
            tables = tuple(_moved(table, f"bench.{run}_{n}") for n, table in enumerate(bank.tables))
        else:
            columns = tuple(Column(item.name, item.type, item.required) for item in bank.fields)
            rules = tuple(rule for rule in bank.row_table.batch_rules if rule.name != "postings_sum_to_zero")
            tables = (_moved(replace(bank.row_table, columns=columns, batch_rules=rules), f"bench.{run}"),)
        return replace(bank, pipeline=run, topic=self.topic, tables=tables)


def _moved(table: Table, name: str) -> Table:
    return replace(table, name=name, batch_rules=tuple(replace(rule, table=name) for rule in table.batch_rules))


def measure(path: Callable[[], None], messages: int) -> float:
    """Messages per second of one pass."""
    started = time.perf_counter()
    path()
    return messages / (time.perf_counter() - started)


def main(messages: int = 2_000_000, rounds: int = 3) -> None:
    os.environ["TIDEGATE_REGISTRY_NAME"] = formats.REGISTRY
    with ended_by_signals(), stack_up(lambda text: say(text)):
        auditor.load()
        bench = Bench(messages)
        try:
            report(_all_rounds(bench, messages, rounds), messages)
        finally:
            bench.close()


def _all_rounds(bench: Bench, messages: int, rounds: int) -> dict[str, list[float]]:
    """By path, the messages per second of each round."""
    say(f"filling {len(formats.ALL)} topics with {messages:,} messages each ...")
    bench.fill()
    paths = {
        "source only": bench.source_only,
        "staged with a PySpark transform (two rows a message, and balances)": bench.staged_with_transform,
        STAGED: bench.staged,
        **{one.name: partial(bench.staged, one) for one in formats.FRAMED},
        DIRECT: bench.direct,
        BY_HAND: bench.by_hand,
    }
    seen: dict[str, list[float]] = {name: [] for name in paths}
    for number in range(rounds + 1):  # the first round is cold and not counted
        for name, path in paths.items():
            bench.clean()
            speed = measure(path, messages)
            say(f"round {number} {'(cold) ' if number == 0 else ''}{name}: {speed:,.0f} messages/s")
            if number:
                seen[name].append(speed)
    bench.clean()
    return seen


def report(seen: Mapping[str, Sequence[float]], messages: int) -> None:
    """The table, as docs/explanation/performance.md shows it, of the messages per second of each path in each round."""
    hand = seen[BY_HAND]
    print(  # noqa: T201
        f"{messages:,} messages of about 180 bytes, {PARTITIONS} partitions; warm, median of {len(hand)}; "
        f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, broker and database on the"
        " same cores.\n"
    )
    framed = [one.name for one in formats.FRAMED]
    _table({name: speeds for name, speeds in seen.items() if name not in framed}, BY_HAND, "by hand")
    print()  # noqa: T201
    _table({name: seen[name] for name in (STAGED, *framed)}, STAGED, "JSON")


def _table(seen: Mapping[str, Sequence[float]], yardstick: str, called: str) -> None:
    print(f"| path | messages/s | against {called}, in the same round |\n|---|---|---|")  # noqa: T201
    for name, speeds in seen.items():
        ratios = sorted(speed / other for speed, other in zip(speeds, seen[yardstick], strict=True))
        between = "" if name == yardstick else f" ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(f"| {name} | {statistics.median(speeds):,.0f} | {statistics.median(ratios):.2f}{between} |")  # noqa: T201


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
