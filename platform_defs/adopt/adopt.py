"""Adoption: restored or moved tables are bound to their pipeline again, by name, after verify has found them whole.

Postgres gave them other OIDs, and a run refuses a table that is not the one that its pipeline filled. A copy may also
have older ledger sequences: they are advanced so that no number is used twice. The decision (`propose`) is shown, and
carried out (`adopt`) in one transaction if nothing has changed.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from platform_defs.adopt.ledger import AdoptionLedger, NamedOutput, SequenceStep
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.digest import fingerprint_of
from platform_defs.engine.lease.table_claims import Output
from platform_defs.errors import BadInput, ChangedMeanwhile
from platform_defs.ledger.migrations import reading
from platform_defs.postgres.connection import Connection, connect


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
        ledger = AdoptionLedger(connection, contract.pipeline)
        ledger.bind([item.table for item in decided.bindings])
        for step in decided.sequences:
            ledger.advance(step)
        return ledger.record(decided.to_json(), reason, who)


def _decide(connection: Connection, contract: Contract) -> Adoption | None:
    """Return the decision, with the pipeline's row locked, so that it can be carried out in the same transaction."""
    ledger = AdoptionLedger(connection, contract.pipeline)
    newest = ledger.lock()
    outputs = ledger.outputs()
    _refuse_unfit(ledger, contract, outputs, newest)
    bindings = [
        Binding(o.table_name, o.was, o.becomes) for o in outputs if o.becomes is not None and o.was != o.becomes
    ]
    sequences = ledger.sequences_behind()
    if not bindings and not sequences:
        return None
    unverified = [item.table_name for item in outputs if _is_outdated(contract, item, newest)]
    return Adoption(contract.pipeline, newest, tuple(bindings), tuple(sequences), tuple(unverified))


def _refuse_unfit(
    ledger: AdoptionLedger, contract: Contract, outputs: Sequence[NamedOutput], newest: int | None
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
        ledger.refuse_unfit(table)
        if newest is None and ledger.has_rows(item.table_name):
            raise BadInput(
                f"it has rows, but {contract.pipeline} has published nothing; empty the table first",
                field=item.table_name,
            )


def _is_outdated(contract: Contract, item: NamedOutput, newest: int | None) -> bool:
    """Return True if the next run of a contract with this table requires a replay of it anyway."""
    held = Output(contract.pipeline, item.definition, item.batch_id, newest)
    table = next((table for table in contract.tables if table.name == item.table_name), None)
    return table is None or held.filled_otherwise(table) or held.behind
