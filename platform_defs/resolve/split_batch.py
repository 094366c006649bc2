"""Split a pipeline's pending batch into smaller ones: shown (`propose`), then done in one transaction if nothing has
changed (`cut`). For a batch with fixed offsets that exceeds a limit of time or memory.
"""

from dataclasses import dataclass
from typing import Any

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.digest import fingerprint_of
from platform_defs.engine.interfaces.broker_and_auditor import Broker
from platform_defs.engine.plan.split_batch import split_pending
from platform_defs.engine.plan.topic_view import describe_with_halt
from platform_defs.errors import BadInput, ChangedMeanwhile
from platform_defs.errors.halts import KeepsFailing
from platform_defs.ledger.answers import PipelineState
from platform_defs.ledger.ledger import Ledger
from platform_defs.ledger.migrations import reading
from platform_defs.offsets import PendingBatch
from platform_defs.postgres.connection import connect
from platform_defs.resolve.ledger import SettlementLedger

CODE = "recut"  # of its record in tidegate.settlement, since before the command was renamed


@dataclass(frozen=True)
class BatchSplit:
    """A decision to split, not yet carried out. `becomes` is the first of the batches that replace `was`."""

    pipeline: str
    epoch: int
    state: PipelineState
    messages: int
    was: PendingBatch
    becomes: PendingBatch

    @property
    def offsets(self) -> int:
        """The number of offsets of the whole batch."""
        return sum(map(len, self.was.every_range))

    @property
    def parts(self) -> int:
        """The approximate number of batches: offsets are divided among partitions in whole numbers."""
        return -(-self.offsets // self.messages)

    @property
    def fingerprint(self) -> str:
        """A hash of the decision: the same as long as nothing changes."""
        return fingerprint_of([self.pipeline, self.epoch, self.state, self.messages, self.was.to_json()])

    def to_json(self) -> dict[str, Any]:
        """Return the document that `tidegate split-batch -o json` prints."""
        return {
            "pipeline": self.pipeline,
            "batch_id": self.was.batch_id,
            "offsets": self.offsets,
            "messages": self.messages,
            "batches": self.parts,
            "epoch": self.epoch,
            "fingerprint": self.fingerprint,
        }


def propose(ledger: Ledger, pipeline: str, messages: int) -> BatchSplit:
    """Return the decision to split the pending batch into ones of about `messages` messages. Raises BadInput if there
    is none, or the pipeline has halted for a reason that smaller batches do not change.
    """
    status = ledger.status(pipeline)
    if status.pending is None:
        raise BadInput(
            f"{pipeline} has no pending batch: there is nothing to split. batchMessages in its contract limits the "
            "size of the next one"
        )
    if status.state == "halted" and status.halt_code != KeepsFailing.code:
        raise BadInput(
            f"{pipeline} is halted ({status.halt_code}), which smaller batches cannot fix. Resolve the halt first: "
            f"tidegate resolve {pipeline}"
        )
    becomes = split_pending(status.pending, messages)
    return BatchSplit(
        pipeline=pipeline,
        epoch=status.epoch,
        state=status.state,
        messages=messages,
        was=status.pending,
        becomes=becomes,
    )


def refuse_unreadable(decided: BatchSplit, contract: Contract, ledger: Ledger, broker: Broker) -> None:
    """Raise BadInput if the log no longer has the messages of the batch: its parts would halt the pipeline."""
    _, halt = describe_with_halt(broker, contract, ledger.positions(contract.pipeline), decided.was)
    if halt is not None:
        first = "" if decided.state == "halted" else "Start a run, which halts. "
        raise BadInput(
            f"batch {decided.was.batch_id} can no longer be read ({halt.code}): {halt.reason} {first}To see how to go "
            f"on: {halt.command}",
            field=contract.pipeline,
        )


def cut(postgres_url: str, decided: BatchSplit, reason: str, who: str) -> int:
    """Carry it out. Return the record's id. A run in progress is fenced; a publication in progress is waited for, and
    changes the decision's basis. Raises ChangedMeanwhile, LedgerAway.
    """
    with reading(connect(postgres_url)) as connection, connection.transaction():
        ledger = SettlementLedger(connection, decided.pipeline, decided.epoch, reason, who)
        found = ledger.lock()
        if (found.epoch, found.state, found.pending) != (decided.epoch, decided.state, decided.was):
            again = f"tidegate split-batch {decided.pipeline} --messages {decided.messages}"
            raise ChangedMeanwhile.since_shown(decided.pipeline, again)
        number = ledger.record(CODE, decided.was.to_json(), {"messages": decided.messages, "batches": decided.parts})
        ledger.reactivate(decided.state, decided.becomes.to_json(), keep_pending=True)
        return number
