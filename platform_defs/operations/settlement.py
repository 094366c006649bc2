"""What settles a halt: decided and shown (`plan`), then done in one transaction if nothing has changed (`settle`).

retention_passed                  the missing offsets become a declared skip; reading resumes at the low watermark
log_truncated                     the truncated offsets are recorded as lost history; reading resumes at the new end
topic_recreated, cluster_switched a new generation, from its beginning or its end; the old one is lost history. The same
                                  for any halt where the log is a different one by now; and where it is the old one
                                  again (the address was corrected), reading resumes where it stopped
partition_missing                 the position is forgotten; what it had read is lost history
too_many_dead_letters             the pending batch is published with all of them
gate_red                          the pending batch is judged again, published all the same, or made dead letters. Not
                                  only a halt: from the first time that it fails its checks
anything else                     the batch is retried, once the cause is fixed
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from platform_defs.contract.model import Contract
from platform_defs.engine.ports import Broker
from platform_defs.errors import BadInput, ChangedMeanwhile
from platform_defs.halts import (
    AccumulateRefused,
    ClusterSwitched,
    GateRed,
    HaltCode,
    HaltDetail,
    LogCut,
    PartitionSpan,
    TooManyDeadLetters,
    TopicRecreated,
    UnknownHalt,
    read_detail,
)
from platform_defs.offsets import PartitionView, TopicView, spell
from platform_defs.operations.settled_gate import BatchChoice, settled_gate
from platform_defs.words import plural
from resources.postgres.answers import PipelineState, PipelineStatus
from resources.postgres.connection import connect, database_errors
from resources.postgres.ledger import Ledger
from resources.postgres.migrations import require_current
from resources.postgres.settlement_ledger import LockedPipeline, LogPosition, SettlementLedger

NewLogStart = Literal["beginning", "end"]


@dataclass(frozen=True)
class PartitionChange:
    """What a settlement does to one partition. `was` is None for a new one, `becomes` for one that is forgotten."""

    partition: int
    was: LogPosition | None
    becomes: LogPosition | None
    skip: tuple[int, int] | None = None  # offsets given up
    lost: tuple[int, int] | None = None  # offsets whose rows no log can confirm any more


@dataclass(frozen=True)
class Settlement:
    """A decision, not yet carried out."""

    pipeline: str
    detail: HaltDetail
    epoch: int
    explanation: str
    steps: tuple[PartitionChange, ...] = ()
    accept: bool = False  # the dead letters of the pending batch
    keep_pending: bool = False
    checks_accepted: tuple[str, ...] = ()  # blocking checks that the pending batch may fail
    set_aside: str | None = None  # why every message of the pending batch becomes a dead letter
    state: PipelineState = "halted"  # active: what is settled has not halted the pipeline
    positions: tuple[tuple[int, LogPosition], ...] = field(default=(), repr=False)  # as they were when this was decided

    def to_json(self) -> dict[str, Any]:
        """What `tidegate ack -o json` prints, and what the record of the settlement keeps."""
        document = asdict(self)
        del document["positions"]
        shown = {"pipeline": self.pipeline, "code": self.code, "detail": self.detail.to_json()}
        return {**document, **shown, "fingerprint": self.fingerprint}

    @property
    def code(self) -> str:
        """The halt's code."""
        return self.detail.code

    @property
    def marks(self) -> Mapping[str, Any]:
        """What was decided about the pending batch, as its own fields (offsets.PendingBatch)."""
        decided = {
            "dead_letters_accepted": self.accept,
            "checks_accepted": list(self.checks_accepted),
            "set_aside": self.set_aside,
        }
        return {name: value for name, value in decided.items() if value}

    @property
    def fingerprint(self) -> str:
        """A hash of everything that was shown, so that exactly that is carried out and nothing else."""
        shown = {**asdict(self), "code": self.code}
        return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:12]


