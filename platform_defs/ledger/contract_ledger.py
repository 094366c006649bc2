"""A pipeline's contracts in the ledger, and the statements that change its tables to match a contract."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from platform_defs.contract.evolution.renames import left_columns, repeated
from platform_defs.contract.evolution.statements import NOT_NULL, ColumnShape, Shapes, Statement
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.system_columns import target_columns
from platform_defs.contract.odcs_writer import contract_digest, stored_file, stored_schema, text
from platform_defs.contract.reader.odcs import load
from platform_defs.errors import BadInput
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.ledger.schema_ledger import schema_of
from platform_defs.postgres.connection import Connection, as_ours, dict_rows, queries, refusal, refused_by_owner
from platform_defs.postgres.tables import closed_list, identifier

REFUSED = (
    psycopg.NotSupportedError,
    psycopg.ProgrammingError,
    psycopg.IntegrityError,
    psycopg.DataError,
    psycopg.errors.DependentObjectsStillExist,
    psycopg.errors.TooManyColumns,
)
SHORT_WAIT = "2s"  # for any one lock: other sessions that need the table queue behind a lock that is waited for


@dataclass(frozen=True)
class Applied:
    """A contract in the ledger."""

    digest: str
    version: str
    document: str
    applied_by: str
    by_command: bool
    schema_text: str
    unnumbered: int | None  # the application of its batches that name none; None if unknown

    def contract(self, pipeline: str) -> Contract:
        """Return the document's contract, without a file. Raises BadInput if this version cannot read it."""
        return _read(f"{pipeline} {self.version} in tidegate.contract", self.document, self.schema_text)


@lru_cache(maxsize=512)  # a run asks for each pipeline and batch, and a document takes milliseconds
def _read(name: str, document: str, schema_text: str) -> Contract:
    return replace(load(Path(name), document, partial(stored_file, schema_text), accepted=True), path=None)


