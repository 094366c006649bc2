"""One batch, from plan to commit, in the eight steps of docs/explanation/design.md. Read this file first.

0 acquire   become the owner, once a turn         engine/lease/lease.py
1 plan      which offsets                         engine/plan/planning.py, offsets.py
2 read      the messages, in Spark's tasks        engine/task/task.py, kafka/source.py
3 check     decode and row rules, in the task     engine/task/decoding.py, formats/framed.py, engine/task/row_checks.py
4 transform the pipeline's own PySpark function   assets/<domain>/<name>.py, engine/job/transform.py
5 stage     COPY next to the tables               engine/job/stage.py, engine/staging/staging.py
6 audit     rules over the batch                  engine/commit/audit.py, engine/commit/auditor.py
7 publish   one transaction                       engine/commit/publish.py, engine/commit/publish_statements.py
8 report    Dagster, lineage                      pipelines/reporting/reporter.py, pipelines/reporting/events.py

While one batch is at 6 and 7, the next one may be staged already (engine/prefetch.py).
"""

import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from platform_defs.contract.model.contract import CheckResult, Contract
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.redaction import redacting
from platform_defs.engine.commit import audit
from platform_defs.engine.commit.breaker import break_circuit
from platform_defs.engine.commit.publish import BatchRecord, publish
from platform_defs.engine.commit.refused_rows import MAX_EXCLUDED
from platform_defs.engine.commit.right_registry import (
    as_decided,
    refuse_switched,
    refuse_switched_since,
    refuse_unknown,
)
from platform_defs.engine.direct import goes_direct, publish_directly
from platform_defs.engine.failure import record_failure
from platform_defs.engine.interfaces import crash_points
from platform_defs.engine.interfaces.schema_finder import Schemas, summed
from platform_defs.engine.interfaces.source_and_staging import MessagePlace, Refusal
from platform_defs.engine.interfaces.staged import Staged
from platform_defs.engine.job.bisection import Bisection, Failure, certain
from platform_defs.engine.job.row_local import refuse_unproven
from platform_defs.engine.job.stage import Results, stage
from platform_defs.engine.lease.lease import PostgresLease
from platform_defs.engine.lease.pauses import SUSPECTED
from platform_defs.engine.plan.budget import Budget, Spent
from platform_defs.engine.plan.planning import TASKS, decide
from platform_defs.engine.plan.topic_view import describe
from platform_defs.engine.prefetch import Prefetch, SpeculativeBatch
from platform_defs.engine.run_context import RunContext
from platform_defs.engine.task.task import TaskWork
from platform_defs.errors import (
    BadInput,
    Fenced,
    Halt,
    InternalError,
    LogTruncated,
    MessagesSuspected,
    NotReproduced,
    RowRefused,
    RunStopped,
    SparkAway,
    TidegateError,
    TooManyRefused,
    TransformFailed,
)
from platform_defs.errors.halts import AccumulateRefused, LogCut
from platform_defs.errors.words import plural
from platform_defs.formats.blocks.excerpt import excerpt
from platform_defs.formats.writer_fit import refuse_schema_file
from platform_defs.ledger.published import Published, RowChanges
from platform_defs.offsets import PendingBatch, Suspect, TopicView

MAX_ATTEMPTS = 21  # of one batch in one run: the transform's bad messages are found one by one, the table's together


@dataclass
class Clock:
    """Seconds by step."""

    steps: dict[str, float] = field(default_factory=dict)
    last: float = field(default_factory=time.monotonic)

    def lap(self, step: str) -> None:
        now = time.monotonic()
        self.steps[step] = round(self.steps.get(step, 0.0) + now - self.last, 3)
        self.last = now


class Excluded(Exception):  # only in this module: try again
    """These messages will be dead letters; the batch runs again without them: the transform fails on them, or the table
    rejects them.
    """

    def __init__(self, refusals: Mapping[MessagePlace, Refusal]) -> None:
        self.refusals = refusals
        *_, self.last = (refusal.message for refusal in refusals.values())
        super().__init__(self.last)


