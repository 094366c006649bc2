"""`tidegate plan`: what the next batch would read and do."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from platform_defs.cli.halt_detail import print_halt_detail
from platform_defs.cli.options import PipelinesArgument
from platform_defs.cli.output import Output, OutputOption, print_each, print_fields, print_line, print_table, progress
from platform_defs.errors import BadInput, Halt, LedgerMissing, TidegateError
from platform_defs.errors.words import plural
from platform_defs.runs.answer import (
    PlanAnswer,
    PlannedContract,
    changed_sentence,
    changed_transform,
    contract_sentence,
    log_sentence,
    sentence,
    state_of,
    with_halt,
    with_plan,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from platform_defs.contract.model.contract import Contract
    from platform_defs.contract.model.pipeline import Pipeline
    from platform_defs.engine.plan.planning import BatchPlan
    from platform_defs.kafka.source import KafkaSource
    from platform_defs.ledger.answers import PipelineStatus, StatusAndPositions
    from platform_defs.stack.open_systems import Systems

COMPARED = "compared earlier, with the same contract and Spark version"


def plan(
    pipelines: PipelinesArgument,
    explain: bool = typer.Option(
        False, "--explain", help="Show what each step will do, and Spark's plan (starts Spark)."
    ),
    output: OutputOption = Output.human,
) -> None:
    """Show what the next batch would read and do, without changing anything.

    The plan comes from the code that runs the batch. The exit code is 1 if the
    pipeline is halted or the next run would halt it. A new or changed
    transform is tested on a sample, which starts Spark.

    \b
    JSON with one PIPELINE (with several: pipelines, a list of such, and failed,
    a list: pipeline, message; if it is not empty, the exit code is 1):
      pipeline, topic, epoch
      state      active or halted
      contract   the one whose limits and tables are shown: source (ledger: the
                 run in progress works by it; or file), in_file and in_ledger
                 (their versions), differs
      halt       null, or code, reason, message, detail, command
      log        of a halted pipeline: null, or the halt that the log would
                 cause by now: code, reason, detail (code null: not known)
      held_by    null, or run_id of the current run
      backed_off_until  null, or when the sensor starts the next run after a failure
      batch      null, or batch_id (null: a new one), again, offsets, tasks,
                 ranges (partition, from_offset, until_offset, offsets)
      nothing    null, or why there is no batch
      added      partition, next_offset of each one new to the ledger
      waiting    partitions of an upsert that are read after the others
      lag, left  unread offsets before and after; null if halted
      dead_letters  share, minimum, accepted, rule
      tables     table, disposition, how
      transform  null, or file, row_local (null: not known yet), found
      changed    null, or how the transform differs from the newest
                 batch's: files (its own, and those that it imports), batch_id,
                 change (added, changed or removed), next_batch
      steps      with --explain and a batch: step, name, does
      spark      likewise: Spark's physical plan of the job
    """
    from platform_defs.settings.contracts import find_pipeline

    def answer(name: str) -> dict[str, Any]:
        contract = find_pipeline(name).contract
        shown, planned, contract_in_use = plan_from_ledger(contract)
        if planned is not None:
            shown = replace(shown, changed=_changed(contract))
        if planned is not None and planned.ranges:
            shown = _with_transform_test(contract, planned, shown, explained_by=contract_in_use if explain else None)
        if output is Output.human:
            _show(shown)
        return shown.to_json()

    if any(document["halt"] for document in print_each(pipelines, answer, output).values()):
        raise typer.Exit(1)


def plan_from_ledger(contract: Contract) -> tuple[PlanAnswer, BatchPlan | None, Contract]:
    """Return the plan's document, the plan (None if the pipeline is halted or would halt), and the contract used. The
    ledger is read before the broker, as in a run.
    """
    from platform_defs.contract.redaction import stored_halt
    from platform_defs.engine.plan.planning import decide
    from platform_defs.engine.plan.topic_view import describe
    from platform_defs.stack.open_systems import open_systems

    systems = open_systems()
    found = systems.ledger.overview([contract.pipeline])[contract.pipeline]
    status = found.status
    versions, contract_in_use = _contract_in_use(contract, status, systems)
    answer = state_of(contract_in_use, status, versions)
    if status.halt is not None:
        detail = stored_halt(contract, status.halt.detail)
        halted = with_halt(answer, Halt(contract.pipeline, detail, detail.seen))
        return replace(halted, log=_log_change(contract, found, systems)), None, contract_in_use
    try:
        view = describe(systems.broker, contract_in_use.topic, found.positions)
        planned = decide(contract_in_use, found.positions, status.pending, view)
        if planned.halt is not None:
            raise planned.halt
    except Halt as halt:
        return with_halt(answer, halt), None, contract_in_use
    return with_plan(answer, planned), planned, contract_in_use


def _contract_in_use(contract: Contract, status: PipelineStatus, systems: Systems) -> tuple[PlannedContract, Contract]:
    """Return the contract that the run in progress works by, or else that of the file, and how the two differ."""
    from platform_defs.contract.odcs_writer import contract_digest
    from platform_defs.ledger.contract_ledger import ContractLedger
    from platform_defs.ledger.migrations import reading
    from platform_defs.postgres.connection import connect

    applied = None
    with suppress(LedgerMissing), reading(connect(systems.endpoints.postgres_url)) as connection:
        applied = ContractLedger(connection, contract.pipeline).applied()
    if applied is None:
        return PlannedContract("file", contract.version), contract
    differs = applied.digest != contract_digest(contract)
    try:
        in_ledger = replace(applied.contract(contract.pipeline), path=contract.path)
    except BadInput:  # a document that this version of Tidegate cannot read
        return PlannedContract("file", contract.version, applied.version, differs), contract
    differs = differs or in_ledger.limits != contract.limits
    source = "ledger" if differs and status.held else "file"
    planned = PlannedContract(source, contract.version, applied.version, differs)
    return planned, in_ledger if source == "ledger" else contract


def _log_change(contract: Contract, found: StatusAndPositions, systems: Systems) -> dict[str, Any] | None:
    """Return the halt that a halted pipeline's log would cause by now; None if none, or the same."""
    from platform_defs.engine.plan.topic_view import describe_with_halt

    status = found.status
    try:
        _, halt = describe_with_halt(systems.broker, contract, found.positions, status.pending)
    except TidegateError as error:
        return {"code": None, "reason": str(error), "detail": {}}
    if halt is None or (halt.code, halt.detail.to_json()) == (status.halt_code, status.halt_detail):
        return None
    return {"code": halt.code, "reason": halt.reason, "detail": halt.detail.to_json()}


