"""Adoption: restored or moved tables are bound to their pipeline again, by name, after verify has found them whole.

Postgres gave them other OIDs, and a run refuses a table that is not the one that its pipeline filled. A copy may also
have older ledger sequences: they are advanced so that no number is used twice. The decision (`propose`) is shown, and
carried out (`adopt`) in one transaction if nothing has changed.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from psycopg import sql
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from platform_defs.contract.model.contract import Contract, Table
from platform_defs.contract.model.digest import fingerprint_of
from platform_defs.engine.lease.table_claims import Output
from platform_defs.errors import BadInput, ChangedMeanwhile
from platform_defs.ledger.migrations import reading
from platform_defs.postgres.connection import LOCK_WAIT, Connection, connect, dict_rows, lock_timeout, queries
from platform_defs.postgres.live_table import read_live, refuse_unfit, refuse_unidentified, rights_on
from platform_defs.postgres.tables import identifier


@dataclass(frozen=True)
class NamedOutput:
    """A table of the pipeline: the OID in the ledger, and the one that its name has now."""

    table_name: str
    definition: str | None
    batch_id: int | None
    was: int | None
    becomes: int | None
    owner: str | None  # another pipeline that has this very table


@dataclass(frozen=True)
class SequenceStep:
    """A sequence that would repeat numbers: the last number it gave, and the highest in the ledger."""

    sequence: str
    was: int
    becomes: int


@dataclass(frozen=True)
class Binding:
    """A table by name: its OID in the ledger, and its current one."""

    table: str
    was: int | None
    becomes: int


@dataclass(frozen=True)
class Adoption:
    """A decision to adopt, not yet carried out."""

    pipeline: str
    newest_batch: int | None  # not the epoch: refused runs take the next one, and publish nothing
    bindings: tuple[Binding, ...]
    sequences: tuple[SequenceStep, ...]
    unverified: tuple[str, ...]  # tables that the contract drops, lacked, or redefines: the next run requires a replay
    digest: str = ""  # of the tables, as verify found them
    found: str = ""  # verify's sentence

    def verified(self, *, ok: bool, digest: str, found: str) -> "Adoption":
        """Return the adoption with verify's result. Raises BadInput if the tables are not whole."""
        if not ok:
            raise BadInput(
                f"{found} Only complete tables can be adopted; nothing was changed. Restore the whole "
                "database to the same point in time: tables, ledger and offsets belong together",
                field=self.pipeline,
            )
        return replace(self, digest=digest, found=found)

    @property
    def fingerprint(self) -> str:
        """A hash of the decision as shown, so that exactly that is carried out."""
        return fingerprint_of({**asdict(self), "found": ""})  # it contains the duration

    def to_json(self) -> dict[str, Any]:
        """Return the document that `tidegate adopt -o json` prints and tidegate.adoption stores."""
        return {**asdict(self), "fingerprint": self.fingerprint}


def propose(url: str, contract: Contract) -> Adoption | None:
    """Return the decision that would bind the pipeline's tables; None if there is nothing to do. Changes nothing.

    Raises BadInput if a table is missing, cannot be filled, or belongs to another pipeline; LedgerAway.
    """
    with reading(connect(url)) as connection, connection.transaction():
        return _decide(connection, contract)


def to_verify(contract: Contract, decided: Adoption) -> Contract:
    """Return the contract with only the tables that must be whole."""
    tables = tuple(table for table in contract.tables if table.name not in decided.unverified)
    return replace(contract, tables=tables)


def adopt(url: str, contract: Contract, decided: Adoption, reason: str, who: str) -> int:
    """Carry out `decided` and record it. Return the adoption's id. Raises ChangedMeanwhile, with nothing changed, if
    anything differs from the decision.
    """
    with reading(connect(url)) as connection, connection.transaction():
        now = _decide(connection, contract)
        if now is None or replace(now, digest=decided.digest, found=decided.found) != decided:
            raise ChangedMeanwhile.since_shown(contract.pipeline, f"tidegate adopt {contract.pipeline}")
        named = {"pipeline": contract.pipeline, "tables": [item.table for item in decided.bindings]}
        for name in ("unbind", "bind"):  # a pipeline that had such an OID before loses it
            connection.execute(queries()[name], named)
        for step in decided.sequences:
            advance(connection, step)
        record = {"pipeline": contract.pipeline, "actions": Jsonb(decided.to_json()), "reason": reason}
        row = connection.execute(queries()["record_adoption"], {**record, "adopted_by": who}).fetchone()  # fences all
        (adoption_id,) = row or (0,)
        return adoption_id