def drain(pipeline: Pipeline, context: RunContext, budget: Budget | None = None) -> Generator[Published]:
    """Run batch after batch, and yield each once it has committed, until everything is read or `budget` is spent.

    What stops it is recorded in the ledger, then raised: a Halt halts the pipeline, any other error backs it off. A
    batch that fails repeatedly while every system is available halts it too. A run that lost the pipeline to another
    raises Fenced, whatever error that led to, except OutcomeUnknown: its report on the last batch would be lost. An
    unexpected exception becomes an InternalError. If anything is classified, what is recorded and raised quotes
    nothing.
    """
    spent = Spent(budget or Budget())
    bug = partial(InternalError.of, f"a batch of {pipeline.name}")
    try:
        with redacting(pipeline.contract, bug), Prefetch(pipeline, context, spent.may_go_ahead) as ahead:
            context.ledger.sweep()
            refuse_schema_file(pipeline.contract)
            refuse_switched(pipeline.contract, context.schemas)
            while ahead.speculative or spent.may_begin():
                spent.begun += 1
                published: Published | None = None
                for published in _next_batches(pipeline, context, ahead):
                    yield published
                if published is None:
                    return
    except (Fenced, RunStopped):  # nothing has failed
        raise
    except TidegateError as error:
        record_failure(pipeline.name, context.ledger, error)
        raise


def _next_batches(pipeline: Pipeline, context: RunContext, ahead: Prefetch) -> Iterator[Published]:
    """Yield the next batch. For a pipeline that publishes directly: a batch for each range that its task could publish,
    then one for the ranges that are left.
    """
    if pipeline.contract.publication == "direct":
        pending = plan_batch(pipeline.contract, context)
        if pending is None:
            return
        crash_points.reach("after_plan")
        if goes_direct(pipeline, pending):
            yield from publish_directly(pipeline, context, pending)
            context.ledger.sweep()
            if context.ledger.pending() is None:
                return
    published = run_batch(pipeline, context, ahead)
    if published is not None:
        yield published


def run_batch(pipeline: Pipeline, context: RunContext, ahead: Prefetch | None = None) -> Published | None:
    """Run the next batch of `pipeline`, whole, in the eight steps. Return None if there is nothing to read."""
    clock, ahead = Clock(), ahead or Prefetch(pipeline, context)
    pending = plan_batch(pipeline.contract, context, speculative=ahead.speculative)
    if pending is None:
        return None
    clock.lap("plan")
    crash_points.reach("after_plan")
    excluded: dict[MessagePlace, Refusal] = {}
    last = ""
    for _ in range(MAX_ATTEMPTS):  # once, and once more for each search that finds messages to exclude
        try:
            return _attempt(pipeline, context, pending, excluded, clock, ahead)
        except Excluded as found:
            ahead.drop()  # the next job would wait for its
            if again := found.refusals.keys() & excluded.keys():
                raise InternalError.of(
                    "the search for a bad message", f"{again} fails although it was excluded"
                ) from found
            excluded |= found.refusals
            last = found.last
        if len(excluded) > MAX_EXCLUDED:
            break
    raise TooManyRefused(
        f"{pipeline.name}: more than {len(excluded) - 1} messages of batch {pending.batch_id} were rejected, the last "
        f"one because {last}. These are too many to be isolated bad messages, so nothing was published. Correct the "
        "transform, the table or the producer of the messages"
    )


def plan_batch(
    contract: Contract, context: RunContext, tasks: int = TASKS, speculative: SpeculativeBatch | None = None
) -> PendingBatch | None:
    """Step 1: return the pending batch if there is one, or else fix a new one in the ledger: the speculative one,
    if it is the next. Raises Halt.
    """
    ledger = context.ledger
    positions = ledger.positions()
    pending = ledger.pending()
    read = [*positions, *map(pending.position, pending.ranges)] if pending else positions
    view = describe(context.broker, contract.topic, read)
    decided = decide(contract, positions, pending, view, tasks)
    if decided.added:
        ledger.add_positions(decided.added, decided.positions)
    if decided.halt is not None:
        raise decided.halt
    if decided.pending is not None or not decided.ranges:
        return decided.pending
    if speculative is not None and speculative.is_next(decided):
        return ledger.fix(view, speculative.batch.ranges, speculative.batch.batch_id)
    return ledger.fix(view, decided.ranges)


