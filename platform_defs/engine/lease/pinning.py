"""The contract that a run uses: the one in the ledger, or a changed one that it applies by itself.

contract/evolution/unattended.py decides what a run may apply; this module reads the ledger, alters the tables and
records the contract.
"""

from platform_defs.contract.evolution.plan import ChangePlan, plan
from platform_defs.contract.evolution.unattended import refuse_attended, refuse_declassified, refuse_version
from platform_defs.contract.model.classified import classified
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.reserved import REPLAY
from platform_defs.contract.odcs_writer import contract_digest
from platform_defs.engine.ports import crash_points
from platform_defs.formats.writer_fit import writer_changes
from platform_defs.ledger.contract_ledger import SHORT_WAIT, ContractLedger, run
from platform_defs.postgres.connection import LOCK_WAIT, Connection, lock_timeout


def pin(connection: Connection, contract: Contract, run_id: str | None, *, rebuilding: bool) -> str | None:
    """Return the digest of the contract for this run's messages; None for a replay that is being built, whose batches
    get the digest of the pipeline that they become a part of.

    Runs in a transaction, as the pipeline's owner. Raises BadInput if a user has to apply the contract first. A replay
    that is `rebuilding` records it when it is swapped in.
    """
    if contract.pipeline.endswith(REPLAY):
        return None
    ledger, wanted = ContractLedger(connection, contract.pipeline), contract_digest(contract)
    applied = ledger.applied()
    if applied is not None:
        was = applied.contract(contract.pipeline)
        if applied.digest == wanted:  # which covers neither classification nor limits
            if classified(was) != classified(contract):
                refuse_declassified(plan(was, contract))
            elif was.limits == contract.limits:
                return wanted
        else:
            of_writers = writer_changes(was, contract, ledger.schemas_in_use())
            found = plan(was, contract, ledger.shapes(contract), of_writers=of_writers)
            refuse_version(found, applied.applied_by, by_command=applied.by_command)
            if rebuilding:
                refuse_declassified(found)
            else:
                _evolve(ledger, found)
    if rebuilding:
        return wanted
    return ledger.record(contract, f"run {run_id}" if run_id else "a run", by_command=False)


def _evolve(ledger: ContractLedger, found: ChangePlan) -> None:
    """Change the tables to match the changed contract. Raises BadInput if a run may not."""
    published = ledger.newest_batch() is not None
    refuse_attended(found, published=published, unknown_fields=ledger.unknown_fields())
    ledger.connection.execute(lock_timeout(SHORT_WAIT))
    for _ in run(ledger.connection, found.statements):
        crash_points.reach("apply_altered")
    ledger.connection.execute(lock_timeout(LOCK_WAIT))
