"""The staging area, as a task sees it: COPY for rows (ADBC, binary), one transaction for dead letters and coverage."""

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import UUID

import psycopg
import pyarrow as pa
from psycopg.types.json import Jsonb

from platform_defs.contract.model import Fault
from platform_defs.engine.gaps import Gaps
from platform_defs.engine.ports import FaultGroup, Staged
from platform_defs.engine.schema_ports import SchemaCount
from platform_defs.engine.task_ports import Coverage
from platform_defs.errors import LedgerAway, RowRefused, TidegateError
from platform_defs.formats.block import Block, headers_of
from platform_defs.offsets import OffsetRange
from resources.postgres.connection import (
    Connection,
    connect,
    database_errors,
    hidden_refusal,
    judged,
    queries,
    session_statement,
    session_url,
)
from resources.postgres.pooling import PROTOCOL
from resources.postgres.staging_tables import STAGING_SCHEMA

DEAD_LETTER_COPY = """COPY tidegate_staging.dead_letter (
    staging_id, attempt, partition, "offset", timestamp_ms, key, value,
    header_names, header_values, stage, error_class, error_message, field) FROM STDIN (FORMAT binary)"""
DEAD_LETTER_TYPES = (
    "int8",
    "uuid",
    "int4",
    "int8",
    "int8",
    "bytea",
    "bytea",
    "text[]",
    "bytea[]",
    "text",
    "text",
    "text",
    "text",
)