def _decide(connection: Connection, contract: Contract) -> Adoption | None:
    """Return the decision, with the pipeline's row locked, so that it can be carried out in the same transaction."""
    key = {"pipeline": contract.pipeline}
    connection.execute(lock_timeout(LOCK_WAIT))
    if (row := connection.execute(queries()["adopted_pipeline"], key).fetchone()) is None:
        raise BadInput("the ledger does not know this pipeline: there is nothing to adopt", field=contract.pipeline)
    (newest,) = row
    with connection.cursor(row_factory=class_row(NamedOutput)) as cursor:
        outputs = cursor.execute(queries()["outputs_by_name"], key).fetchall()
    _refuse_unfit(connection, contract, outputs, newest)
    bindings = [
        Binding(o.table_name, o.was, o.becomes) for o in outputs if o.becomes is not None and o.was != o.becomes
    ]
    sequences = sequences_behind(connection)
    if not bindings and not sequences:
        return None
    unverified = [item.table_name for item in outputs if _is_outdated(contract, item, newest)]
    return Adoption(contract.pipeline, newest, tuple(bindings), tuple(sequences), tuple(unverified))


def _refuse_unfit(
    connection: Connection, contract: Contract, outputs: Sequence[NamedOutput], newest: int | None
) -> None:
    """Raise BadInput if a table of the contract is missing, is another pipeline's, or has rows but no batch."""
    wanted = {table.name: table for table in contract.tables}
    for item in outputs:
        table = wanted.get(item.table_name)
        if table is None:
            continue
        if item.becomes is None:
            raise BadInput("there is no table with this name: restore it first", field=item.table_name)
        if item.owner is not None:
            raise BadInput(f"it belongs to pipeline {item.owner}; a table has one owner", field=item.table_name)
        _refuse_unfillable(connection, contract.pipeline, table)
        rows = sql.SQL("SELECT 1 FROM {} LIMIT 1").format(identifier(table.name))
        if newest is None and connection.execute(rows).fetchone() is not None:
            raise BadInput(
                f"it has rows, but {contract.pipeline} has published nothing; empty the table first",
                field=item.table_name,
            )


def _is_outdated(contract: Contract, item: NamedOutput, newest: int | None) -> bool:
    """Return True if the next run of a contract with this table requires a replay of it anyway."""
    held = Output(contract.pipeline, item.definition, item.batch_id, newest)
    table = next((table for table in contract.tables if table.name == item.table_name), None)
    return table is None or held.filled_otherwise(table) or held.behind


def _refuse_unfillable(connection: Connection, pipeline: str, table: Table) -> None:
    """Raise BadInput if the table could not be filled, regardless of its owner."""
    if (live := read_live(connection, pipeline, table)) is not None:
        refuse_unfit(table, live)
        if live.published:
            refuse_unidentified(connection, table, rights_on(table))


def sequences_behind(connection: Connection) -> list[SequenceStep]:
    """Return the ledger's sequences that are behind the ledger's highest numbers, as after a copy."""
    (highest,) = dict_rows(connection, "highest_ids", {})
    used = {f"tidegate.{name}": int(value) for name, value in highest.items()}
    for item in dict_rows(connection, "identities", {}):
        column, table = sql.Identifier(item["column"]), sql.Identifier("tidegate", item["table"])
        query = sql.SQL("SELECT coalesce(max({}), 0) FROM {}").format(column, table)
        (used[str(item["sequence"])],) = connection.execute(query).fetchone() or (0,)
    steps = list[SequenceStep]()
    for name, value in used.items():
        query = sql.SQL("SELECT last_value - (NOT is_called)::int FROM {}").format(identifier(name))
        (last,) = connection.execute(query).fetchone() or (0,)
        if last < value:
            steps.append(SequenceStep(name, last, value))
    return steps


def advance(connection: Connection, step: SequenceStep) -> None:
    """Advance the sequence past the numbers in the ledger."""
    connection.execute("SELECT setval(%s::regclass, %s)", [step.sequence, step.becomes])
