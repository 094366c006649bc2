"""One batch, from plan to commit, in the eight steps of docs/explanation/design.md. Read this file first.

0 acquire   become the owner, once a run          resources/postgres/hold.py
1 plan      which offsets                         engine/planning.py, offsets.py
2 read      the messages, in Spark's tasks        engine/task.py, resources/kafka/source.py
3 check     decode and row rules, in the task     formats/json/decode.py, engine/row_checks.py
4 transform the pipeline's own PySpark function   assets/<domain>/<name>.py, engine/row_local.py
5 stage     COPY beside the tables                engine/stage.py, resources/postgres/staging.py
6 audit     rules over the batch                  engine/audit.py
7 publish   one transaction                       engine/publish.py, resources/postgres/publication.py
8 tell      Dagster, lineage                      orchestration/
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_attempt, wait_exponential

from platform_defs.contract.model import CheckResult, Contract, Fault
from platform_defs.contract.pipeline import Pipeline
from platform_defs.engine import audit, crash_points
from platform_defs.engine.planning import TASKS, decide
from platform_defs.engine.ports import Broker, LineageEvents, PipelineHold, Published, Source, Staged
from platform_defs.engine.publish import publish
from platform_defs.engine.stage import stage
from platform_defs.engine.task import TaskWork
from platform_defs.engine.trial import REFUSALS, find_poison
from platform_defs.errors import (
    BadInput,
    Fenced,
    GateFailed,
    Halt,
    LogTruncated,
    OutcomeUnknown,
    RowRefused,
    RowsLost,
    StagingLost,
    TidegateError,
    TransformFailed,
)
from platform_defs.offsets import OffsetRange, PendingBatch, Position, TopicView


@dataclass(frozen=True)
class Outside:
    """Everything outside that a batch touches, opened by whoever runs it."""

    ledger: PipelineHold
    broker: Broker
    source: Source
    spark: Callable[[], SparkSession]  # started only when there is something to read
    lineage: LineageEvents


@dataclass(frozen=True)
class Budget:
    """When a run stops although there is more to read: the sensor starts the next one."""

    batches: int = 1_000
    seconds: float = 3_000.0


@dataclass
class Clock:
    """Seconds by step."""

    steps: dict[str, float] = field(default_factory=dict)
    last: float = field(default_factory=time.monotonic)

    def lap(self, step: str) -> None:
        now = time.monotonic()
        self.steps[step] = round(self.steps.get(step, 0.0) + now - self.last, 3)
        self.last = now


def drain(pipeline: Pipeline, outside: Outside, budget: Budget | None = None) -> Iterator[Published]:
    """Batch after batch, each yielded once it is committed, until caught up or out of budget.

    A halt is written to the ledger before it is raised; a failed gate is backed off. Whatever stopped a run that had
    lost the pipeline to another, it raises Fenced, unless nobody knows whether its last batch committed.
    """
    budget = budget or Budget()
    started = time.monotonic()
    try:
        outside.ledger.sweep()
        for _ in range(budget.batches):
            published = run_batch(pipeline, outside)
            if published is None:
                return
            yield published
            if time.monotonic() - started > budget.seconds:
                return
    except (Fenced, OutcomeUnknown, RowsLost):  # none says more than is known
        raise
    except TidegateError as error:
        if outside.ledger.fenced():  # its sessions were ended and its staging swept: that is why it failed
            raise Fenced(
                f"{pipeline.name}: another run, or a settlement, took over; this one has changed nothing more and"
                " stops."
            ) from error
        if isinstance(error, Halt):
            outside.ledger.halt(error.code, error.detail)
        elif isinstance(error, GateFailed | BadInput):
            outside.ledger.gate_failed()
        raise


def run_batch(pipeline: Pipeline, outside: Outside) -> Published | None:
    """The next batch of `pipeline`, whole, or None when there is nothing to read."""
    clock = Clock()
    pending = plan_batch(pipeline.contract, outside)
    if pending is None:
        return None
    clock.lap("plan")
    crash_points.reach("after_plan")
    excluded: dict[tuple[int, int], Fault] = {}
    while True:  # once, and once more for each message that the transform or the table refuses
        try:
            return _attempt(pipeline, outside, pending, excluded, clock)
        except _Excluded as found:
            if len(excluded) >= REFUSALS:
                raise BadInput(
                    f"more than {REFUSALS} messages of batch {pending.batch_id} are refused, the last because "
                    f"{found.fault.message}; that is more than single bad messages. Nothing was published",
                    field=pipeline.name,
                ) from found
            excluded[found.place] = found.fault


def plan_batch(contract: Contract, outside: Outside, tasks: int = TASKS) -> PendingBatch | None:
    """Step 1: the pending batch if one is left, or a new one fixed in the ledger. Raises Halt."""
    ledger = outside.ledger
    positions = ledger.positions()
    view = describe(outside.broker, contract.topic, positions)
    decided = decide(contract, positions, ledger.pending(), view, tasks)
    if decided.added:
        ledger.add_positions(decided.added, decided.positions)
    if decided.halt is not None:
        raise decided.halt
    if decided.pending is not None or not decided.ranges:
        return decided.pending
    return ledger.fix(view, decided.ranges)


def describe(broker: Broker, topic: str, positions: Sequence[Position]) -> TopicView:
    """The topic as it is now. A broker whose metadata is behind may miss a partition: it is asked again for a while."""

    def incomplete(view: TopicView) -> bool:
        return any(item.partition not in view.partitions and item.topic_id == view.topic_id for item in positions)

    retrying = Retrying(
        retry=retry_if_result(incomplete),
        stop=stop_after_attempt(4),
        wait=wait_exponential(0.5),
        retry_error_callback=_last_answer,
    )
    return retrying(broker.describe, topic)


def _last_answer(state: RetryCallState) -> TopicView:
    assert state.outcome is not None  # noqa: S101  # it has been tried
    return state.outcome.result()


def _attempt(
    pipeline: Pipeline, outside: Outside, pending: PendingBatch, excluded: dict[tuple[int, int], Fault], clock: Clock
) -> Published:
    """Steps 2 to 7 for a planned batch."""
    contract, ledger = pipeline.contract, outside.ledger
    area = ledger.open_staging(pending)
    work = TaskWork(contract, pending.ranges, outside.source, area, dict(excluded))
    staged = _stage(pipeline, outside, pending, work)
    clock.lap("stage")
    crash_points.reach("after_stage")
    checks = _audit(contract, ledger, staged)
    clock.lap("audit")
    crash_points.reach("after_audit")
    event = outside.lineage.of_batch(contract, staged, checks)
    try:
        publish(ledger, outside.broker, contract, staged, checks, clock.steps, event)
    except RowRefused as refusal:
        raise _refused_by_table(contract, ledger, staged, refusal) from refusal
    crash_points.reach("after_commit")
    clock.lap("publish")
    ledger.sweep()
    return Published(
        pending.batch_id,
        contract.pipeline,
        pending.ranges,
        staged.messages,
        staged.rows,
        staged.dead_letters,
        staged.unknown_fields,
        tuple(checks),
        clock.steps,
    )


def _stage(pipeline: Pipeline, outside: Outside, pending: PendingBatch, work: TaskWork) -> Staged:
    """Steps 2 to 5. A transform that fails leads to the message on which it does."""
    try:
        return stage(outside.spark(), outside.ledger, pipeline, pending, work)
    except LogTruncated as cut:
        asked = sorted({item.partition for item in pending.ranges if item.new_leader})
        if not asked:  # nobody asked about leaders: not the broker's word
            raise
        raise Halt(pipeline.name, "log_truncated", str(cut), {"error": str(cut), "partitions": asked}) from cut
    except TransformFailed as failure:
        if pipeline.transform is None:
            raise
        poison, why = find_poison(outside.spark(), pipeline, work, pending.ranges)
        raise _Excluded(
            poison, Fault(0, "transform", "TransformFailed", f"the transform fails on this message: {why}")
        ) from failure


def _audit(contract: Contract, ledger: PipelineHold, staged: Staged) -> list[CheckResult]:
    """Step 6: the results of every check. Raises GateFailed, and Halt above the contract's limit of dead letters."""
    faults = ledger.faults(staged)
    _break_circuit(contract, staged, faults)
    checks = audit.row_checks(contract, faults, staged.messages)
    if (view := ledger.audit_view(staged)) is not None:  # some expectations fail on an empty table
        try:
            checks += audit.batch_checks(contract.batch_rules, *view)
        except BadInput:
            ledger.positions()  # where Postgres went away meanwhile, that is the reason, and no rule is to blame
            checks += audit.batch_checks(contract.batch_rules, *view)  # nor where the audit's own connection did
    audit.gate(contract.pipeline, staged.pending.batch_id, checks)
    return checks


