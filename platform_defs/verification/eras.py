"""The contracts that have judged a pipeline's messages: each batch is compared by its own, not by the newest.

A batch names the digest of its contract; one from before digests were kept has the pipeline's first. Columns are those
that the table has now: of an older contract, those that are still there, under the names that they have got since. A
column that was dropped is not compared, even where a later contract has one of its name.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pyarrow as pa

from platform_defs.contract.column_types import ColumnType
from platform_defs.contract.model import Column, Contract
from platform_defs.evolution.message import widens
from platform_defs.evolution.renames import renames
from platform_defs.verification.json_columns import is_textual
from resources.postgres.contract_ledger import ContractLedger

Names = Mapping[str, str]  # of columns in the table as it is; without those that were dropped since


@dataclass(frozen=True)
class Step:
    """A contract that was applied, and the columns that its row table lost then."""

    contract: Contract
    dropped: Sequence[str] = ()


@dataclass(frozen=True)
class Eras:
    """`in_force` is the newest; `contracts` are all of them by digest, and by None the first."""

    in_force: Contract
    contracts: Mapping[str | None, Contract]
    now: Sequence[tuple[Contract, Names]]  # of each contract: what the columns that the table had are called now
    types: Mapping[str, ColumnType]  # of the row table's columns: those of the newest, then what older ones left
    defaults: Collection[str] = ()  # columns that Postgres itself fills

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        """The row table's columns as Arrow; arrays as text."""
        return tuple((name, of.staged_arrow) for name, of in self.types.items())

    @property
    def as_text(self) -> Mapping[str, str]:
        """Those of them that are read as text, and their types."""
        return {name: of.name for name, of in self.types.items() if is_textual(of)}

    def contract(self, digest: str | None) -> Contract:
        """The one of this digest; the newest where the ledger has none of it."""
        return self.contracts.get(digest, self.in_force)

    def name_now(self, contract: Contract, column: str) -> str | None:
        """What a column of a contract's row table is called now; None where the table no longer has it."""
        of_before = next((names for item, names in self.now if item == contract), None)
        now = column if of_before is None else of_before.get(column)
        return now if now in self.types else None

    def names(self, contract: Contract) -> dict[str, str]:
        """The columns of a contract that the table still has as they were or wider: what each is called now."""
        found = ((column, self.name_now(contract, column.name)) for column in contract.row_table.columns)
        return {column.name: now for column, now in found if now is not None and self._holds(now, column)}

    def left(self, contract: Contract) -> set[str]:
        """The columns, as they are called now, that an older contract had left in the table: publish empties them in
        the rows that it writes to an upsert.
        """
        own = {column.name for column in contract.row_table.columns}
        of_then = next((names.items() for item, names in self.now if item == contract), ())
        return {now for name, now in of_then if name not in own}.difference(self.defaults)

    def retyped(self, contract: Contract) -> dict[str, str]:
        """The columns whose type has changed since, without a replay: what is wrong with each, by its name now."""
        return {
            now: f"{now} was {column.type.name} by version {contract.version} and is {self.types[now].name} now"
            for column in contract.row_table.columns
            if (now := self.name_now(contract, column.name)) is not None and not self._holds(now, column)
        }

    def _holds(self, now: str, column: Column) -> bool:
        return self.types[now] == column.type or widens(column.type, self.types[now])


def read_eras(connection: psycopg.Connection[Any], contract: Contract) -> Eras:
    """What the ledger has of the pipeline's contracts; `contract` alone where it has none. Of tables, those that
    `contract` has. Raises BadInput where a document cannot be read.
    """
    ledger = ContractLedger(connection, contract.pipeline)
    applied, in_force = ledger.every(), ledger.in_force()
    contracts = {item.digest: _of_tables(item.contract(contract.pipeline), contract) for item in applied}
    newest = contracts.get(in_force or "", contract)
    first = contracts[applied[0].digest] if applied else contract
    # What kind of table there was before is what a replay has made again.
    same = [c for c in contracts.values() if c.row_table.disposition == newest.row_table.disposition]
    shape = ledger.shapes(newest).get(newest.row_table.name, {})
    columns = _columns([newest, *same], shape)
    dropped = {item.digest: item.dropped for item in applied}
    steps = [Step(item, dropped[key]) for key, item in contracts.items() if item in same]
    steps.sort(key=lambda step: step.contract is newest)  # the one in force is the last step, whatever was before
    return Eras(
        newest,
        {**contracts, None: first},
        names_now(steps),
        {column.name: column.type for column in columns},
        {name for name, there in shape.items() if there.has_default},
    )


def names_now(steps: Iterable[Step]) -> Sequence[tuple[Contract, Names]]:
    """What became of the columns that the table had by each contract in the `steps` after it: the first one first, the
    one in force last. Those that a contract before it left in the table are among them.
    """
    there, found = set[str](), list[tuple[Contract, dict[str, str]]]()
    for step in steps:
        columns = step.contract.row_table.columns
        there -= {*step.dropped}
        kept = {**{name: name for name in there}, **renames(columns, there)}
        found = [(item, {name: kept[now] for name, now in names.items() if now in kept}) for item, names in found]
        there = {*kept.values(), *(column.name for column in columns)}
        found.append((step.contract, {name: name for name in there}))
    return found


def _of_tables(contract: Contract, wanted: Contract) -> Contract:
    """The contract with those of its tables that are wanted, reading the wanted topic."""
    names = {table.name for table in wanted.tables}
    kept = tuple(table for table in contract.accumulates if table.name in names)
    return replace(contract, topic=wanted.topic, tables=(contract.row_table, *kept), path=wanted.path)


def _columns(contracts: Iterable[Contract], there: Mapping[str, Any]) -> list[Column]:
    """The row table's columns: all of the first contract, and those of the others that the table still has as they
    were.
    """
    newest, *others = contracts
    found = {column.name: column for column in newest.row_table.columns}
    for contract in others:
        for column in contract.row_table.columns:
            shape = there.get(column.name)
            if shape is not None and shape.type == column.type.postgres:
                found.setdefault(column.name, column)
    return list(found.values())