def _changed(contract: Contract) -> dict[str, Any] | None:
    """Compare the transform's digest with that of the newest batch, without Spark. Raises BadInput for a transform that
    cannot be imported.
    """
    from platform_defs.stack.open_systems import open_systems

    newest, own = open_systems().ledger.newest_transform(contract.pipeline), contract.transform_path
    if newest is None or own is None:
        return None
    if not own.exists():
        return changed_transform(newest, "", [str(own)])
    from platform_defs.contract.model.digest import transform_digest
    from platform_defs.settings.contracts import with_transform

    pipeline = with_transform(contract)
    names = [name for name, _ in pipeline.sources]
    files = sorted(names, key=lambda name: not str(own).endswith(name)) or [str(own)]
    return changed_transform(newest, transform_digest(pipeline), files)


def _with_transform_test(
    contract: Contract, planned: BatchPlan, answer: PlanAnswer, *, explained_by: Contract | None
) -> PlanAnswer:
    """Return the answer with the comparison of the transform on a sample, unless the ledger has it. With the contract
    `explained_by`, also its steps and Spark's plan of the job. Raises BadInput for a transform that a batch would
    refuse.
    """
    from platform_defs.runs import explain as explained
    from platform_defs.stack.open_systems import open_systems

    path = contract.transform_path
    if explained_by is None and not (path and path.exists()):
        return answer  # nothing to try: neither Spark nor a transform is imported
    from platform_defs.engine.job.keep_nothing import describe_job
    from platform_defs.engine.job.row_local import comparison_key
    from platform_defs.engine.job.transform import transform_file
    from platform_defs.kafka.source import KafkaSource
    from platform_defs.settings.contracts import with_transform
    from platform_defs.spark.session import spark_config, start_session

    pipeline, systems = with_transform(contract), open_systems()
    if pipeline.transform is not None:
        known = systems.ledger.overview([contract.pipeline])[contract.pipeline].status.row_local
        if known == comparison_key(pipeline):
            compared = {"file": transform_file(pipeline), "row_local": True, "found": COMPARED}
            answer = replace(answer, transform=compared)
    untried = pipeline.transform is not None and answer.transform is None
    if explained_by is None and not untried:
        return answer
    with progress() as show:
        show("starting Spark")
        spark = start_session(spark_config())
        try:
            source = KafkaSource(systems.endpoints.kafka_options())
            if untried:
                show("comparing the transform on a sample")
                answer = replace(answer, transform=_compared(spark, pipeline, source, planned))
            if explained_by is not None:
                job = describe_job(spark, pipeline, source, planned.ranges)
                steps = explained.explain(replace(pipeline, contract=explained_by), planned)
                answer = replace(answer, explanation={"steps": steps, "spark": job})
        finally:
            spark.stop()
    return answer


