"""`make bench`: messages per second of each path, the same messages, one machine, one run; median of three, warm.

A machine's speed changes from minute to minute, so what is compared is each path with the hand-written loop of its own
round, and the medians are of those ratios; the two that matter most are measured right after one another.

    python -m bench [MESSAGES] [ROUNDS]

Where the stack is not running it is started, and stopped at the end, also when the benchmark is interrupted or cut off
by a time limit. Prints a Markdown table for docs/explanation/performance.md.
"""

import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

import psycopg
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from rich.console import Console

from assets import find_pipeline
from bench import by_hand
from bench.ending import ended_by_signals, stack_up
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
BY_HAND = "by hand: confluent-kafka, orjson, psycopg COPY, no checks"
say = Console(stderr=True).print


class Bench:
    """One topic filled once; each path carries the whole of it, each time into new tables."""

    def __init__(self, messages: int) -> None:
        self.messages, self.topic = messages, f"bench-{uuid4().hex[:6]}"
        self.endpoints = connection()
        self.options = self.endpoints.kafka_options()
        self.spark: SparkSession = start_session(spark_config())
        self.bank = find_pipeline("bank_transfers")
        self.hands = by_hand.processes()

    def fill(self) -> None:
        """The transfers of spikes/data_path.py: 180 bytes each, all good."""
        admin = AdminClient({**self.options})
        admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)])[self.topic].result(30)
        producer = Producer(
            {**self.options, "linger.ms": 50, "batch.size": 1_000_000, "compression.type": "lz4", "acks": "all"}
        )
        rng = random.Random(1)  # noqa: S311  # accounts and amounts, not secrets
        for i in range(self.messages):
            value = (
                b'{"transfer_id":"T%d","debit_account":"A%05d","credit_account":"A%05d","amount":"%d.%02d",'
                b'"currency":"EUR","occurred_at":"2026-11-%02dT10:00:00Z","memo":"payment number %d"}'
                % (
                    i,
                    rng.randrange(100_000),
                    rng.randrange(100_000),
                    rng.randrange(1, 1000),
                    rng.randrange(100),
                    rng.randrange(1, 29),
                    i,
                )
            )
            while True:
                try:
                    producer.produce(self.topic, value, partition=i % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush()

    def source_only(self) -> None:
        """Read, decode and check; keep nothing."""
        contract = self._contract("source", transformed=False)
        view = KafkaBroker(self.options).describe(self.topic)
        ranges = tuple(OffsetRange(self.topic, p, held.low, held.end) for p, held in sorted(view.partitions.items()))
        rows = read_alone(self.spark, contract, KafkaSource(self.options), ranges)
        assert rows == self.messages, rows  # noqa: S101

    def staged(self) -> None:
        """All eight steps, without a transform."""
        self._drain(Pipeline(self._contract("staged", transformed=False)))

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
    with ended_by_signals(), stack_up(lambda text: say(text)):
        auditor.load()
        bench = Bench(messages)
        try:
            report(_all_rounds(bench, messages, rounds), messages)
        finally:
            bench.close()


def _all_rounds(bench: Bench, messages: int, rounds: int) -> dict[str, list[float]]:
    """By path, the messages per second of each round."""
    say(f"filling a topic with {messages:,} messages ...")
    bench.fill()
    paths = {
        "source only": bench.source_only,
        "staged with a PySpark transform (two rows a message, and balances)": bench.staged_with_transform,
        "staged, with checks, audit and publish": bench.staged,
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
    print("| path | messages/s | against by hand, in the same round |\n|---|---|---|")  # noqa: T201
    for name, speeds in seen.items():
        ratios = sorted(speed / yardstick for speed, yardstick in zip(speeds, hand, strict=True))
        between = "" if name == BY_HAND else f" ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(f"| {name} | {statistics.median(speeds):,.0f} | {statistics.median(ratios):.2f}{between} |")  # noqa: T201


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