def _break_circuit(contract: Contract, staged: Staged, faults: audit.Faults) -> None:
    limits, dead = contract.limits, staged.dead_letters
    if staged.pending.dead_letters_accepted:
        return
    few = dead < limits.dead_letter_minimum or dead <= limits.dead_letter_share * staged.messages
    failed = sum(count for (stage, _), (count, _) in faults.items() if stage == "transform")
    if few and (failed < 2 or staged.rows):  # a transform that fails on all there is looks broken, however few they are
        return
    detail = {
        "batch_id": staged.pending.batch_id,
        "messages": staged.messages,
        "dead_letters": dead,
        "by_reason": {error_class: count for (_, error_class), (count, _) in faults.items()},
        "samples": [sample for _, samples in faults.values() for sample in samples[:3]][:12],
    }
    raise Halt(
        contract.pipeline,
        "too_many_dead_letters",
        f"{dead} of {staged.messages} messages of batch {staged.pending.batch_id} would be dead letters; the contract "
        f"allows {limits.dead_letter_share:.0%} once there are {limits.dead_letter_minimum}"
        f"{f', and the transform failed on all that reached it ({failed})' if few else ''}. Nothing was published.",
        detail,
    )


def _refused_by_table(contract: Contract, ledger: PipelineHold, staged: Staged, refusal: RowRefused) -> Exception:
    """The message whose row the table refuses, to be left out; a Halt when it is an accumulate that refuses."""
    found = ledger.refused_row(staged)
    if found is None and not contract.accumulates:
        return StagingLost(f"{contract.row_table.name} refused a batch ({refusal}) that it takes now; it is read again")
    if found is None:
        names = ", ".join(table.name for table in contract.accumulates)
        return Halt(
            contract.pipeline,
            "accumulate_refused",
            f"a batch's sums break a constraint of {names}: {refusal}. Nothing "
            "was published; no single message can be blamed for a sum.",
            {"error": str(refusal)},
        )
    partition, offset, error_class, message = found
    place = OffsetRange(contract.topic, partition, offset, offset + 1)
    return _Excluded(place, Fault(0, "publish", error_class, f"{contract.row_table.name} refuses this row: {message}"))


class _Excluded(Exception):  # inside this module only: go round again
    """One message is to become a dead letter; the batch runs again without it."""

    def __init__(self, found: OffsetRange, fault: Fault) -> None:
        self.place, self.fault = (found.partition, found.from_offset), fault
        super().__init__(fault.message)