def _attempt(
    pipeline: Pipeline,
    context: RunContext,
    pending: PendingBatch,
    excluded: Mapping[MessagePlace, Refusal],
    clock: Clock,
    ahead: Prefetch,
) -> Published:
    """Steps 2 to 7 for a planned batch; from 6 on, steps 2 to 5 for the next one at the same time."""
    contract, ledger = pipeline.contract, context.ledger
    schemas = as_decided(context.schemas, pending)
    work, results = ahead.take(pending) or (_work(contract, context, pending, excluded, schemas), None)
    staged = _stage(pipeline, context, pending, work, results)
    refuse_unknown(contract, schemas, ledger.faults, staged)
    wait_for_suspects(contract, ledger, pending, excluded)
    if pipeline.transform is not None:
        refuse_unproven(context.spark, ledger, context.limit, pipeline, pending, work)
    clock.lap("stage")
    crash_points.reach("after_stage")
    ahead.begin(pending)
    checks = _audit(contract, context, staged)
    clock.lap("audit")
    crash_points.reach("after_audit")
    record = BatchRecord(checks, clock.steps, context.lineage.of_batch(contract, staged, checks))
    refuse_switched_since(contract, schemas, staged)
    try:
        view, changes = publish(ledger.publication(staged), context.broker, contract, staged, record)
    except RowRefused as refusal:
        raise refused_by_table(contract, ledger, staged, refusal) from refusal
    crash_points.reach("after_commit")
    clock.lap("publish")
    ledger.sweep(keep=ahead.staging_id)
    return _published(contract, ledger.contract_digest, staged, record, view, changes)


def _work(
    contract: Contract,
    context: RunContext,
    pending: PendingBatch,
    excluded: Mapping[MessagePlace, Refusal],
    schemas: Schemas | None,
) -> TaskWork:
    """Return the work of the tasks of one try, with a staging area of its own."""
    return TaskWork(
        contract=contract,
        ranges=pending.ranges,
        source=context.source,
        area=context.ledger.open_staging(pending),
        excluded=dict(excluded),
        cluster_id=pending.cluster_id,
        set_aside=_set_aside(pending),
        schemas=schemas,
    )


def _set_aside(pending: PendingBatch) -> Refusal | None:
    """Return the reason to refuse every message of the batch, if a person set it aside."""
    return None if pending.set_aside is None else Refusal("publish", "ManuallyDeadLettered", pending.set_aside)


def _stage(
    pipeline: Pipeline, context: RunContext, pending: PendingBatch, work: TaskWork, results: Results | None
) -> Staged:
    """Steps 2 to 5; `results` are from a prefetched job. If a transform or COPY fails, find the message at fault."""
    spark = context.spark()  # its start is not the batch's time
    try:
        with context.limit.within(spark, pipeline, pending):
            return stage(spark, context.ledger, pipeline, pending, work, results)
    except LogTruncated as cut:
        changed = sorted({item.partition for item in pending.ranges if item.new_leader})
        if not changed:  # no range has a new leader, so the broker did not report this
            raise
        raise Halt(pipeline.name, LogCut(partitions=tuple(changed), error=str(cut)), str(cut)) from cut
    except (TransformFailed, RowRefused) as failure:
        if pipeline.transform is None and isinstance(failure, TransformFailed):
            read = ", ".join(map(str, pending.ranges))
            # there is no transform to fail on a message
            raise SparkAway.in_job(f"{failure}, while reading {read}") from failure
        raise _find_bad_message(pipeline, context, pending, work, failure) from failure


def _find_bad_message(
    pipeline: Pipeline, context: RunContext, pending: PendingBatch, work: TaskWork, failure: Failure
) -> Excluded:
    """Return the message that makes the batch fail in the transform or in COPY, to be excluded."""
    area = context.ledger.open_staging(pending)
    systems = (context.spark(), context.ledger, context.broker, context.limit)
    bad, why = Bisection(*systems, pipeline, pending, work, area).find_bad_message(failure)
    stage = "publish" if pipeline.transform is None else "transform"
    if isinstance(why, RowRefused):
        refusal = Refusal(stage, why.error_class, f"Postgres cannot store the row of this message: {why}")
    else:
        message = f"the transform fails on this message: {why}"
        refusal = Refusal(stage, "TransformFailed", message, certain=certain(why))
    return Excluded({(bad.partition, bad.from_offset): refusal})


