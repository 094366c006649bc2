"""The contract versions of a pipeline's messages: each batch is compared by its own, not by the newest.

A batch names the digest of its contract, and the application of it under which it was written: a contract can come into
force more than once, and the table's columns can change in between. Columns are the table's current ones: for an older
contract, those that still exist, under their current names. A dropped column is not compared, even if a later contract
has one of its name. For a batch from before applications were recorded, a column is compared if no contract of the
pipeline dropped or renamed one of its name. Columns of the contract in force in which a batch's rows are not compared
are listed (`Now.not_compared`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
import pyarrow as pa

from platform_defs.contract.evolution.message import widens
from platform_defs.contract.evolution.renames import renames
from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.contract import Column, Contract
from platform_defs.ledger.contract_ledger import ContractLedger
from platform_defs.verify.decoders.json_columns import is_textual
from platform_defs.verify.source.partitions import Pinned

Names = Mapping[str, str]  # current names of columns; without those that were dropped since


@dataclass(frozen=True)
class Step:
    """A contract that was applied, and the columns that its row table lost by that."""

    contract: Contract
    dropped: Sequence[str] = ()


@dataclass(frozen=True)
class Application:
    """An application of a contract: the current names of the columns that the row table had then."""

    number: int
    digest: str
    names: Names


@dataclass(frozen=True)
class Now:
    """The current columns of a batch's rows."""

    names: Names  # of the compared columns of its contract
    left: set[str]  # left in the table by an older contract: publish empties them in the rows of an upsert
    retyped: Mapping[str, str]  # columns whose type has changed since, without a replay: the fault of each
    not_compared: set[str]  # of the contract in force: its message may have had a value for them


@dataclass(frozen=True)
class ContractVersions:
    """The contract versions of a pipeline. `in_force` is the newest; `contracts` are all of them by digest, and by None
    the first.
    """

    in_force: Contract
    contracts: Mapping[str | None, Contract]
    types: Mapping[str, ColumnType]  # of the row table's columns: the newest contract's, then those left by older ones
    applications: Sequence[Application] = ()  # in order
    # By digest (None: batches without a contract), the application of batches that name none, if it is known.
    unnumbered: Mapping[str | None, int] = field(default_factory=dict[str | None, int])
    changed: Collection[str] = ()  # names of columns that some contract dropped, renamed or gave to a renamed one
    defaults: Collection[str] = ()  # columns that Postgres itself fills

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        """The row table's columns as Arrow; arrays as text."""
        return tuple((name, of.staged_arrow) for name, of in self.types.items())

    @property
    def as_text(self) -> Mapping[str, str]:
        """The columns that are read as text, and their types."""
        return {name: of.name for name, of in self.types.items() if is_textual(of)}

    def contract(self, digest: str | None) -> Contract:
        """Return the contract of this digest; the newest if the ledger does not have it."""
        return self.contracts.get(digest, self.in_force)

    def now(self, pinned: Pinned) -> Now:
        """Return the current columns of the rows that a batch wrote."""
        contract, digest = self.contract(pinned.contract), pinned.contract or next(iter(self.contracts))
        of_digest = [item for item in self.applications if item.digest == digest]
        own = {column.name: column.type for column in contract.row_table.columns}
        in_force = {column.name for column in self.in_force.row_table.columns}
        # An application that changed no column is deleted once its contract comes again: the next one has its names.
        number = pinned.application or self.unnumbered.get(pinned.contract)
        of_then = next((item.names for item in of_digest if number and item.number >= number), None)
        if of_then is not None:
            doubtful = in_force.intersection(own)
        else:
            each = [item.names for item in of_digest]
            known = {*own}.union(*each)
            of_then = {
                name: name for name in known.difference(self.changed) if all(names.get(name) == name for names in each)
            }
            doubtful = in_force.intersection(self.changed) if known != of_then.keys() else set[str]()
        found = {name: of_then[name] for name in own if of_then.get(name) in self.types}
        names = {
            name: now
            for name, now in found.items()
            if self.types[now] == own[name] or widens(own[name], self.types[now])
        }
        return Now(
            names,
            {now for name, now in of_then.items() if name not in own}.difference(self.defaults),
            {
                now: f"{now} was {own[name].name} in version {contract.version} and is now {self.types[now].name}"
                for name, now in found.items()
                if name not in names
            },
            doubtful.difference(found.values()),
        )


def read_versions(connection: psycopg.Connection[Any], contract: Contract) -> ContractVersions:
    """Return the pipeline's contracts in the ledger; `contract` alone if there are none. Only tables of `contract` are
    included. Raises BadInput if a document cannot be read.
    """
    ledger = ContractLedger(connection, contract.pipeline)
    applied, in_force = ledger.every(), ledger.in_force()
    contracts = {item.digest: _of_tables(item.contract(contract.pipeline), contract) for item in applied}
    newest = contracts.get(in_force or "", contract)
    first = contracts[applied[0].digest] if applied else contract
    # Tables of another disposition were rebuilt by a replay.
    same = [c for c in contracts.values() if c.row_table.disposition == newest.row_table.disposition]
    shape = ledger.shapes(newest).get(newest.row_table.name, {})
    columns = _columns([newest, *same], shape)
    of_kind = [*ledger.of_kind(newest)]
    steps = [Step(then, dropped) for _, _, then, dropped in of_kind]
    changed = {name for step in steps for name in step.dropped}
    for column in (column for step in steps for column in step.contract.row_table.columns):
        changed |= {column.name, column.renamed_from} if column.renamed_from else set()
    numbers: dict[str | None, int] = {item.digest: item.unnumbered for item in applied if item.unnumbered is not None}
    if applied and applied[0].unnumbered is not None:
        numbers[None] = applied[0].unnumbered
    return ContractVersions(
        in_force=newest,
        contracts={**contracts, None: first},
        types={column.name: column.type for column in columns},
        applications=[
            Application(number, digest, names)
            for (number, digest, *_), (_, names) in zip(of_kind, names_now(steps), strict=True)
        ],
        unnumbered=numbers,
        changed=changed,
        defaults={name for name, there in shape.items() if there.has_default},
    )


def names_now(steps: Iterable[Step]) -> Sequence[tuple[Contract, Names]]:
    """Return the current names of the columns that the table had under each contract in `steps`, oldest first, in force
    last. Columns that an earlier contract left in the table are included.
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
    """Return the contract with only the wanted tables, reading the wanted topic."""
    names = {table.name for table in wanted.tables}
    kept = tuple(table for table in contract.accumulates if table.name in names)
    return replace(contract, topic=wanted.topic, tables=(contract.row_table, *kept), path=wanted.path)


def _columns(contracts: Iterable[Contract], there: Mapping[str, Any]) -> list[Column]:
    """Return the row table's columns: all of the first contract, and those of the others that the table still has
    unchanged.
    """
    newest, *others = contracts
    found = {column.name: column for column in newest.row_table.columns}
    for contract in others:
        for column in contract.row_table.columns:
            shape = there.get(column.name)
            if shape is not None and shape.type == column.type.postgres:
                found.setdefault(column.name, column)
    return list(found.values())