def propose(
    contract: Contract, ledger: Ledger, broker: Broker, start: NewLogStart | None, batch: BatchChoice | None = None
) -> Settlement | None:
    """What would settle the pipeline's halt, or its pending batch that fails blocking checks; None where there is
    neither. Changes nothing.

    Raises BadInput where `start` is needed and missing, or `batch` is given and no such batch is pending; BrokerAway,
    LedgerAway.
    """
    status = ledger.status(contract.pipeline)
    detail = _to_settle(status)
    if batch is not None and not isinstance(detail, GateRed):
        raise BadInput(f"no batch of {contract.pipeline} fails a blocking check", field="--batch")
    if detail is None:
        return None
    positions = [
        (at.partition, LogPosition(at.cluster_id, at.topic_id, at.start_offset, at.next_offset))
        for at in ledger.started_positions(contract.pipeline, contract.topic)
    ]
    if isinstance(detail, GateRed):
        return _of_gate(status, detail, tuple(positions), batch or "retry")
    decision = _decide(detail, positions, contract, broker, start)
    return Settlement(
        contract.pipeline,
        detail,
        status.epoch,
        decision.explanation,
        tuple(decision.steps),
        decision.accept,
        decision.keep_pending,
        positions=tuple(positions),
    )


def _of_gate(
    status: PipelineStatus, gate: GateRed, positions: tuple[tuple[int, LogPosition], ...], batch: BatchChoice
) -> Settlement:
    """The positions stay as they are."""
    decided = settled_gate(gate, batch)
    return Settlement(
        status.pipeline,
        gate,
        status.epoch,
        decided.explanation,
        keep_pending=True,
        checks_accepted=decided.checks_accepted,
        set_aside=decided.set_aside,
        state=status.state,
        positions=positions,
    )


def _to_settle(found: PipelineStatus | LockedPipeline) -> HaltDetail | None:
    """The halt, or the gate that is red and has not halted the pipeline yet."""
    if found.state == "halted":
        return read_detail(found.halt_code or "", found.halt_detail)
    return GateRed.from_json(found.red_gate) if found.red_gate else None


@dataclass(frozen=True)
class _Decision:
    """What settles a halt: see Settlement."""

    explanation: str
    steps: Sequence[PartitionChange] = ()
    accept: bool = False
    keep_pending: bool = False


def _decide(
    detail: HaltDetail,
    positions: Sequence[tuple[int, LogPosition]],
    contract: Contract,
    broker: Broker,
    start: NewLogStart | None,
) -> _Decision:
    if isinstance(detail, TooManyDeadLetters):
        kept = f"Batch {detail.batch_id} will be published with its {plural(detail.dead_letters, 'dead letter')}."
        hint = "If the contract is wrong, correct it instead: nothing was published."
        return _Decision(f"{kept} ({hint})", accept=True, keep_pending=True)
    if isinstance(detail, AccumulateRefused | UnknownHalt):
        return _Decision("The pipeline retries the same batch. Fix the cause first; see the detail.", keep_pending=True)
    view = broker.describe(contract.topic)
    # Whatever it halted for: offsets of one log mean nothing in another.
    if any((at.cluster_id, at.topic_id) != (view.cluster_id, view.topic_id) for _, at in positions):
        return _new_generation(positions, view, start)
    if isinstance(detail, TopicRecreated | ClusterSwitched):
        return _Decision("The log that was read is back. Reading resumes where it stopped.", keep_pending=True)
    asked = detail.partitions if isinstance(detail, LogCut) else ()  # found by leader epoch
    found = ((number, at, _repair(number, at, view.partitions.get(number))) for number, at in positions)
    steps = [step or PartitionChange(number, at, at) for number, at, step in found if step or number in asked]
    return _Decision(_EXPLAINED[detail.code], steps)


_EXPLAINED: Mapping[HaltCode, str] = {
    "retention_passed": "The offsets that retention deleted are given up; reading resumes at the first one left.",
    "log_truncated": (
        "Reading resumes at the current end of the log, or where it stopped if messages were appended after the "
        "truncation. Rows of the truncated offsets stay in the tables; no log can confirm them any more."
    ),
    "partition_missing": "The partition's position is forgotten; its rows stay in the tables.",
}


def _repair(number: int, at: LogPosition, held: PartitionView | None) -> PartitionChange | None:
    """What makes a partition readable again; None where it is."""
    if held is None:
        return PartitionChange(number, at, None, lost=_span(0, at.next_offset))
    if held.low > at.next_offset:
        becomes = LogPosition(at.cluster_id, at.topic_id, at.start_offset, held.low)
        return PartitionChange(number, at, becomes, skip=(at.next_offset, held.low))
    if held.end < at.next_offset:
        becomes = LogPosition(at.cluster_id, at.topic_id, min(at.start_offset, held.end), held.end)
        return PartitionChange(number, at, becomes, lost=(held.end, at.next_offset))
    return None


