"""Step 7: one transaction makes a batch real. This is the guarantee; read it with resources/postgres/publication.py.

money from account A to account B: the transfer and the offset, or neither.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from platform_defs.contract.model import CheckResult, Contract, Delivery
from platform_defs.engine import crash_points
from platform_defs.engine.ports import Broker, PipelineHold, Staged
from platform_defs.errors import OutcomeUnknown, RowsLost, StagingLost, TidegateError
from platform_defs.offsets import still_readable

# What a batch's transactions hold, in their order. Where the offsets are written relative to the rows is the whole
# difference: https://kafka.apache.org/43/design/design/#message-delivery-semantics
TRANSACTIONS: Mapping[Delivery, tuple[tuple[Literal["offsets", "rows"], ...], ...]] = {
    "exactly_once": (("offsets", "rows"),),
    "at_least_once": (("rows",), ("offsets",)),  # a crash between them: the rows are written again
    "at_most_once": (("offsets",), ("rows",)),  # a crash between them: the rows are never written
}


def publish(
    ledger: PipelineHold,
    broker: Broker,
    contract: Contract,
    staged: Staged,
    checks: Sequence[CheckResult],
    timings: Mapping[str, float],
    event: Mapping[str, Any],
) -> None:
    """Commit `staged` with its dead letters, check results, lineage and offsets, or change nothing.

    Raises Fenced, Halt, StagingLost, LedgerAway or RowRefused: nothing was published. OutcomeUnknown: the ledger knows.
    That is exactly_once. With at_least_once each of these may leave rows that the next try writes again; at_most_once
    raises RowsLost where offsets were committed and rows were not.
    """
    # 1. The log is still the one that was planned: a topic created again in mid-read goes unnoticed by a consumer.
    still_readable(contract.pipeline, staged.pending, broker.describe(contract.topic))
    if {item.range for item in staged.coverage} != set(staged.pending.ranges):
        raise StagingLost("the staged ranges are not the planned ones; the batch is read again")
    if contract.delivery == "at_most_once":
        ledger.rehearse(staged)  # once the offsets have moved, no message could be left out any more
    for number, parts in enumerate(TRANSACTIONS[contract.delivery]):
        if number:
            crash_points.reach("between_commits")
        recorded = "offsets" in parts
        with _naming_lost_rows(contract, staged, number), ledger.publication(staged, recorded=recorded) as transaction:
            # 2. The pipeline's row, locked, as its owner. Whoever was fenced gets no further.
            transaction.lock_as_owner()
            # 3. The tables are still what the contract says: COPY stored bits, and they must mean the same here.
            transaction.check_tables()
            # 4. Every planned range was read to its end by one complete attempt.
            transaction.prove_coverage()
            if recorded:
                # 5. Compare-and-swap of all positions in one statement: from where they were planned, or not at all.
                transaction.move_positions()
                # 6. The record: batch, ranges with gaps, check results, lineage. Its batch row decides a COMMIT gone
                #    unanswered. And the dead letters, as many as coverage counted.
                transaction.write_record(checks, timings, event)
                transaction.write_dead_letters()
            if "rows" in parts:
                # 7. The winners' rows, as many as they reported.
                transaction.write_rows()
        # 8. COMMIT, on leaving the block: all of it, or none.


@contextmanager
def _naming_lost_rows(contract: Contract, staged: Staged, number: int) -> Iterator[None]:
    """Whatever stops the second transaction of at_most_once leaves rows that nobody will ever write: say so."""
    try:
        yield
    except OutcomeUnknown:
        raise
    except TidegateError as error:
        if number == 0 or contract.delivery != "at_most_once":
            raise
        raise RowsLost(
            f"{contract.pipeline} is at_most_once: the offsets of batch {staged.pending.batch_id} are committed, and "
            f"nobody will write its {staged.rows} rows again: {error}"
        ) from error
