"""Resolution of a halt: decided and shown (`propose`), then done in one transaction if nothing has changed (`settle`).

retention_passed                  the missing offsets become a declared skip; reading resumes at the low watermark
log_truncated                     the truncated offsets are recorded as lost history; reading resumes at the cut, or at
                                  the position: offsets written in between are then a declared skip
topic_recreated, cluster_switched,  a new generation, from its beginning or its end; the old one is lost history. The
topic_changed                     same for any halt if the log is a different one by now; if it is the old one again
                                  (address or contract were corrected), reading resumes where it stopped
partition_missing                 from older versions: it was a stale answer, and reading resumes where it stopped
too_many_dead_letters             the pending batch is published with all of them
blocking_check_failed             the pending batch is checked again, published anyway, or dead-lettered. Not only for a
                                  halt: from the first time that it fails its checks
keeps_failing, for its schemas    as below, or the pending batch is published: messages whose schema the registry lacks
                                  become dead letters
registry_switched                 from the positions on, ids are those of the current registry; earlier messages keep
                                  the schemas in the ledger
anything else                     the batch is retried, once the cause is fixed

If the log no longer has what the pending batch was to read, nothing can be decided about that batch: it is dropped, and
the log decides, as in the halts above (`_decide_for_log`).

resolve/settled_log.py decides about the positions; decide_failed_checks and decide_missing_schemas, about the batch.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.digest import fingerprint_of
from platform_defs.contract.redaction import stored_halt
from platform_defs.engine.plan.topic_view import describe_with_halt
from platform_defs.errors import BadInput, ChangedMeanwhile, Halt, SchemasNotGiven
from platform_defs.errors.halts import (
    BlockingCheckFailed,
    ClusterSwitched,
    HaltDetail,
    KeepsFailing,
    LogCut,
    PartitionMissing,
    RegistrySwitched,
    RetentionPassed,
    TooManyDeadLetters,
    TopicChanged,
    TopicRecreated,
    read_detail,
)
from platform_defs.errors.words import plural
from platform_defs.ledger.answers import PipelineState, PipelineStatus
from platform_defs.ledger.ledger import Ledger
from platform_defs.ledger.migrations import reading
from platform_defs.offsets import PendingBatch
from platform_defs.postgres.connection import connect
from platform_defs.resolve.choices import BatchChoice, ResumeAt
from platform_defs.resolve.ledger import LockedPipeline, LogPosition, PartitionChange, SettlementLedger
from platform_defs.resolve.settled_log import Decision, Log, Positions, SettledLog

LAST = 2**63 - 1  # no offset is larger
ABOUT_THE_LOG = (TopicRecreated, ClusterSwitched, TopicChanged, RetentionPassed, LogCut, PartitionMissing)


@dataclass(frozen=True, kw_only=True)
class Settlement(Decision):
    """A decision, not yet carried out, and the state of the pipeline that it was made on."""

    pipeline: str
    detail: HaltDetail
    epoch: int
    state: PipelineState = "halted"  # active: the pipeline is not halted
    positions: Positions = field(default=(), repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the document that `tidegate resolve -o json` prints and the settlement's record stores."""
        decided = {name: value for name, value in asdict(self).items() if name not in ("detail", "positions", "log")}
        shown = {"pipeline": self.pipeline, "code": self.detail.code, "detail": self.detail.to_json()}
        return {**shown, **decided, "fingerprint": self.fingerprint}

    @property
    def marks(self) -> Mapping[str, Any]:
        """The decision about the pending batch, as its own fields (offsets.PendingBatch)."""
        decided = {
            "dead_letters_accepted": self.accept,
            "checks_accepted": list(self.checks_accepted),
            "set_aside": self.set_aside,
            "without_schemas": self.without_schemas,
        }
        return {name: value for name, value in decided.items() if value}

    @property
    def fingerprint(self) -> str:
        """A hash of all that is carried out. The explanation only describes it, and may name the log's current end."""
        decided = asdict(self)
        del decided["explanation"]
        return fingerprint_of({**decided, "code": self.detail.code})