def _new_generation(
    positions: Sequence[tuple[int, LogPosition]], view: TopicView, start: NewLogStart | None
) -> _Decision:
    if start is None:
        spans = spell(PartitionSpan(n, held.low, held.end) for n, held in sorted(view.partitions.items()))
        raise BadInput(
            f"{view.topic} is a different log now ({spans}). Choose where to start: --from beginning or --from end"
        )
    known = dict(positions)
    steps = [
        PartitionChange(n, at, None, lost=_span(0, at.next_offset)) for n, at in positions if n not in view.partitions
    ]
    for number, held in sorted(view.partitions.items()):
        first = held.low if start == "beginning" else held.end
        was = known.get(number)
        lost = _span(0, was.next_offset) if was else None
        steps.append(PartitionChange(number, was, LogPosition(view.cluster_id, view.topic_id, first, first), lost=lost))
    old = "Rows of the old one stay in the tables; anything it held beyond these positions was never read."
    return _Decision(f"Reading resumes at the {start} of the new log. {old}", steps)


def _span(start: int, until: int) -> tuple[int, int] | None:
    return (start, until) if start < until else None


def settle(url: str, contract: Contract, decided: Settlement, reason: str, who: str) -> int:
    """Carry out `decided` and record it; the settlement's id. Raises ChangedMeanwhile, with nothing changed, where
    anything is not as it was decided on.
    """
    with connect(url) as connection, database_errors(), connection.transaction():
        ledger = SettlementLedger(connection, contract.pipeline, contract.topic, decided.epoch, reason, who)
        # 1. Everything is as it was shown, in a ledger that this version of Tidegate understands.
        require_current(connection)
        _unchanged(ledger.lock(), decided)
        # 2. Who, why, and what: the positions before are in the steps.
        settlement_id = ledger.record(decided.code, decided.detail.to_json(), decided.to_json())
        # 3. The positions, each as a compare-and-swap.
        in_order = sorted(decided.steps, key=lambda item: item.was is None)  # a new partition needs its siblings moved
        for step in in_order:
            _give_up(ledger, settlement_id, step)
            if not _move(ledger, step):
                raise ChangedMeanwhile(
                    f"the position of {contract.pipeline} in partition {step.partition} moved; nothing was changed",
                    pipeline=contract.pipeline,
                )
        # 4. The pipeline.
        if not ledger.reactivate(decided.state, decided.marks, keep_pending=decided.keep_pending):
            raise ChangedMeanwhile(
                f"{contract.pipeline} was settled or taken over meanwhile; nothing was changed",
                pipeline=contract.pipeline,
            )
    return settlement_id


def _give_up(ledger: SettlementLedger, settlement_id: int, step: PartitionChange) -> None:
    """Record the offsets that will not be read, and those whose rows no log can confirm any more."""
    if step.was is None:
        return
    topic_id = step.was.topic_id
    if step.skip:
        ledger.skip(step.partition, topic_id, step.skip)
    if step.lost:
        ledger.lose(settlement_id, step.partition, topic_id, step.lost)
        if step.becomes is None or step.becomes.topic_id == topic_id:
            ledger.set_aside(settlement_id, step.partition, topic_id, step.lost)


def _move(ledger: SettlementLedger, step: PartitionChange) -> bool:
    """Move, forget or add the partition's position. False where it is not as the step has it."""
    if step.was and step.becomes:
        return ledger.move(step.partition, step.was, step.becomes)
    if step.was:
        return ledger.forget(step.partition, step.was)
    return step.becomes is None or ledger.add(step.partition, step.becomes)


def _unchanged(now: LockedPipeline, decided: Settlement) -> None:
    """Raise ChangedMeanwhile unless the pipeline is as `decided` saw it."""
    same = (now.state, now.epoch) == (decided.state, decided.epoch) and _to_settle(now) == decided.detail
    if not same or now.positions != decided.positions:
        raise ChangedMeanwhile(
            f"{decided.pipeline} is no longer as it was shown; nothing was changed. Look again: "
            f"tidegate ack {decided.pipeline}",
            pipeline=decided.pipeline,
        )