@dataclass(frozen=True)
class ContractLedger:
    """One pipeline's contracts in the ledger. Changes belong to an open transaction."""

    connection: Connection
    pipeline: str

    def in_force(self) -> str | None:
        """Return the digest of the contract in force; None before the first was recorded."""
        row = self.connection.execute(queries()["in_force"], self._key).fetchone()
        return row[0] if row else None

    def applied(self) -> Applied | None:
        """Return the contract in force; None if there is none."""
        return next(iter(self._contracts("applied_contract")), None)

    def every(self) -> list[Applied]:
        """Return all contracts that the pipeline has had, the first one first."""
        return self._contracts("contracts_of")

    def applications(self) -> list[tuple[int, str, Sequence[str], str, str, str]]:
        """Return (number, digest, columns that the row table lost, version, document, schema text) of each application
        of a contract, in order.
        """
        return self.connection.execute(queries()["applications_of"], self._key).fetchall()

    def lock(self) -> None:
        """Lock the pipeline's row, if there is one."""
        self.connection.execute(queries()["lock_contract"], self._key)

    def newest_batch(self) -> int | None:
        """Return the newest batch that the pipeline has published; None if there is none."""
        row = self.connection.execute(queries()["newest_batch"], self._key).fetchone()
        return row[0] if row else None

    def shapes(self, contract: Contract) -> Shapes:
        """Return the tables of `contract` that exist and are the pipeline's, without Tidegate's own columns."""
        found = {table.name: (table, self._columns(table.name)) for table in contract.tables}
        return {
            name: {column: shape for column, shape in columns.items() if column not in dict(target_columns(table))}
            for name, (table, columns) in found.items()
            if columns
        }

    def left_columns(self, contract: Contract) -> list[str]:
        """Return the columns of an upsert that earlier contracts left in its table, except those with a default: that
        marks a column as the operator's own. None for another table, whose rows are not written again.
        """
        table = contract.row_table
        if table.disposition != "upsert":
            return []
        shape = self.shapes(contract).get(table.name, {})
        own = {column.name for column in table.columns}
        others = [name for name, there in shape.items() if name not in own and not there.has_default]
        if not others:
            return []
        # `contract` comes last: it may not be recorded yet.
        left = left_columns([*((then, dropped) for _, _, then, dropped in self.of_kind(contract)), (contract, ())])
        return [name for name in others if name in left]

    def added_columns(self, contract: Contract) -> dict[str, set[str]]:
        """Return, for each table, the columns that an earlier contract had under no name: rows that were written then
        have nothing in them.
        """
        added = {table.name: set[str]() for table in contract.tables}
        for earlier in self.every():
            try:
                then = earlier.contract(self.pipeline)
            except BadInput:  # a document that this version of Tidegate cannot read
                continue
            had = {table.name: {column.name for column in table.columns} for table in then.tables}
            for table in contract.tables:
                if table.name in had:
                    added[table.name] |= {
                        c.name for c in table.columns if had[table.name].isdisjoint({c.name, c.renamed_from})
                    }
        return added

    def of_kind(self, contract: Contract) -> Iterator[tuple[int, str, Contract, Sequence[str]]]:
        """Yield the applications in which the row table had the disposition that `contract` gives it, in order: number,
        digest, contract and the columns that were dropped then.
        """
        for number, digest, dropped, version, document, schema_text in self.applications():
            then = _read(f"{self.pipeline} {version} in tidegate.contract_application", document, schema_text)
            if then.row_table.disposition == contract.row_table.disposition:
                yield number, digest, then, dropped

    def _repeated(self, contract: Contract, digest: str) -> list[int]:
        """Return the applications of `contract` that the log can lose when it is applied again."""
        if sum(of == digest for _, of, *_ in self.applications()) < 2:  # the usual case: no document is read
            return []
        try:
            return repeated(self.of_kind(contract), digest)
        except BadInput:  # a document that this version of Tidegate cannot read: all rows are kept
            return []

    def nulls(self, statement: Statement) -> int:
        """Return how many rows have NULL in the statement's column; 0 if there is no such column."""
        if statement.column not in self._columns(statement.table):
            return 0
        query = sql.SQL("SELECT count(*) FROM {} WHERE {} IS NULL")
        asked = query.format(identifier(statement.table), sql.Identifier(statement.column))
        (count,) = self.connection.execute(asked).fetchone() or (0,)
        return count

    def schemas_in_use(self) -> list[WriterSchema]:
        """Return the schemas that values named in the last seven days, and in the last batch that named any."""
        return [
            schema_of(*row) for row in self.connection.execute(queries()["schemas_of_values"], self._key).fetchall()
        ]

    def unknown_fields(self) -> int:
        """Return how many messages of the newest hundred batches had fields that the contract did not name."""
        (count,) = self.connection.execute(queries()["unknown_fields"], self._key).fetchone() or (0,)
        return count

    def open_dead_letters(self, rules: Sequence[str]) -> dict[str, int]:
        """Return the number of open dead letters for each of these row rules."""
        asked = {**self._key, "rules": list(rules)}
        return dict(self.connection.execute(queries()["open_dead_letters"], asked).fetchall())

    def record(self, contract: Contract, who: str, *, by_command: bool, dropped: Sequence[str] = ()) -> str:
        """Record `contract` as the one in force, and return its digest. `dropped`: columns that its row table lost."""
        made = contract_digest(contract)
        row = {
            "digest": made,
            "version": contract.version,
            "document": text(contract),
            "schema_text": stored_schema(contract),
            "applied_by": who,
            "by_command": by_command,
            "dropped": list(dropped),
            "repeated": [] if dropped else self._repeated(contract, made),
        }
        self.connection.execute(queries()["record_contract"], {**self._key, **row})
        return made

    def fence(self) -> None:
        """Fence earlier runs: they publish nothing more."""
        self.connection.execute(queries()["fence_for_contract"], self._key)

    @property
    def _key(self) -> dict[str, Any]:
        return {"pipeline": self.pipeline}

    def _contracts(self, query: str) -> list[Applied]:
        with self.connection.cursor(row_factory=class_row(Applied)) as cursor:
            return cursor.execute(queries()[query], self._key).fetchall()

    def _columns(self, table: str) -> dict[str, ColumnShape]:
        rows = dict_rows(self.connection, "table_shape", {**self._key, "table": table, "check": NOT_NULL})
        return {row.pop("name"): ColumnShape(**row) for row in rows}


def run(connection: Connection, statements: Iterable[Statement]) -> Iterator[Statement]:
    """Execute the statements in order, yielding each when it is done. Raises BadInput with Postgres' message."""
    for item in statements:
        try:
            connection.execute(closed_list(item.sql))
        except psycopg.errors.LockNotAvailable:
            raise
        except psycopg.errors.InsufficientPrivilege as error:
            if refused_by_owner(error):
                raise as_ours(error).quoting_nothing() from None
            raise BadInput(
                f"Postgres refuses {item.sql}: {error.diag.message_primary}. Only a table's owner may change it: run "
                "tidegate contract apply as the owner, or grant the owner's role to this one. Nothing was changed",
                field=item.table,
            ) from error
        except REFUSED as error:
            if refused_by_owner(error):
                raise as_ours(error).quoting_nothing() from None  # a trigger may quote a row
            raise BadInput(
                f"Postgres refuses {item.sql}: {_message(error)}. Remove the obstacle, such as a view that uses the "
                "column, and apply again. Nothing was changed",
                field=f"{item.table}.{item.column}",
            ) from None
        yield item


def _message(error: psycopg.Error) -> str:
    """Return Postgres' message, with the objects that depend on a column, but nothing that quotes a row."""
    of_rows = (error.sqlstate or "")[:2]
    if of_rows == "22":
        return refusal(error)
    details = f" ({' '.join(error.diag.message_detail.split())})" if error.diag.message_detail else ""
    details = "" if of_rows == "23" else details
    return f"{error.diag.message_primary}{details}"