def wait_for_suspects(
    contract: Contract, ledger: PostgresLease, pending: PendingBatch, excluded: Mapping[MessagePlace, Refusal]
) -> None:
    """Raise MessagesSuspected if excluded messages may yet become rows: the batch waits for all of them together."""
    known = {item.place: item for item in pending.suspects}
    found = {place: why.message for place, why in excluded.items() if not why.certain}
    if not found:
        return
    suspects = [known.get(place, Suspect(*place, excerpt(why))) for place, why in found.items()]
    if ledger.note_suspects(suspects) < SUSPECTED.first:
        ((partition, offset), why), *_ = found.items()
        raise MessagesSuspected(
            f"{contract.pipeline}: {plural(len(suspects), 'message')} of batch {pending.batch_id} cannot be "
            f"transformed, although others can. The first: {contract.topic}[{partition}] at offset {offset}: {why}. "
            "Nothing was published, since a service that the transform calls may be unavailable for these. Messages "
            f"that still fail after {SUSPECTED.first:.0f} seconds become dead letters"
        )


def refused_by_table(contract: Contract, ledger: PostgresLease, staged: Staged, refusal: RowRefused) -> Exception:
    """Return the messages whose rows the row table rejects, to be excluded; a Halt if an accumulate table rejects."""
    found, table = ledger.refused_rows(staged), contract.row_table.name
    if found:
        why = "{} rejects this row: {}"
        refusals = [Refusal("publish", row.error_class, why.format(table, row.message)) for row in found]
        return Excluded({(row.partition, row.offset): refusal for row, refusal in zip(found, refusals, strict=True)})
    if not contract.accumulates:
        return NotReproduced(f"{table} rejected the batch ({refusal}) but now accepts it; it will be read again")
    names = ", ".join(item.name for item in contract.accumulates)
    seen = (
        f"the sums of batch {staged.pending.batch_id} violate a constraint of {names}: {refusal}. Nothing was "
        "published; a sum cannot be attributed to a single message."
    )
    return Halt(contract.pipeline, AccumulateRefused(str(refusal)), seen)


def _audit(contract: Contract, context: RunContext, staged: Staged) -> list[CheckResult]:
    """Step 6: return the result of every check. Raises GateFailed; raises Halt above the contract's limit of dead
    letters, and if a blocking check fails on every try.
    """
    faults = context.ledger.faults(staged) if staged.dead_letters else []
    break_circuit(contract, staged, faults)
    checks = [*audit.row_checks(contract, faults, staged.messages), *_evaluate_rules(contract, context, staged)]
    if (failed := audit.failed_checks(staged, checks)) is not None:
        failed = replace(failed, tries=context.ledger.note_failed_checks(failed))
        raise audit.rejection(contract.pipeline, failed, checks)
    return checks


def _evaluate_rules(contract: Contract, context: RunContext, staged: Staged) -> list[CheckResult]:
    """Evaluate the contract's batch rules on what publish would write. No rows, no rules: some fail without rows."""
    view = context.ledger.audit_view(staged) if contract.batch_rules else None
    if view is None:
        return []
    try:
        found = context.auditor.evaluate(contract.batch_rules, view)
    except BadInput:
        context.ledger.ping()  # raises if Postgres became unavailable meanwhile: then no rule is to blame
        found = context.auditor.evaluate(contract.batch_rules, view)  # nor if only the auditor's connection did
    return audit.without_values(contract, found)


def _published(
    contract: Contract,
    digest: str | None,
    staged: Staged,
    record: BatchRecord,
    view: TopicView,
    changes: RowChanges | None,
) -> Published:
    """Return the report of step 8. `digest`: of the contract that the batch was checked against."""
    return Published(
        batch_id=staged.pending.batch_id,
        pipeline=contract.pipeline,
        ranges=staged.pending.ranges,
        messages=staged.messages,
        rows=staged.rows,
        dead_letters=staged.dead_letters,
        unknown_fields=staged.unknown_fields,
        checks=tuple(record.checks),
        timings=record.timings,
        view=view,
        contract_version=contract.version,
        contract_digest=digest,
        registry=staged.registry,
        schemas=summed(count for item in staged.coverage for count in item.schemas),
        skipped_records=sum(item.skipped_records for item in staged.coverage),
        filtered=staged.filtered,
        changes=changes,
    )
