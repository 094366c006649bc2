"""The loop that a careful user writes by hand for bank.transfers: two postings a message, and balances.

As bench/baselines/by_hand.py: two processes, binary COPY, and the offsets in the same transaction as their rows. The
balances are summed up in Python and merged once a transaction, in the order of their keys, so that two transactions
cannot lock each other out.
"""

from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from typing import Any

import orjson
import psycopg
from confluent_kafka import Consumer, TopicPartition
from psycopg import Copy

from bench.baselines.by_hand import COMMIT_EVERY, Span, keep_offset

TYPES = ("text", "text", "numeric", "text", "timestamptz", "int4", "int8")


class Balances:
    """Sum and number of the postings of each account, since the last transaction."""

    def __init__(self) -> None:
        self.sums: defaultdict[str, Decimal] = defaultdict(Decimal)
        self.counts: defaultdict[str, int] = defaultdict(int)

    def merge_into(self, cursor: psycopg.Cursor, table: str) -> None:
        """Add all of them to the table's."""
        accounts = sorted(self.sums)
        query = (
            f"INSERT INTO {table} AS t SELECT * FROM unnest(%s::text[], %s::numeric[], %s::bigint[]) ON CONFLICT"
            " (account) DO UPDATE SET balance = t.balance + excluded.balance, postings = t.postings + excluded.postings"
        )
        sums, counts = [self.sums[one] for one in accounts], [self.counts[one] for one in accounts]
        cursor.execute(query.encode(), (accounts, sums, counts))


def tables(name: str) -> str:
    """Return the SQL that creates the tables of `carry_postings`."""
    return (
        "CREATE TABLE IF NOT EXISTS bench.by_hand_offsets (topic text, partition int, next_offset bigint,"
        f" PRIMARY KEY (topic, partition)); CREATE TABLE {name}_postings (transfer_id text, account text,"
        " amount numeric(18,2), currency text, occurred_at timestamptz, _partition int, _offset bigint);"
        f" CREATE TABLE {name}_balances (account text PRIMARY KEY, balance numeric(28,2), postings bigint)"
    )


def carry_postings(name: str, consumer: Consumer, connection: psycopg.Connection, topic: str, span: Span) -> int:
    """Write two rows for each message into `name`_postings, their sums into `name`_balances."""
    partition, start, until = span
    consumer.assign([TopicPartition(topic, partition, start)])
    position = start
    while position < until:
        stop, balances = min(until, position + COMMIT_EVERY), Balances()
        with connection.transaction(), connection.cursor() as cursor:
            with cursor.copy(f"COPY {name}_postings FROM STDIN (FORMAT binary)".encode()) as copy:
                copy.set_types(TYPES)
                while position < stop:
                    for message in consumer.consume(min(20_000, stop - position), 5.0):
                        _post(copy, balances, message, partition)
                        position = message.offset() + 1  # pyright: ignore[reportOptionalOperand]  # it was read
            balances.merge_into(cursor, f"{name}_balances")
            keep_offset(cursor, topic, partition, position)
    return until - start


def _post(copy: Copy, balances: Balances, message: Any, partition: int) -> None:
    fields, offset = orjson.loads(message.value()), message.offset()
    amount, time_of = Decimal(fields["amount"]), datetime.fromisoformat(fields["occurred_at"])
    transfer, currency = fields["transfer_id"], fields["currency"]
    debit, credit = fields["debit_account"], fields["credit_account"]
    copy.write_row((transfer, debit, -amount, currency, time_of, partition, offset))
    copy.write_row((transfer, credit, amount, currency, time_of, partition, offset))
    balances.sums[debit] -= amount
    balances.sums[credit] += amount
    balances.counts[debit] += 1
    balances.counts[credit] += 1