def propose(
    contract: Contract, ledger: Ledger, broker: Log, start: ResumeAt | None, batch: BatchChoice | None = None
) -> Settlement | None:
    """Return the decision that would resolve the pipeline's halt, or its pending batch that fails blocking checks; None
    if there is neither. Changes nothing.

    Raises BadInput if `start` is needed and missing, or `batch` is given and no such batch is pending; BrokerAway, also
    if the metadata is stale; LedgerAway.
    """
    status = ledger.status(contract.pipeline)
    detail = _to_settle(status, contract)
    undecided = isinstance(detail, BlockingCheckFailed) or (_lacks_schemas(detail) and batch != "publish")
    if batch is not None and not undecided:
        raise BadInput(f"no batch of {contract.pipeline} fails a blocking check", field="--batch")
    if detail is None:
        return None
    positions = tuple(
        (at.partition, LogPosition(at.topic, at.cluster_id, at.topic_id, at.start_offset, at.next_offset))
        for at in ledger.started_positions(contract.pipeline)
    )
    view, halt = describe_with_halt(broker, contract, ledger.positions(contract.pipeline), status.pending)
    log = SettledLog(contract.pipeline, ledger, broker, view, positions)
    if isinstance(detail, ABOUT_THE_LOG):
        decision = log.decide(detail, start)
    elif halt is not None:
        decision = _decide_for_log(detail, halt, status.pending, log, start, batch)
    else:
        decision = _decide_for_batch(detail, batch)
    return Settlement(
        **vars(decision),
        pipeline=status.pipeline,
        detail=detail,
        epoch=status.epoch,
        state=status.state,
        positions=positions,
    )


def _lacks_schemas(detail: HaltDetail | None) -> bool:
    return isinstance(detail, KeepsFailing) and detail.error_class == SchemasNotGiven.__name__


def _to_settle(found: PipelineStatus | LockedPipeline, contract: Contract) -> HaltDetail | None:
    """Return the halt, or the failed gate that has not halted the pipeline yet, without classified values."""
    if found.state == "halted":
        return stored_halt(contract, read_detail(found.halt_code or "", found.halt_detail))
    return stored_halt(contract, BlockingCheckFailed.from_json(found.failed_checks)) if found.failed_checks else None


def _decide_for_batch(detail: HaltDetail, batch: BatchChoice | None) -> Decision:
    """Return the decision about a batch that the log still has."""
    if isinstance(detail, BlockingCheckFailed):
        return decide_failed_checks(detail, batch or "retry")
    if _lacks_schemas(detail):
        return decide_missing_schemas(batch)
    if isinstance(detail, TooManyDeadLetters):
        kept = f"Batch {detail.batch_id} will be published with its {plural(detail.dead_letters, 'dead letter')}."
        hint = "If the contract is wrong, correct it instead: nothing was published."
        return Decision(f"{kept} ({hint})", accept=True, keep_pending=True)
    if isinstance(detail, RegistrySwitched):
        return Decision(_from_now_on(detail), keep_pending=True, registry=detail.registry)
    return Decision(RETRIED, keep_pending=True)


def _decide_for_log(
    detail: HaltDetail,
    halt: Halt,
    pending: PendingBatch | None,
    log: SettledLog,
    start: ResumeAt | None,
    batch: BatchChoice | None,
) -> Decision:
    """Return the decision if the log no longer has what is to be read next, so that `halt` would follow. Raises
    BadInput for a choice about the `batch`, and as `SettledLog.decide`.
    """
    if batch is not None:
        raise BadInput(
            f"nothing can be decided about the batch any more: {halt.reason} Check again: tidegate resolve "
            f"{halt.pipeline}",
            field="--batch",
        )
    decision = log.decide(halt.detail, start)
    texts = [f"The log has changed since ({halt.code}): {halt.reason}"]
    if pending is not None:
        texts.append(f"Batch {pending.batch_id} can no longer be read and is dropped, with any decision about it.")
    texts.append(decision.explanation)
    if isinstance(detail, RegistrySwitched):
        texts.append(_from_now_on(detail))
        return replace(decision, explanation=" ".join(texts), registry=detail.registry)
    texts.append(f"The next batch is planned from there and may halt the pipeline for the same reason ({detail.code}).")
    return replace(decision, explanation=" ".join(texts))


def _from_now_on(detail: RegistrySwitched) -> str:
    return (
        f"For messages from these positions on, schema ids are looked up again in the registry {detail.registry}. "
        "Earlier messages keep the schemas in the ledger. If this is the wrong registry, correct "
        "TIDEGATE_REGISTRY_URL first."
    )


