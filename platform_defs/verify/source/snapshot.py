"""Postgres at one moment: positions, batch ranges, tables and dead letters, all from one REPEATABLE READ snapshot."""

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from hashlib import sha256
from typing import Any, cast

import adbc_driver_postgresql.dbapi
import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from platform_defs.contract.model.contract import Contract, Table
from platform_defs.errors import BadInput
from platform_defs.ledger.migrations import require_current
from platform_defs.postgres.connection import connect, database_errors, queries, session_statement, session_url
from platform_defs.verify.decoders.json_columns import AsText, canonical_columns, text_columns
from platform_defs.verify.source.ahead import read_ahead
from platform_defs.verify.source.arrow_rows import Ordered, as_typed, columns_of, names_of, selected, table_of
from platform_defs.verify.source.contract_versions import read_versions
from platform_defs.verify.source.partitions import (
    ContractRange,
    CountedRange,
    DeadLetter,
    LostHistory,
    Partition,
    Pinned,
    gaps_of,
    one_after_another,
)
from platform_defs.verify.source.spans import ManySpans, Span, less
from platform_defs.verify.source.windows import FOREVER, WHOLE, Window
from platform_defs.verify.validators.known_schemas import KnownSchemas, NamedSchema

adbc = cast("Any", adbc_driver_postgresql.dbapi)  # its keyword arguments have no types

VERIFY = "tidegate verify"  # the name of its sessions
# Rows wait for the messages that they are compared with, and these for a transform: a server that cannot send for 30 s,
# the limit of other sessions, has a slow client, not a dead one. In ms; about as long as TCP itself waits.
_PATIENCE = {"tcp_user_timeout": "900000"}
PORTION = 64 * 2**20  # characters of texts sorted at once: 256 MB at most, besides one text
_AHEAD = 1  # batches of rows in memory, besides the one compared; 16 MB each
_GAPS = pa.schema([("partition", pa.int32()), *((name, pa.int64()) for name in ("batch_id", "start", "until"))])
OWN: tuple[tuple[str, pa.DataType], ...] = (("_partition", pa.int32()), ("_offset", pa.int64()))  # on purpose not
# from contract/model/system_columns.py: if the engine changes its columns, verify must report it


