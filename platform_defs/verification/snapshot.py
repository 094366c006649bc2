"""Postgres in one moment: positions, batch ranges, tables and dead letters, all from one REPEATABLE READ snapshot."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import psycopg
import pyarrow as pa
import pyarrow.compute
from psycopg import sql

from platform_defs.contract.model import Contract, Table
from platform_defs.errors import BadInput
from platform_defs.verification.spans import Span, less, within
from resources.postgres.connection import connect, database_errors, queries, session_url

pc: Any = pyarrow.compute  # its functions are made at import, where no type checker sees them
OWN = (("_partition", pa.int32()), ("_offset", pa.int64()))


@dataclass(frozen=True)
class Partition:
    """A partition as the ledger knows it. Spans are clipped to the log that is there now."""

    number: int
    topic_id: str
    start: int
    next: int
    covered: list[Span]  # by committed batches, as committed: an offset may stand there twice
    gaps: list[Span]  # that the broker never delivered, as the batches say
    skips: list[Span]  # that a person gave up


@dataclass(frozen=True)
class DeadLetter:
    partition: int
    offset: int
    stage: str
    error_class: str
    value: bytes | None


@dataclass(frozen=True)
class LostHistory:
    """Rows of these offsets, in batches up to `until_batch`, came from a log that is gone."""

    partition: int
    from_offset: int
    until_offset: int
    until_batch: int


class Snapshot:
    """What one transaction sees. Streams are ordered by (partition, offset) and are read once."""

    def __init__(self, connection: psycopg.Connection[Any], url: str, contract: Contract) -> None:
        self._connection, self._url, self.contract = connection, url, contract
        (self._id,) = connection.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
        self._open = ExitStack()
        self.lost = [LostHistory(*row) for row in self._ask("verify_lost_history")]
        self.partitions = self._partitions()

    def close(self) -> None:
        self._open.close()

    def rows(self, table: Table) -> "Ordered":
        """The row table's rows of the log that is there now: contract columns, [_key,] _partition, _offset."""
        key = [("_key", pa.string())] if table.disposition == "upsert" else []
        schema = pa.schema([*((c.name, c.type.arrow) for c in table.columns), *key, *OWN])
        query = sql.SQL("SELECT {} FROM {} WHERE {} ORDER BY _partition, _offset").format(
            _names(schema.names), _table(table), self._of_this_log()
        )
        return Ordered(self._batches(query, schema), schema)

    def accumulated(self, table: Table) -> Iterator[pa.RecordBatch]:
        """An accumulate table's rows, in any order."""
        schema = table.arrow_schema
        return self._batches(sql.SQL("SELECT {} FROM {}").format(_names(schema.names), _table(table)), schema)

    def rows_of_lost_history(self, table: Table) -> Iterator[pa.RecordBatch]:
        """The row table's rows that no log can confirm any more."""
        schema = pa.schema([*((c.name, c.type.arrow) for c in table.columns), *OWN])
        query = sql.SQL("SELECT {} FROM {} WHERE NOT ({})").format(
            _names(schema.names), _table(table), self._of_this_log()
        )
        return self._batches(query, schema) if self.lost else iter(())

    def dead_letters(self) -> Iterator[DeadLetter]:
        """The pipeline's dead letters of the log that is there now, in order."""
        ids = [item.topic_id for item in self.partitions.values()]
        query = sql.SQL(
            'SELECT partition, "offset", stage, error_class, value FROM tidegate.dead_letter '
            'WHERE pipeline = {} AND topic_id = ANY({}) ORDER BY partition, "offset"'
        ).format(sql.Literal(self.contract.pipeline), sql.Literal(ids))
        cursor = self._open.enter_context(closing(self._connection.cursor("dead_letters")))
        cursor.itersize = 500  # a value may be of megabytes
        cursor.execute(query)
        return (DeadLetter(*row) for row in cursor)

    def digest(self) -> str:
        """A digest of every table's contents, the same however batches were cut."""
        whole = sha256()
        for table in self.contract.tables:
            own = [] if table.disposition == "accumulate" else [name for name, _ in OWN]
            names = _names([*(column.name for column in table.columns), *own])
            query = sql.SQL("SELECT count(*), sum(hashtextextended(ROW({})::text, 0)::numeric) FROM {}").format(
                names, _table(table)
            )
            whole.update(f"{table.name}{self._connection.execute(query).fetchone()}".encode())
        return whole.hexdigest()[:32]

    def exists(self, table: Table) -> bool:
        (found,) = self._connection.execute("SELECT to_regclass(%s) IS NOT NULL", [table.name]).fetchone() or (False,)
        return found

    def _partitions(self) -> dict[int, Partition]:
        ranges: dict[int, list[tuple[int, int, int, list[list[int]]]]] = {}
        for number, *item in self._ask("verify_ranges"):
            ranges.setdefault(number, []).append(tuple(item))  # pyright: ignore[reportArgumentType]  # the query's columns
        skips: dict[int, list[Span]] = {}
        for number, start, until in self._ask("verify_skips"):
            skips.setdefault(number, []).append((start, until))
        return {
            number: self._partition(number, topic_id, start, until, ranges.get(number, []), skips.get(number, []))
            for number, topic_id, start, until in self._ask("verify_positions")
        }

    def _partition(
        self, number: int, topic_id: str, start: int, until: int, ranges: Sequence[Any], skips: list[Span]
    ) -> Partition:
        covered: list[Span] = []
        gaps: list[Span] = []
        for low, high, batch_id, never in ranges:
            gone = [
                (h.from_offset, h.until_offset)
                for h in self.lost
                if h.partition == number and batch_id <= h.until_batch
            ]
            kept = less([(low, high)], gone)
            covered += kept
            gaps += [part for a, b in kept for part in within([(g[0], g[1]) for g in never], a, b)]
        return Partition(number, topic_id, start, until, covered, gaps, skips)

    def _of_this_log(self) -> sql.Composable:
        """A condition on rows: not of a history that is lost."""
        clauses = [
            sql.SQL("NOT (_partition = {} AND _offset >= {} AND _offset < {} AND _batch_id <= {})").format(
                item.partition, item.from_offset, item.until_offset, item.until_batch
            )
            for item in self.lost
        ]
        return sql.SQL(" AND ").join(clauses) if clauses else sql.SQL("true")

    def _batches(self, query: sql.Composed, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        connection = self._open.enter_context(adbc.connect(session_url(self._url, "tidegate verify"), autocommit=True))
        cursor = self._open.enter_context(connection.cursor())
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        cursor.execute(f"SET TRANSACTION SNAPSHOT '{self._id}'")
        cursor.execute(query.as_string(self._connection))
        for batch in cursor.fetch_record_batch():
            yield _as(batch, schema)

    def _ask(self, name: str) -> list[tuple[Any, ...]]:
        key = {"pipeline": self.contract.pipeline, "topic": self.contract.topic}
        return self._connection.execute(queries()[name], key).fetchall()


class Ordered:
    """Rows ordered by (_partition, _offset), handed out up to a place."""

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        self._batches, self._schema = batches, schema
        self._held: list[pa.RecordBatch] = []

    def before(self, partition: int, offset: int) -> pa.Table:
        """The rows not yet handed out that stand before the place."""
        taken: list[pa.RecordBatch] = []
        while (batch := self.next()) is not None:
            count = _count_before(batch, partition, offset)
            taken.append(batch.slice(0, count))
            if count < batch.num_rows:
                self._held.append(batch.slice(count))
                break
        return pa.Table.from_batches(taken, self._schema)

    def rest(self) -> pa.Table:
        return self.before(2**31 - 1, 2**62)

    def next(self) -> pa.RecordBatch | None:
        """The next rows not yet handed out, in whatever number they come; None at the end."""
        return self._held.pop() if self._held else next(self._batches, None)


def _count_before(batch: pa.RecordBatch, partition: int, offset: int) -> int:
    last = batch.num_rows - 1
    if last < 0 or (batch["_partition"][last].as_py(), batch["_offset"][last].as_py()) < (partition, offset):
        return batch.num_rows
    earlier = pc.less(batch["_partition"], partition)
    same = pc.and_(pc.equal(batch["_partition"], partition), pc.less(batch["_offset"], offset))
    return pc.or_(earlier, same).true_count


@contextmanager
def take_snapshot(url: str, contract: Contract) -> Iterator[Snapshot]:
    """Open the one transaction that everything is read in."""
    with database_errors(), closing(connect(url, "tidegate verify")) as connection:
        connection.autocommit = False
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        (there,) = connection.execute("SELECT to_regclass('tidegate.lost_history') IS NOT NULL").fetchone() or (False,)
        if not there:
            raise BadInput(
                "this database has no ledger yet, or an older one: run the pipeline first", field=contract.pipeline
            )
        snapshot = Snapshot(connection, url, contract)
        with closing(snapshot):
            yield snapshot


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """ADBC gives numerics as text; what does not fit the contract's type is refused, not bent."""
    try:
        return pa.RecordBatch.from_arrays(
            [c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)], schema=schema
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadInput(f"a table holds a value that its contract's type cannot: {error}") from error


def _names(names: Sequence[str]) -> sql.Composable:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _table(table: Table) -> sql.Identifier:
    return sql.Identifier(*table.name.split("."))
