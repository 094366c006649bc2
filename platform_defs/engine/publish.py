"""Step 7: one transaction makes a batch real. This is the guarantee; read it with resources/publication.py.

money from account A to account B: the transfer and the offset, or neither.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from platform_defs.engine.contract import CheckResult
from platform_defs.engine.errors import StagingLost
from platform_defs.engine.offsets import still_readable
from platform_defs.engine.ports import Broker, Ledger, Staged


def publish(ledger: Ledger, broker: Broker, pipeline: str, staged: Staged, checks: Sequence[CheckResult],
            timings: Mapping[str, float], event: Mapping[str, Any]) -> None:  # fmt: skip
    """Commit `staged` with its dead letters, check results, lineage and offsets, or change nothing.

    Raises Fenced, Halt, StagingLost, LedgerAway or RowRefused: nothing was published. OutcomeUnknown: the ledger knows.
    """
    # 1. The log is still the one that was planned: a topic created again in mid-read goes unnoticed by a consumer.
    still_readable(pipeline, staged.pending, broker.describe(staged.pending.ranges[0].topic))
    if {item.range for item in staged.coverage} != set(staged.pending.ranges):
        raise StagingLost("the staged ranges are not the planned ones; the batch is read again")
    with ledger.publication(staged) as transaction:
        # 2. The pipeline's row, locked, as its owner. Whoever was fenced gets no further.
        transaction.hold()
        # 3. The tables are still what the contract says: COPY stored bits, and they must mean the same here.
        transaction.check_tables()
        # 4. Every planned range was read to its end by one complete attempt.
        transaction.prove_coverage()
        # 5. Compare-and-swap of all positions in one statement: from where they were planned, or not at all.
        transaction.move_positions()
        # 6. The record: batch, ranges with gaps, check results, lineage. Its batch row decides a COMMIT gone unanswered.
        transaction.write_record(checks, timings, event)
        # 7. The winners' rows, as many as they reported, and the dead letters, as many as coverage counted.
        transaction.write_rows()
        transaction.write_dead_letters()
    # 8. COMMIT, on leaving the block: all of it, or none.