def _compared(spark: SparkSession, pipeline: Pipeline, source: KafkaSource, planned: BatchPlan) -> dict[str, Any]:
    """Compare the transform on a sample; `row_local` is None while unknown. Raises BadInput if it is not row-local."""
    from platform_defs.engine.job.keep_nothing import Nowhere
    from platform_defs.engine.job.row_local import ENOUGH, compare, sample
    from platform_defs.engine.job.transform import transform_file
    from platform_defs.engine.task.task import TaskWork
    from platform_defs.errors import TransformFailed

    def answer(row_local: bool | None, found: str) -> dict[str, Any]:
        return {"file": transform_file(pipeline), "row_local": row_local, "found": found}

    if pipeline.contract.wire.framed:
        return answer(
            None, "the messages use registry schemas, which only a run may record; the first batch tests the transform"
        )
    work = TaskWork(pipeline.contract, sample(planned.ranges, planned.view), source, Nowhere())
    try:
        compared = compare(spark, pipeline, work)
    except TransformFailed as failed:
        return answer(None, f"{failed}. The batch will isolate the messages that fail, and compare the others")
    if compared < ENOUGH:
        few = "fewer than two messages in the sample have rows; every batch compares the transform until two have"
        return answer(None, few)
    return answer(True, f"{plural(compared, 'message')} gave the same rows together and one by one")


def _show(answer: PlanAnswer) -> None:
    print_line(f"{answer.pipeline}: {sentence(answer)}")
    if answer.held_by:
        run_id = answer.held_by["run_id"]
        run = f"run {run_id}" if run_id else "started manually"
        print_line(f"A run is in progress ({run}) and may have read further since.")
    if answer.backed_off_until:
        print_line(
            f"The last run failed; the sensor retries at {answer.backed_off_until:%F %T} UTC. Materialize to retry now."
        )
    if message := contract_sentence(answer):
        print_line(message)
    if answer.halt:
        print_halt_detail(answer.halt["detail"])
        if message := log_sentence(answer):
            print_line(message)
        return
    if answer.changed:
        print_line(f"{changed_sentence(answer.changed)} {answer.changed['next_batch']}")
    if answer.batch:
        ranges = answer.batch["ranges"]
        print_table([name.replace("_", " ") for name in ranges[0]], [[*item.values()] for item in ranges])
    transform = answer.transform
    known = "row-local" if transform and transform["row_local"] else "not yet known to be row-local"
    added = ", ".join(f"partition {item['partition']} from {item['next_offset']}" for item in answer.added)
    print_fields(
        {
            "lag afterwards": f"{answer.left or 0:,} of {plural(answer.lag or 0, 'unread offset')}",
            "added": added or None,
            "waiting": ", ".join(f"partition {number}" for number in answer.waiting) or None,
            "dead letters": answer.dead_letters["rule"],
            "transform": transform and f"{transform['file']}: {known}: {transform['found']}",
            **{item["table"]: f"{item['disposition']}: {item['how']}" for item in answer.tables},
        }
    )
    if answer.explanation:
        for step in answer.explanation["steps"]:
            print_line("\n".join([f"\n{step['step']} {step['name']}", *(f"  {does}" for does in step["does"])]))
        print_line(f"\nSpark's plan for the job (steps 2 to 5)\n{answer.explanation['spark']}")
