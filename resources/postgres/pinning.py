"""Which contract a run goes by: the one that the ledger has, or a changed one that it may take by itself.

A run records a changed contract where the tables need no statement for it. Where they do, it applies those of class
free if the contract says `evolution: additive`; everything else is for `tidegate contract apply`, which a person runs.
"""

from platform_defs.contract.model import Contract
from platform_defs.contract.written import contract_digest
from platform_defs.engine import crash_points
from platform_defs.engine.replay_plan import SUFFIX as REPLAY
from platform_defs.errors import BadInput
from platform_defs.evolution.changes import ChangeClass
from platform_defs.evolution.plan import ChangePlan, plan
from resources.postgres.connection import LOCK_WAIT, Connection, lock_timeout
from resources.postgres.contract_ledger import SHORT_WAIT, ContractLedger, run

_BY_ITSELF = (ChangeClass.WORDS, ChangeClass.FREE, ChangeClass.NEW_PIPELINE)  # of the last, its halt decides


def pin(connection: Connection, contract: Contract, run_id: str | None, *, rebuilding: bool) -> str | None:
    """The digest of the contract that judges this run's messages; None for a replay that is being built, whose batches
    get the digest of the pipeline that they become a part of.

    In a transaction, as the pipeline's owner. Raises BadInput where a person has to apply the contract first. A replay
    that is `rebuilding` records it when it is put in place.
    """
    if contract.pipeline.endswith(REPLAY):
        return None
    ledger, wanted = ContractLedger(connection, contract.pipeline), contract_digest(contract)
    if ledger.in_force() == wanted:
        return wanted
    if (applied := ledger.applied()) is not None:
        found = plan(applied.contract(contract.pipeline), contract, ledger.shapes(contract))
        if (applied.by_command or contract.evolution == "additive") and found.version_mistake:
            by = f"(applied: {applied.version}, by {applied.applied_by})"
            raise BadInput(f"{found.version_mistake} {by}", field="version")
        if not rebuilding:
            _evolve(ledger, found)
    if rebuilding:
        return wanted
    return ledger.record(contract, f"run {run_id}" if run_id else "a run", by_command=False)


def _evolve(ledger: ContractLedger, found: ChangePlan) -> None:
    """Make the tables what the changed contract says, where a run may. Raises BadInput where it may not."""
    if found.found_otherwise and ledger.newest_batch() is not None:
        raise _for_a_replay(found)
    additive = found.new.evolution == "additive"
    others = [change for change in found.changes if change.kind not in _BY_ITSELF]
    if (found.statements and not additive) or (others and additive):
        raise _for_a_person(found)
    ledger.connection.execute(lock_timeout(SHORT_WAIT))
    for _ in run(ledger.connection, found.statements):
        crash_points.reach("apply_altered")
    ledger.connection.execute(lock_timeout(LOCK_WAIT))


def _for_a_replay(found: ChangePlan) -> BadInput:
    name, changes = found.new.pipeline, [f"{item.what}: {item.sentence}" for item in found.found_otherwise]
    return BadInput(
        f"its contract has changed since {found.old.version} was applied: {'; '.join(changes)}. Nothing was written. "
        f"Rebuild the rows from the log: tidegate replay {name}",
        field=name,
    )


def _for_a_person(found: ChangePlan) -> BadInput:
    name = found.new.pipeline
    what = "; ".join([item.sql for item in found.statements] or [change.what for change in found.changes])
    return BadInput(
        f"its contract has changed since {found.old.version} was applied, and the tables have not: {what}. Nothing was "
        f"written. See what would change: tidegate contract diff {name}; then: tidegate contract apply {name} --yes",
        field=name,
    )
