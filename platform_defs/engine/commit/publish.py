"""Step 7: one transaction makes a batch real. This is the guarantee; read it with
engine/commit/publish_statements.py.

Data and offsets commit together or not at all.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from platform_defs.contract.model.contract import CheckResult, Contract
from platform_defs.engine.commit.publish_statements import PostgresPublication
from platform_defs.engine.interfaces.broker_and_auditor import Broker
from platform_defs.engine.interfaces.staged import Staged
from platform_defs.engine.plan.topic_view import describe
from platform_defs.errors import LogTruncated, StagingLost
from platform_defs.ledger.published import RowChanges
from platform_defs.offsets import Position, TopicView, still_there


@dataclass(frozen=True)
class BatchRecord:
    """The ledger's record of a batch besides its ranges and messages."""

    checks: Sequence[CheckResult]
    timings: Mapping[str, float]  # seconds by step
    event: Mapping[str, Any]  # OpenLineage, as JSON


@dataclass(frozen=True)
class PublishStep:
    """A step inside a publishing transaction: `publish` runs it, `tidegate plan --explain` prints it."""

    name: str  # the method of PostgresPublication
    does: str
    run: Callable[[PostgresPublication, BatchRecord], None]


# The steps of the publishing transaction, in order. 1. is before it, in `publish`.
STEPS = (
    # 2. A fenced run stops here.
    PublishStep(
        "lock_as_owner",
        "lock the pipeline's row as its owner; a run that another one has replaced stops here",
        lambda transaction, _: transaction.lock_as_owner(),
    ),
    # 3. COPY stored bits in staging, and they must mean the same in the tables.
    PublishStep(
        "check_tables",
        "compare the columns of each table with the contract",
        lambda transaction, _: transaction.check_tables(),
    ),
    # 4. Every planned range was read to its end by one complete attempt.
    PublishStep(
        "prove_coverage",
        "require a complete attempt for each range",
        lambda transaction, _: transaction.prove_coverage(),
    ),
    # 5. Compare-and-swap of all positions in one statement: from where they were planned, or not at all.
    PublishStep(
        "move_positions",
        "move the positions of all partitions, each from its value when the batch was planned, or roll back",
        lambda transaction, _: transaction.move_positions(),
    ),
    # 6. The batch's row decides the outcome of a COMMIT that got no answer. And the dead letters, as many as
    #    coverage counted.
    PublishStep(
        "write_record",
        "write the batch, its ranges with gaps, its check results and its lineage event; clear the pending batch",
        lambda transaction, record: transaction.write_record(record.checks, record.timings, record.event),
    ),
    PublishStep(
        "write_dead_letters",
        "write the dead letters, and count them",
        lambda transaction, _: transaction.write_dead_letters(),
    ),
    # 7. The winners' rows, as many as they reported.
    PublishStep(
        "write_rows",
        "write the rows of the winning attempts, and count them",
        lambda transaction, _: transaction.write_rows(),
    ),
)
# 8. COMMIT: all of it, or none.


def publish(
    publication: AbstractContextManager[PostgresPublication],
    broker: Broker,
    contract: Contract,
    staged: Staged,
    record: BatchRecord,
) -> tuple[TopicView, RowChanges | None]:
    """Commit `staged` with its dead letters, check results, lineage and offsets, or change nothing. Return the topic as
    it was before the commit, and the row changes of an upsert. `publication`: its transaction, not open yet.

    Raises Fenced, Halt, LogTruncated, StagingLost, LedgerAway or RowRefused: nothing was published. OutcomeUnknown: the
    ledger has the outcome.
    """
    # 1. A consumer does not notice that a topic was deleted and created again while it reads. Messages that were read
    #    may be gone by now: coverage proves that they were read, and retention is free to delete them.
    read = read_up_to(staged)
    view = describe(broker, contract.topic, read)
    still_there(contract.pipeline, read, view)
    if {item.range for item in staged.coverage} != set(staged.pending.ranges):
        raise StagingLost.other_ranges()
    with publication as transaction:
        for step in STEPS:  # 2. to 7.
            step.run(transaction, record)
    # 8. COMMIT, on leaving the block.
    return view, transaction.changes


def read_up_to(staged: Staged) -> list[Position]:
    """Return the position that the tasks reached in each partition, with the newest leader epoch known for it.

    Raises LogTruncated if a message has a later leader epoch than the one that reported the end of the batch (all
    messages below that end were in that leader's log). Raises StagingLost if leader epochs decrease: the topic was
    recreated.
    """
    planned = staged.pending.end_epochs  # ranges read back from staging carry no epochs
    read: dict[int, Position] = {}
    written: dict[int, int] = {}  # by partition, the leader epoch of the last message
    for item in sorted(staged.coverage, key=lambda one: one.range):
        at = staged.pending.position(item.range)
        end_epoch = planned[at.partition]
        if item.leader_epoch is not None and end_epoch is not None and item.leader_epoch > end_epoch:
            raise LogTruncated(
                f"{item.range} was planned at leader epoch {end_epoch} but contains messages of leader epoch "
                f"{item.leader_epoch}: an unclean leader election truncated the log after the batch was planned. "
                "Nothing was published. The batch will be planned again; if the log was also truncated below the "
                "batch, the pipeline halts"
            )
        before = written.get(at.partition, item.leader_epoch)
        if item.leader_epoch is not None and before is not None:
            if item.leader_epoch < before:
                raise StagingLost(
                    f"messages of {item.range} have leader epoch {item.leader_epoch}, and those before them {before}: "
                    "they come from different logs of the topic. The batch will be read again"
                )
            written[at.partition] = item.leader_epoch
        known = read.get(at.partition, at).leader_epoch
        seen = (known, at.leader_epoch, item.leader_epoch, end_epoch)
        newest = max((epoch for epoch in seen if epoch is not None), default=None)
        read[at.partition] = replace(at, next_offset=item.range.until_offset, leader_epoch=newest)
    return list(read.values())
