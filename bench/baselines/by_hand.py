"""The loop that a careful user writes by hand without us: the yardstick of `make bench`.

confluent-kafka, orjson and psycopg's binary COPY in two processes; the offsets go into the same transaction as the
rows. It has no checks of rules, no dead letters, no audit, no fencing and no lineage: a bad message stops it.
"""

import multiprocessing
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from multiprocessing.pool import Pool
from typing import Any

import orjson
import psycopg
from confluent_kafka import Consumer, TopicPartition

COMMIT_EVERY = 250_000  # messages a transaction, as large as a batch of ours for two of four partitions
TYPES = ("text", "text", "text", "numeric", "text", "timestamptz", "text", "int4", "int8")
Span = tuple[int, int, int]  # partition, from_offset, until_offset
Carry = Callable[[Consumer, psycopg.Connection, str, Span], int]  # takes the topic; returns the number of messages


def tables(table: str) -> str:
    """Return the SQL that creates the table of `carry_rows` and that of the offsets."""
    return (
        "CREATE TABLE IF NOT EXISTS bench.by_hand_offsets (topic text, partition int, next_offset bigint,"
        f" PRIMARY KEY (topic, partition)); CREATE TABLE {table} (transfer_id text, debit_account text,"
        " credit_account text, amount numeric(18,2), currency text, occurred_at timestamptz, memo text,"
        " _partition int, _offset bigint)"
    )


def processes() -> Pool:
    """Return two processes, up and with everything imported: as warm as Spark's workers are."""
    pool = multiprocessing.get_context("spawn").Pool(2)
    pool.map(_row_of_nothing, range(2))
    return pool


def run(pool: Pool, carry: Carry, options: dict[str, str], url: str, topic: str, spans: Sequence[Span]) -> int:
    """Carry `spans` of `topic` with a loop, half of them in each of two processes; return the number of messages."""
    return sum(pool.map(partial(_carry_all, carry, options, url, topic), [spans[0::2], spans[1::2]]))


def _row_of_nothing(_: int) -> None:
    """Do nothing; the call imports this module."""


def _carry_all(carry: Carry, options: dict[str, str], url: str, topic: str, mine: Sequence[Span]) -> int:
    consumer = Consumer(
        {
            **options,
            "group.id": "by-hand",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "queued.min.messages": 200_000,
            "queued.max.messages.kbytes": 65_536,
            "fetch.message.max.bytes": 4_194_304,
            "fetch.wait.max.ms": 50,
            "fetch.queue.backoff.ms": 5,  # as ours; the default is a second
        }
    )
    with psycopg.connect(url, autocommit=True) as connection:
        done = sum(carry(consumer, connection, topic, span) for span in mine)
    consumer.close()
    return done


def carry_rows(table: str, consumer: Consumer, connection: psycopg.Connection, topic: str, span: Span) -> int:
    """Write a row for each message into `table`; return the number of messages."""
    partition, start, until = span
    consumer.assign([TopicPartition(topic, partition, start)])
    position = start
    while position < until:
        stop = min(until, position + COMMIT_EVERY)
        with connection.transaction(), connection.cursor() as cursor:
            with cursor.copy(f"COPY {table} FROM STDIN (FORMAT binary)") as copy:  # pyright: ignore[reportArgumentType]
                copy.set_types(TYPES)
                while position < stop:
                    for message in consumer.consume(min(20_000, stop - position), 5.0):
                        copy.write_row(_row(message, partition))
                        position = message.offset() + 1  # pyright: ignore[reportOptionalOperand]  # it was read
            keep_offset(cursor, topic, partition, position)
    return until - start


def keep_offset(cursor: psycopg.Cursor, topic: str, partition: int, position: int) -> None:
    """Write the next offset to read, in the transaction of the rows."""
    cursor.execute(
        "INSERT INTO bench.by_hand_offsets VALUES (%s, %s, %s) ON CONFLICT (topic, partition) "
        "DO UPDATE SET next_offset = excluded.next_offset",
        (topic, partition, position),
    )


def _row(message: Any, partition: int) -> tuple[Any, ...]:
    fields = orjson.loads(message.value())
    return (
        fields["transfer_id"],
        fields["debit_account"],
        fields["credit_account"],
        Decimal(fields["amount"]),
        fields["currency"],
        datetime.fromisoformat(fields["occurred_at"]),
        fields["memo"],
        partition,
        message.offset(),
    )