@dataclass(frozen=True)
class PostgresStaging:
    """One try at a batch. Picklable; each method opens a connection named `application_name`, so that it can be
    ended.
    """

    url: str = field(repr=False)  # it holds the password
    application_name: str
    staging_id: int
    table: str  # in STAGING_SCHEMA
    hides: bool = False  # no error may quote a row: values are classified

    def copy(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        """See engine.ports.StagingArea."""
        import adbc_driver_postgresql.dbapi as adbc

        source = _Source(batches)
        reader = pa.RecordBatchReader.from_batches(schema, iter(source))
        try:
            with _opened(self.url) as connection, connection.cursor() as cursor:
                cursor.execute(session_statement(self.url, self.application_name))
                rows = cursor.adbc_ingest(self.table, reader, mode="append", db_schema_name=STAGING_SCHEMA)
                connection.commit()
                return rows
        except adbc.Error as error:
            if source.failure is not None:  # what feeds COPY failed, and not Postgres
                raise source.failure from (None if self.hides else error)
            raise _copy_refused(error, self.url, hides=self.hides) from (None if self.hides else error)

    @contextmanager
    def recording(self) -> Generator["PostgresRecording"]:
        """See engine.ports.StagingArea."""
        with closing(connect(self.url, self.application_name)) as connection:
            yield PostgresRecording(connection, self.staging_id, self.hides)


class _Source:
    """`batches`, with what they raised: of that, COPY hands back a text alone."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self.batches = batches
        self.failure: Exception | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.batches
        except Exception as error:
            self.failure = error
            raise


def _copy_refused(error: Any, url: str, *, hides: bool) -> TidegateError:
    """The error of ours for adbc's. (Any: its classes are known where it is imported.)

    The driver gives no SQLSTATE where the connection is gone, and none for a value that it cannot write itself. Where
    Postgres answers, it was a value, if trying again shows the same.
    """
    quoted = hidden_refusal(error.sqlstate or "", {}) if hides else str(error).strip()
    said = f"COPY into staging: {quoted}"
    state: str | None = error.sqlstate
    if state and state != PROTOCOL:  # by which a pooler says that Postgres is away
        return judged(state, said, "staging")
    try:
        connect(url).close()
    except TidegateError as away:
        return away
    if state:
        return judged(state, said, "staging")
    return RowRefused(said, error_class="NotCopied")


def _opened(url: str) -> Any:
    """A connection of adbc's to `url`. (Any: most of adbc's methods have no types.)

    Its database is kept for as long as the process lives: to open one, adbc reads the columns of every table there is,
    which takes longer than to COPY a small batch.
    """
    import adbc_driver_manager as manager
    import adbc_driver_postgresql.dbapi as adbc

    database, shared = _database(os.getpid(), session_url(url, "tidegate/copy"))
    return adbc.Connection(shared, manager.AdbcConnection(database))


@cache
def _database(pid: int, session: str) -> tuple[Any, Any]:  # noqa: ARG001  # `pid`: a fork opens its own
    import adbc_driver_postgresql
    from adbc_driver_manager import dbapi

    database = adbc_driver_postgresql.connect(session)
    return database, dbapi._SharedDatabase(database)  # pyright: ignore[reportPrivateUsage]  # stays open with it


@dataclass(frozen=True)
class PostgresRecording:
    """See engine.ports.Recording."""

    connection: psycopg.Connection[tuple[Any, ...]]
    staging_id: int
    hides: bool = False

    @contextmanager
    def recorder(self, partition: int, attempt: UUID) -> Generator["PostgresRecorder"]:
        """A transaction that commits when the block ends well, with the coverage in it, and rolls back otherwise."""
        with database_errors(hides=self.hides), self.connection.transaction():
            yield PostgresRecorder(self.connection, self.staging_id, partition, attempt)


@dataclass
class PostgresRecorder:
    """See engine.ports.Recorder."""

    connection: psycopg.Connection[tuple[Any, ...]]
    staging_id: int
    partition: int
    attempt: UUID

    def dead_letters(self, block: Block, faults: Sequence[Fault]) -> None:
        if not faults:
            return
        with self.connection.cursor() as cursor, cursor.copy(DEAD_LETTER_COPY) as copy:
            copy.set_types(DEAD_LETTER_TYPES)
            for fault in faults:
                copy.write_row((self.staging_id, self.attempt, self.partition, *_letter(block, fault)))

    def cover(self, coverage: Coverage, gaps: Gaps) -> None:
        if self.connection.closed:
            raise LedgerAway("the connection that stores coverage is gone")
        span = coverage.range
        self.connection.execute(
            queries()["cover"],
            {
                "staging_id": self.staging_id,
                "attempt": coverage.attempt,
                "partition": span.partition,
                "from_offset": span.from_offset,
                "until_offset": span.until_offset,
                "messages": coverage.messages,
                "rows": coverage.rows,
                "dead_letters": coverage.dead_letters,
                "unknown_fields": coverage.unknown_fields,
                "gaps": gaps.text,
                "gap_digest": coverage.gap_digest,
                "leader_epoch": coverage.leader_epoch,
                "schemas": Jsonb([[one.generation, one.key, one.messages, one.part] for one in coverage.schemas]),
                "skipped_records": coverage.skipped_records,
            },
        )


def coverage_of(topic: str, row: tuple[Any, ...]) -> Coverage:
    """A row of the query `coverage`."""
    attempt, partition, start, until, messages, rows, dead, unknown, gap_digest, epoch, schemas, skipped = row
    span, named = OffsetRange(topic, partition, start, until), tuple(SchemaCount(*count) for count in schemas)
    return Coverage(span, attempt, messages, rows, dead, unknown, gap_digest, epoch, named, skipped)


def faults_of(connection: Connection, staged: Staged) -> list[FaultGroup]:
    """The dead letters of a batch by stage and error class, as they are in staging."""
    asked = {"staging_id": staged.staging_id, "attempts": [item.attempt for item in staged.coverage]}
    with database_errors():
        rows = connection.execute(queries()["fault_counts"], asked).fetchall()
    return [FaultGroup(stage, name, count, tuple(samples or ())) for stage, name, count, samples in rows]


def _letter(block: Block, fault: Fault) -> tuple[Any, ...]:
    """A dead letter, always storable: bytes as they came, the time as a plain number, texts without NUL."""
    message = block.message(fault.index)
    kind, timestamp = message.timestamp()
    headers = headers_of(message)
    names = [_storable(name) for name, _ in headers] or None
    values = [value for _, value in headers] or None
    return (
        message.offset(),
        timestamp if kind else None,
        message.key(),
        message.value(),
        names,
        values,
        fault.stage,
        fault.error_class,
        _storable(fault.message),
        fault.field and _storable(fault.field),
    )


def _storable(text: str) -> str:
    return text.replace("\0", "\\u0000").encode("utf-8", "replace").decode("utf-8")
