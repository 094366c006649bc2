"""The staging area of a task: binary COPY for rows, one transaction for dead letters and coverage."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.types.json import Jsonb

from platform_defs.contract.model.contract import Fault
from platform_defs.engine.interfaces.gaps import Gaps
from platform_defs.engine.interfaces.source_and_staging import Coverage
from platform_defs.engine.interfaces.staged import FaultGroup, Staged
from platform_defs.engine.staging.binary_copy import copy_rows
from platform_defs.engine.staging.staging_tables import STAGING_SCHEMA
from platform_defs.errors import LedgerAway
from platform_defs.formats.blocks.block import Block, headers_of
from platform_defs.ledger.published import SchemaCount
from platform_defs.offsets import OffsetRange
from platform_defs.postgres.connection import Connection, connect, database_errors, queries

DEAD_LETTER_COPY = """COPY tidegate_staging.dead_letter (
    staging_id, attempt, partition, "offset", timestamp_ms, key, value,
    header_names, header_values, stage, error_class, error_message, field) FROM STDIN (FORMAT binary)"""
DEAD_LETTER_TYPES = ["int8", "uuid", "int4", "int8", "int8", "bytea", "bytea", "text[]", "bytea[]", *["text"] * 4]


@dataclass(frozen=True)
class PostgresStaging:
    """One try at a batch. Picklable; each method opens a connection named `application_name`, so that it can be
    ended.
    """

    url: str = field(repr=False)  # contains the password
    application_name: str
    staging_id: int
    table: str  # in STAGING_SCHEMA

    def copy(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        """See StagingArea."""
        table = sql.Identifier(STAGING_SCHEMA, self.table)
        with closing(connect(self.url, self.application_name)) as connection, database_errors("staging"):
            return copy_rows(connection, table, batches, schema)

    @contextmanager
    def recording(self) -> Generator["PostgresRecording"]:
        """See StagingArea."""
        with closing(connect(self.url, self.application_name)) as connection:
            yield PostgresRecording(connection, self.staging_id)


@dataclass(frozen=True)
class PostgresRecording:
    """See Recording."""

    connection: psycopg.Connection[tuple[Any, ...]]
    staging_id: int

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Open a transaction that commits, with the coverage in it, when the block ends well; else it rolls back."""
        with database_errors(), self.connection.transaction():
            yield

    def dead_letters(self, partition: int, attempt: UUID, block: Block, faults: Sequence[Fault]) -> None:
        if not faults:
            return
        with self.connection.cursor() as cursor, cursor.copy(DEAD_LETTER_COPY) as copy:
            copy.set_types(DEAD_LETTER_TYPES)
            for fault in faults:
                copy.write_row((self.staging_id, attempt, partition, *_letter(block, fault)))

    def cover(self, coverage: Coverage, gaps: Gaps) -> None:
        if self.connection.closed:
            raise LedgerAway("the connection that stores coverage was lost")
        schemas = Jsonb([[one.generation, one.key, one.messages, one.part] for one in coverage.schemas])
        span = {name: getattr(coverage.range, name) for name in ("partition", "from_offset", "until_offset")}
        own = {"staging_id": self.staging_id, "gaps": gaps.text, "schemas": schemas}
        self.connection.execute(queries()["cover"], {**vars(coverage), **span, **own})


def coverage_of(topic: str, row: tuple[Any, ...]) -> Coverage:
    """Return the Coverage from a row of the query `coverage`."""
    attempt, partition, start, until, messages, rows, dead, unknown, gap_digest, epoch, schemas, skipped = row
    span, named = OffsetRange(topic, partition, start, until), tuple(SchemaCount(*count) for count in schemas)
    return Coverage(
        range=span,
        attempt=attempt,
        messages=messages,
        rows=rows,
        dead_letters=dead,
        unknown_fields=unknown,
        gap_digest=gap_digest,
        leader_epoch=epoch,
        schemas=named,
        skipped_records=skipped,
    )


def faults_of(connection: Connection, staged: Staged) -> list[FaultGroup]:
    """Return the staged dead letters of a batch by stage and error class."""
    asked = {"staging_id": staged.staging_id, "attempts": [item.attempt for item in staged.coverage]}
    with database_errors():
        rows = connection.execute(queries()["fault_counts"], asked).fetchall()
    return [FaultGroup(stage, name, count, tuple(samples or ())) for stage, name, count, samples in rows]


def _letter(block: Block, fault: Fault) -> tuple[Any, ...]:
    """Return a dead letter that is always storable: original bytes, the time as a plain number, texts without NUL."""
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