def settle(url: str, contract: Contract, decided: Settlement, reason: str, who: str) -> int:
    """Carry out `decided` and record it. Return the settlement's id. Raises ChangedMeanwhile, with nothing changed, if
    anything differs from the decision.
    """
    with reading(connect(url)) as connection, connection.transaction():
        ledger = SettlementLedger(connection, contract.pipeline, decided.epoch, reason, who)
        # 1. Check that nothing has changed.
        now = ledger.lock()
        same = (now.state, now.epoch) == (decided.state, decided.epoch) and _to_settle(now, contract) == decided.detail
        if not same or now.positions != decided.positions:
            raise ChangedMeanwhile.since_shown(decided.pipeline, f"tidegate resolve {decided.pipeline}")
        # 2. Record who, why and what: the positions before are in the steps.
        settlement_id = ledger.record(decided.detail.code, decided.detail.to_json(), decided.to_json())
        # 3. Move the positions, each as a compare-and-swap.
        in_order = sorted(decided.steps, key=lambda item: item.was is None)  # a new partition needs its siblings moved
        for step in in_order:
            _record(ledger, settlement_id, step, decided)
            if not _move(ledger, step, decided.log):
                raise ChangedMeanwhile(
                    f"the position of {contract.pipeline} in partition {step.partition} has moved; nothing was changed"
                )
        if decided.registry is not None:
            ledger.open_generation(decided.registry)
        # 4. Reactivate the pipeline.
        if not ledger.reactivate(decided.state, decided.marks, keep_pending=decided.keep_pending):
            raise ChangedMeanwhile(
                f"{contract.pipeline} was resolved or taken over in the meantime; nothing was changed"
            )
    return settlement_id


def _record(ledger: SettlementLedger, settlement_id: int, step: PartitionChange, decided: Settlement) -> None:
    """Record the offsets whose rows no log can confirm any more, and those that will not be read."""
    if decided.log:  # that log may have been read before: offsets skipped then may be read now
        every = (step.becomes.next_offset if step.becomes else 0, LAST)
        ledger.set_aside(settlement_id, step.partition, decided.log[1], every)
    old = decided.positions[0][1].topic_id  # all positions are in one log
    if step.lost:
        ledger.lose(settlement_id, step.partition, old, step.lost)
        if not decided.log:
            ledger.set_aside(settlement_id, step.partition, old, step.lost)
    if step.skip:  # last: of the offsets set aside, these are the new messages
        ledger.skip(step.partition, old, step.skip)


def _move(ledger: SettlementLedger, step: PartitionChange, log: tuple[str, str] | None) -> bool:
    """Move, forget or add the partition's position, or leave it without one. Return False if it is not as in
    the step.
    """
    if step.was and step.becomes:
        return ledger.move(step.partition, step.was, step.becomes, step.read_first_to)
    if step.was:
        return log is not None and ledger.forget(step.partition, step.was, log)
    return step.becomes is None or ledger.add(step.partition, step.becomes, step.read_first_to)


RETRIED = "The pipeline retries the same batch. Fix the cause first; see the detail."


def decide_failed_checks(failure: BlockingCheckFailed, batch: BatchChoice) -> Decision:
    """Return the decision for the choice `batch` about the batch of `failure`."""
    failed, name = ", ".join(failure.names), f"Batch {failure.batch_id}"
    match batch:
        case "publish":
            text = f"{name} will be published although it fails {failed}."
            return Decision(text, keep_pending=True, checks_accepted=failure.names)
        case "dead-letters":
            messages = plural(failure.messages, "message")
            text = f"{name} will be published without rows: all of its {messages} become dead letters."
            why = f"batch {failure.batch_id} failed {failed}, and a user dead-lettered all of it"
            return Decision(text, keep_pending=True, set_aside=why)
        case "retry":
            text = f"The next run checks {name} again. First correct the rule, or the data or code that it checks."
            others = (
                "Alternatively, publish the batch anyway (--batch publish), or turn all of its messages into dead "
                "letters (--batch dead-letters)."
            )
            return Decision(f"{text} {others}", keep_pending=True)


def decide_missing_schemas(batch: BatchChoice | None) -> Decision:
    """Return the decision about a batch whose messages name schemas that the registry lacks."""
    if batch == "dead-letters":
        text = (
            "The batch will be published: messages whose schema the registry does not return become dead letters, "
            "however many there are, and the others become rows."
        )
        return Decision(text, accept=True, keep_pending=True, without_schemas=True)
    other = (
        "Alternatively, turn the messages whose schema the registry does not return into dead letters (--batch "
        "dead-letters)."
    )
    return Decision(f"{RETRIED} {other}", keep_pending=True)