class Snapshot:
    """The window as one transaction sees it. Streams are ordered by (partition, offset) and are read once."""

    def __init__(
        self, connection: psycopg.Connection[Any], url: str, contract: Contract, window: Window = WHOLE
    ) -> None:
        self._connection, self._url, self.window = connection, url, window
        self.versions = read_versions(connection, contract)
        self.contract = self.versions.in_force
        (self._id,) = connection.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
        self._open = ExitStack()
        self._parameters = {"pipeline": self.contract.pipeline, "topic": self.contract.topic}
        self._parameters |= {"after": window.after, "until": window.until}
        self.lost = [LostHistory(*row) for row in self._ask("verify_lost_history")]
        self.partitions = self._partitions()

    def close(self) -> None:
        self._open.close()

    def rows(self, table: Table) -> Ordered:
        """Return the row table's rows from the log that exists now: the columns of every contract version, [_key,]
        _partition, _offset.
        """
        key = [("_key", pa.string())] if table.disposition == "upsert" else []
        schema = pa.schema([*self.versions.columns, *key, *OWN])
        where = sql.SQL("{} AND {} ORDER BY _partition, _offset").format(self._of_this_log(), self.of_batches())
        return Ordered(self._select(table, schema, self.versions.as_text, where), schema)

    def rows_of_keys(self, table: Table, keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Return an upsert's rows for these keys: the columns of `rows`, _batch_id."""
        schema = pa.schema([*self.versions.columns, ("_key", pa.string()), *OWN, ("_batch_id", pa.int64())])
        where = sql.SQL("_key = ANY({}) AND {}").format(sql.Literal(list(keys)), self._of_this_log())
        return self._select(table, schema, self.versions.as_text, where)

    def accumulated(self, table: Table) -> Iterator[pa.RecordBatch]:
        """Return an accumulate table's rows, in any order."""
        return self._select(table, pa.schema(columns_of(table)), text_columns(table), sql.SQL("true"))

    def rows_of_lost_history(self, table: Table) -> Iterator[pa.RecordBatch]:
        """Return the row table's rows from a log that no longer exists: contract columns, _partition, _offset."""
        if not self.lost:
            return iter(())
        schema, where = pa.schema([*columns_of(table), *OWN]), sql.SQL("NOT ({})").format(self._of_this_log())
        return self._select(table, schema, text_columns(table), where)

    def dead_letters(self) -> Iterator[DeadLetter]:
        """Return the pipeline's dead letters from the log that exists now, ordered by (partition, offset)."""
        ids = [item.topic_id for item in self.partitions.values()]
        query = sql.SQL(
            'SELECT partition, "offset", stage, error_class, value FROM tidegate.dead_letter '
            'WHERE pipeline = {} AND topic_id = ANY({}) AND {} ORDER BY partition, "offset"'
        ).format(sql.Literal(self.contract.pipeline), sql.Literal(ids), self._of_offsets())
        cursor = self._open.enter_context(closing(self._connection.cursor("dead_letters")))
        cursor.itersize = 500  # a value may take megabytes
        cursor.execute(query)
        return (DeadLetter(*row) for row in cursor)

    def schemas(self) -> KnownSchemas:
        """Return the schemas that messages name, by the ranges whose tasks knew them."""
        known, found = KnownSchemas(), dict[tuple[Any, ...], NamedSchema]()
        for *place, key, kind, document, references, encrypted in self._ask("verify_schemas"):
            listed = tuple((name, text) for name, text in references)
            found[*place, key] = NamedSchema(key, kind, document, listed, encrypted)
        for partition, start, stop, *place in self._ask("verify_named_schemas"):
            known.add(partition, start, stop, found[tuple(place)])
        return known

    def digest(self) -> str:
        """Return a digest of every table's contents, independent of the batches."""
        whole = sha256()
        for table in self.contract.tables:
            own = [] if table.disposition == "accumulate" else [name for name, _ in OWN]
            names = names_of([*(column.name for column in table.columns), *own])
            query = sql.SQL("SELECT count(*), sum(hashtextextended(ROW({})::text, 0)::numeric) FROM {}").format(
                names, table_of(table)
            )
            whole.update(f"{table.name}{self._connection.execute(query).fetchone()}".encode())
        return whole.hexdigest()[:32]

    @property
    def topic(self) -> str | None:
        """The topic that was read, even if the contract names another now; None before the first batch."""
        return next((name for _, name, *_ in self._ask("verify_positions")), None)

    def exists(self, table: Table) -> bool:
        (found,) = self._connection.execute("SELECT to_regclass(%s) IS NOT NULL", [table.name]).fetchone() or (False,)
        return found

    def _partitions(self) -> dict[int, Partition]:
        covered, contract_ranges = defaultdict[int, list[Span]](list), defaultdict[int, list[ContractRange]](list)
        forgotten, any_gaps = defaultdict[int, int](int), False
        for number, low, high, batch_id, has_gaps, pruned, *by in self._ask("verify_ranges"):
            any_gaps |= has_gaps
            kept = less([(low, high)], self._lost_of(number, batch_id))
            covered[number] += kept
            contract_ranges[number] += [(start, until, Pinned(*by)) for start, until in kept]
            if pruned:  # it covers several batches, and names the last one
                forgotten[number] = max([forgotten[number], *(until for _, until in kept)])
        gaps = dict[int, ManySpans]()
        if any_gaps:  # read as columns: a topic with transactions has an offset for the end of each
            query = psycopg.ClientCursor(self._connection).mogrify(queries()["verify_gaps"], self._parameters)
            batches = self._batches(query, _GAPS, "tidegate.batch_range", {})
            gaps = gaps_of(pa.Table.from_batches([*batches], _GAPS), self.lost)
        counted: dict[int, list[CountedRange]] = {}
        for number, low, high, batch_id, *counts in self._ask("verify_skipped_records"):
            if less([(low, high)], self._lost_of(number, batch_id)) == [(low, high)]:
                counted.setdefault(number, []).append(CountedRange(low, high, *counts))
        skips, settled = self._spans("verify_skips"), self._spans("verify_settled")
        return {
            number: self.window.of(
                Partition(
                    number,
                    topic_id,
                    start,
                    until,
                    covered[number],
                    gaps.get(number, ManySpans()),
                    skips.get(number, []),
                    counted=tuple(counted.get(number, ())),
                    settled=ManySpans(*zip(*settled.get(number, ()), strict=True)),
                    forgotten=forgotten[number],
                    contract_ranges=one_after_another(contract_ranges[number]),
                )
            )
            for number, _, topic_id, start, until in self._ask("verify_positions")
        }

    def _lost_of(self, partition: int, batch_id: int) -> list[Span]:
        """Return the spans that a batch committed from a log that no longer exists."""
        return [
            (item.from_offset, item.until_offset)
            for item in self.lost
            if item.partition == partition and batch_id <= item.until_batch
        ]

    def _of_this_log(self) -> sql.Composable:
        """Return a condition on rows: their messages were in the log that exists now."""
        clauses = [
            sql.SQL("NOT (_partition = {} AND _offset >= {} AND _offset < {} AND _batch_id <= {})").format(
                item.partition, item.from_offset, item.until_offset, item.until_batch
            )
            for item in self.lost
        ]
        return sql.SQL(" AND ").join(clauses) if clauses else sql.SQL("true")

    def of_batches(self) -> sql.Composable:
        """Return a condition on rows: they are of the window's batches."""
        if self.window.whole:
            return sql.SQL("true")
        until = FOREVER if self.window.last else self.window.until
        return sql.SQL("_batch_id > {} AND _batch_id <= {}").format(sql.Literal(self.window.after), sql.Literal(until))

    def _of_offsets(self) -> sql.Composable:
        """Return a condition on dead letters: they are in the window, or above its end if it is the last one."""
        if self.window.whole:
            return sql.SQL("true")
        parts = [
            sql.SQL('(partition = {} AND "offset" >= {} AND "offset" < {})').format(
                sql.Literal(part.number),
                sql.Literal(part.start),
                sql.Literal(FOREVER if self.window.last else part.next),
            )
            for part in self.partitions.values()
        ]
        return sql.SQL("({})").format(sql.SQL(" OR ").join(parts))

    def left_after(self, batch: int) -> int:
        """Return the number of messages that the batches after this one have read."""
        ((messages,),) = self._ask("verify_left", after=batch)
        return messages

    def indexed_by_batch(self, table: Table) -> bool:
        """Return True if an index finds the rows of some batches without reading the whole table."""
        ((found,),) = self._ask("indexed_by_batch", table=table.name)
        return found

    def ask(self, query: sql.Composed) -> tuple[Any, ...]:
        """Return the one row of a query of aggregates."""
        return self._connection.execute(query).fetchone() or ()

    def in_order(self, table: Table, column: str, texts: Sequence[str]) -> list[str]:
        """Return the distinct texts as Postgres sorts them by the collation of a column of the table.

        They are parameters: no view of running statements shows them. If there are more than PORTION characters, each
        part between two of the texts is sorted by itself: Postgres accepts no array above 1 GB.
        """
        of_column = sql.SQL(
            "(SELECT {} FROM {} WHERE false UNION ALL SELECT unnest(%s::text[])) AS texts (text)"
        ).format(sql.Identifier(column), table_of(table))

        def ordered(some: Sequence[str]) -> list[str]:
            query = sql.SQL("SELECT text FROM {} ORDER BY text").format(of_column)
            return [text for (text,) in self._connection.execute(query, [[*some]]).fetchall()]

        portions = [*_portions(texts)]
        if len(portions) < 2:
            return ordered(texts)
        edges = ordered([portion[0] for portion in portions])
        query = sql.SQL("SELECT width_bucket(text, %s::text[]), text FROM {}").format(of_column)
        parts = [list[str]() for _ in range(len(edges) + 1)]
        for portion in portions:
            found: list[tuple[int, str]] = self._connection.execute(query, [edges, portion]).fetchall()
            for place, text in found:
                parts[place].append(text)
        if len(texts) in map(len, parts):  # they are all equal in the collation
            return ordered(texts)
        return [text for part in parts for text in self.in_order(table, column, part)]

    def _select(
        self, table: Table, schema: pa.Schema, as_text: AsText, where: sql.Composable
    ) -> Iterator[pa.RecordBatch]:
        """Return the rows of a table for which `where` holds."""
        names = selected(schema.names, as_text)
        query = sql.SQL("SELECT {} FROM {} WHERE {}").format(names, table_of(table), where)
        return self._batches(query.as_string(self._connection), schema, table.name, as_text)

    def _batches(self, query: str, schema: pa.Schema, table: str, as_text: AsText) -> Iterator[pa.RecordBatch]:
        """Return the rows of a query in this snapshot, over a connection of its own, open until they are read."""
        found = read_ahead(self._read(query, schema, table, as_text), _AHEAD)
        self._open.callback(found.close)
        return found

    def _read(self, query: str, schema: pa.Schema, table: str, as_text: AsText) -> Generator[pa.RecordBatch]:
        connection = adbc.connect(self._arrow_address(), autocommit=True)
        with connection, connection.cursor() as cursor:
            cursor.execute(session_statement(self._url, VERIFY, _PATIENCE))
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute(f"SET TRANSACTION SNAPSHOT '{self._id}'")
            cursor.execute(query)
            for batch in cursor.fetch_record_batch():
                yield canonical_columns(as_typed(batch, schema, table), as_text)

    def _arrow_address(self) -> str:
        """Return the address of ADBC's sessions. ADBC reads the catalogue before a session can be set, and takes types
        for unknown if their names are quoted. Raises BadInput if a pooler would refuse or drop the option for that.
        """
        address, pid = session_url(self._url, VERIFY), self._connection.info.backend_pid
        quoted, pooled = self._connection.execute(queries()["quoted_identifiers"], {"pid": pid}).fetchone() or ("", "")
        if not quoted:
            return address
        if pooled:
            raise BadInput(
                "verify cannot read through a pooler while sessions begin with quote_all_identifiers = on. For this "
                f'user: ALTER ROLE "{self._connection.info.user}" SET quote_all_identifiers = off. Or use the address '
                "of Postgres itself",
                field="TIDEGATE_POSTGRES_URL",
            )
        options = conninfo_to_dict(address).get("options", "")
        return make_conninfo(address, options=f"{options} -c quote_all_identifiers=off".lstrip())

    def _ask(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(queries()[name], self._parameters | parameters).fetchall()

    def _spans(self, name: str) -> dict[int, list[Span]]:
        """Return a query's spans by partition."""
        spans: dict[int, list[Span]] = {}
        for number, start, until in self._ask(name):
            spans.setdefault(number, []).append((start, until))
        return spans


def _portions(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield lists of at least PORTION characters each, except the last one."""
    portion, characters = list[str](), 0
    for text in texts:
        portion.append(text)
        characters += len(text)
        if characters >= PORTION:
            yield portion
            portion, characters = [], 0
    if portion:
        yield portion


@contextmanager
def take_snapshot(
    url: str, contract: Contract, choose: Callable[[psycopg.Connection[Any]], Window] = lambda _: WHOLE
) -> Generator[Snapshot]:
    """Open the one transaction in which everything is read; `choose` returns the window, and may query in it.

    Raises LedgerMissing, LedgerOutdated or LedgerTooNew if this version of Tidegate cannot read the ledger.
    """
    with database_errors(), closing(connect(url, VERIFY, _PATIENCE)) as connection:
        require_current(connection)
        connection.autocommit = False
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        snapshot = Snapshot(connection, url, contract, choose(connection))
        with closing(snapshot):
            yield snapshot
