"""The tables of all pipelines as one asset definition: one op, so that a run works on many with one Spark session.

The tables of a pipeline commit together. Materializing one of them therefore runs the pipeline as a whole, and all of
its tables are reported: selecting `bank/balances` alone is allowed, and does not leave `bank/postings` behind.
"""

import time
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Any

import dagster as dg
import psutil
from pydantic import Field

from platform_defs.contract.model.contract import Contract, Table
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.model.reserved import outputs
from platform_defs.contract.model.system_columns import DESCRIPTIONS, target_columns
from platform_defs.dagster.jobs import EXECUTOR, NO_RETRIES
from platform_defs.dagster.keys import (
    BESIDE,
    CONTINUOUS_JOB,
    CONTINUOUS_OP,
    FAILED,
    HANDS_OVER,
    LEAVE,
    PIPELINE_TAG,
    is_row_table,
    job_tag,
    table_key,
    topic_key,
)
from platform_defs.dagster.run_session import LEDGER_TAG, RunSession
from platform_defs.dagster.runs import asked_by_hand, live, location_of, of_tables, report_dead, scheduled, stays
from platform_defs.dagster.storage import STORAGE_AWAY
from platform_defs.engine.commit.auditor import warm_up
from platform_defs.errors import BrokerAway, GateFailed, Halt, LedgerAway, TidegateError
from platform_defs.errors.words import plural
from platform_defs.pipelines.checks import check_specs, checks_kept
from platform_defs.pipelines.reporting.halts import halt_metadata
from platform_defs.pipelines.scheduler.continuous import Continuous, RunBudget, SchedulerInputs
from platform_defs.pipelines.scheduler.rounds import MAX_CONCURRENT_TURNS, in_rounds
from platform_defs.pipelines.scheduler.run_policy import EverythingThere, OtherRuns, WhatIsDue
from platform_defs.pipelines.scheduler.sensor_cursor import sensor_waits
from platform_defs.pipelines.scheduler.survey import Survey
from platform_defs.pipelines.scheduler.turns import Turns
from platform_defs.spark.session import SparkResource
from platform_defs.stack.endpoints import connection

ENDED = "the Spark session ended; the next run reads the remaining pipelines"
LEAST_FRESHNESS = timedelta(minutes=1)  # Dagster refuses a shorter window


def table_assets(pipelines: Sequence[Pipeline], names: str = "") -> list[dg.AssetsDefinition]:
    """Return the tables of all pipelines under one op; those whose output names are taken there, under another."""
    groups = _without_clash(pipelines)
    return [_definition(f"{names}drain_topics{n or ''}", group, pipelines) for n, group in enumerate(groups)]


def _without_clash(pipelines: Sequence[Pipeline]) -> list[list[Pipeline]]:
    """Return the pipelines in the fewest groups such that no two outputs of a group have the same name: table a.b__c of
    one pipeline and table a__b.c of another are both called a__b__c.
    """
    groups: list[tuple[set[str], list[Pipeline]]] = []
    for pipeline in pipelines:
        names = {output for output, _ in outputs(pipeline.contract)}
        fitting = next((group for group in groups if names.isdisjoint(group[0])), None)
        if fitting is None:
            groups.append((names, [pipeline]))
        else:
            fitting[0].update(names)
            fitting[1].append(pipeline)
    return [members for _, members in groups]


def _definition(name: str, members: Sequence[Pipeline], pipelines: Sequence[Pipeline]) -> dg.AssetsDefinition:
    """Return the op. Its outputs are skippable: it logs its materializations itself, one per batch."""
    contracts = [pipeline.contract for pipeline in members]

    @dg.multi_asset(
        name=name,
        specs=[_spec(contract, table) for contract in contracts for table in contract.tables],
        check_specs=[spec for contract in contracts for spec in check_specs(contract)],
        can_subset=True,
        description="Loads topics into their tables, exactly once. Each log line begins with the pipeline's name.",
    )
    def drain_topics(
        context: dg.AssetExecutionContext,
        tidegate_spark: SparkResource,
        tidegate_run_session: RunSession,  # noqa: ARG001  # open while the run is alive
    ) -> Iterator[dg.MaterializeResult[None]]:
        selected = context.selected_asset_keys | {key.asset_key for key in context.selected_asset_check_keys}
        names = of_tables(selected, [item.contract for item in pipelines])
        with _expected_failures(context.log), checks_kept(context):
            _drain(context.op_execution_context, pipelines, names, tidegate_spark)
        yield from ()

    return drain_topics


class ContinuousConfig(dg.Config):
    """The options of a continuous run."""

    pipelines: list[str] = Field(description="The pipelines that the run is started for.")


def continuous_job(pipelines: Sequence[Pipeline], names: str = "") -> dg.JobDefinition:
    """Return the job of the run that stays for pipelines of low latency. It selects no assets: an asset that an
    unfinished run has selected counts as in progress, and what depends on it would not be started until the run ends.
    """

    @dg.op(
        name=f"{names}{CONTINUOUS_OP}",
        description="Loads topics into their tables as messages arrive. Each log line begins with the pipeline's name.",
    )
    def drain_continuously(
        context: dg.OpExecutionContext,
        config: ContinuousConfig,
        tidegate_spark: SparkResource,
        tidegate_run_session: RunSession,  # noqa: ARG001  # open while the run is alive
    ) -> None:
        with _expected_failures(context.log):
            _drain(context, pipelines, config.pipelines, tidegate_spark)

    @dg.job(  # pyright: ignore[reportUnknownMemberType]  # of Dagster: a bare PathLike
        name=f"{names}{CONTINUOUS_JOB}",
        tags=NO_RETRIES | job_tag(CONTINUOUS_JOB, pipelines[0].contract.asset_prefix),
        executor_def=EXECUTOR,
        description="Loads new messages of the pipelines with a latency of a few seconds. The sensor `lag` starts it.",
    )
    def drain_continuous() -> None:
        drain_continuously()

    return drain_continuous


@contextmanager
def _expected_failures(log: dg.DagsterLogManager) -> Generator[None]:
    """Turn an error of the ledger, the brokers or Dagster's storage outside any pipeline into a failure without
    retries.
    """
    try:
        yield
    except TidegateError as error:
        log.error(str(error))
        raise dg.Failure(str(error), allow_retries=False) from error
    except STORAGE_AWAY as error:
        raise dg.Failure(f"Dagster's storage did not answer, so the run ends: {error}", allow_retries=False) from error


def _drain(
    context: dg.OpExecutionContext, pipelines: Sequence[Pipeline], names: Collection[str], spark: SparkResource
) -> None:
    """Work on the pipelines with these `names`, and on others as the run's policy has it."""
    contracts, endpoints = [item.contract for item in pipelines], connection()
    survey = Survey(endpoints)
    survey.ledger.migrate()
    own, ledger_id = context.run.run_id, survey.ledger_id()
    location = location_of(context.run)
    for run_id in report_dead(context.instance, survey.live_runs, contracts, ledger_id, location, besides=own):
        context.log.warning(f"run {run_id} was shown as started, but its process is gone: it is now reported as failed")
    chosen = [item for item in contracts if item.pipeline in names]
    warm_up(chosen)  # imports Great Expectations while Spark starts
    turns = Turns(context, pipelines, endpoints, survey.ledger, spark, stays=stays(context.run))
    try:
        if stays(context.run):
            failures = _continuous(context, contracts, survey, turns)
        else:
            policy = _policy(context, contracts, chosen, survey)
            turns.others_waiting = lambda: policy.others_waiting(MAX_CONCURRENT_TURNS)
            failures = in_rounds(policy, turns)
    finally:
        turns.finish()
        survey.close()
    if spark.has_ended():
        context.log.error(ENDED)
    if failures:
        _tag_failed(context, sorted(failures))
    if failure := ends_with(failures, turns.taken, spark_ended=spark.has_ended(), staying=stays(context.run)):
        raise failure


def _tag_failed(context: dg.OpExecutionContext, names: Sequence[str]) -> None:
    """Name up to ten failed pipelines in a tag of the run. If Dagster's storage is away, only the tag is lost."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    try:
        context.instance.add_run_tags(context.run.run_id, {FAILED: f"{', '.join(names[:10])}{more}"})
    except STORAGE_AWAY as error:
        context.log.warning(f"the tag {FAILED} was not set: {error}")


def _policy(
    context: dg.OpExecutionContext, contracts: Sequence[Contract], chosen: Sequence[Contract], survey: Survey
) -> EverythingThere | WhatIsDue:
    """Return the run's policy: what is due if the sensor started it, everything there if a person did."""
    if not scheduled(context.run):
        return EverythingThere(survey.look(chosen))
    others = partial(other_runs, context.instance, contracts, context.run.run_id)
    ours = [contract for contract in contracts if not contract.limits.continuous]
    first = [contract.pipeline for contract in chosen]
    return WhatIsDue(ours, first, sensor_waits(context.instance, context.run), survey.look, others)


def _continuous(
    context: dg.OpExecutionContext, contracts: Sequence[Contract], survey: Survey, turns: Turns
) -> dict[str, Exception]:
    """Stay for the pipelines whose latency is a few seconds. Return what turns raised, by pipeline."""
    own, instance = context.run.run_id, context.instance

    def hand_over(why: str) -> None:
        context.log.info(f"requested another run to take over from this one: {why}")
        instance.add_run_tags(own, {HANDS_OVER: why})

    turns.warm_up()
    record = instance.get_run_record_by_id(own)
    age = max(0.0, time.time() - record.start_time) if record and record.start_time else 0.0
    ours = [contract for contract in contracts if contract.limits.continuous]
    unreported = partial(survey.left_unreported, ours)
    around = SchedulerInputs(
        look=survey.look,
        ends=survey.topics.ends,
        others=partial(other_runs, instance, contracts, own),
        unreported=unreported,
        memory=resident_bytes,
        hand_over=hand_over,
        over=turns.over,
    )
    policy = Continuous(ours, around, RunBudget(), age)
    turns.others_waiting = policy.others_waiting
    return in_rounds(policy, turns, poll_seconds=policy.poll_seconds)


def other_runs(instance: dg.DagsterInstance, contracts: Sequence[Contract], own: str) -> OtherRuns:
    """Return what the other runs leave to the run with id `own`, and what the sensor asked of it
    (pipelines/scheduler/handover.py).

    A run that Dagster shows as ended must leave: the sensor has started another one, and tags this one no more.
    """
    run = instance.get_run_by_id(own)
    tags: Mapping[str, str] = run.tags if run else {}
    records = live(instance, contracts, tags.get(LEDGER_TAG), location_of(run) if run else None, besides=own)
    by_hand = asked_by_hand((item.dagster_run for item in records if item.start_time), contracts)
    warming = not {item.dagster_run.run_id for item in records}.isdisjoint(tags.get(BESIDE, "").split())
    ended = run is not None and run.is_finished
    return OtherRuns(by_hand, superseded=LEAVE in tags or ended, one_turn=warming)


def ends_with(
    failures: Mapping[str, Exception], taken: Sequence[str], *, spark_ended: bool, staying: bool
) -> dg.Failure | None:
    """Return the failure of the run; None if it ends well. A run that was to stay, and whose Spark ended before any
    turn failed, must fail: then the next one starts after a pause, and the failure is visible.
    """
    if failures:
        return _failure(failures, taken)
    return dg.Failure(ENDED, allow_retries=False) if spark_ended and staying else None


def _failure(failures: Mapping[str, Exception], taken: Sequence[str]) -> dg.Failure:
    """Return the failure of the run, with each pipeline's sentence. No retry: the sensor starts the next run."""
    if len(failures) == 1 and len(taken) == 1:
        (error,) = failures.values()
        return dg.Failure(_sentence(error), _metadata(error), allow_retries=False)
    sentences = {name: _sentence(error) for name, error in failures.items()}
    text = "; ".join(f"{name}: {sentence}" for name, sentence in sentences.items())
    return dg.Failure(
        f"{len(failures)} of {plural(len(taken), 'pipeline')} failed. {text}",
        dict(sentences),
        allow_retries=False,
    )


def _sentence(error: Exception) -> str:
    """Return the error's message; for a system that is unavailable, with the consequence for the run."""
    if isinstance(error, BrokerAway | LedgerAway):
        return f"{str(error).rstrip('.?')}. Nothing was published by this attempt; the next run will retry."
    return str(error)


def _metadata(error: Exception) -> dict[str, Any]:
    if isinstance(error, Halt):
        return halt_metadata(error)
    if isinstance(error, GateFailed):
        names = [item.name for item in error.results if not item.passed and item.severity == "blocking"]
        return {"failed checks": ", ".join(names)}
    return {}


def _spec(contract: Contract, table: Table) -> dg.AssetSpec:
    prefix, source = contract.asset_prefix, contract.row_table.name
    return dg.AssetSpec(
        table_key(table.name, prefix),
        deps=[topic_key(contract.topic, prefix) if is_row_table(contract, table) else table_key(source, prefix)],
        skippable=True,
        description=_description(contract, table),
        group_name=contract.domain,
        kinds={"kafka", "pyspark", "postgres"},
        tags={PIPELINE_TAG: contract.pipeline, "tidegate/disposition": table.disposition},
        owners=contract.owners,
        metadata={
            "dagster/column_schema": _schema(contract, table),
            "dagster/table_name": table.name,
            "contract_version": contract.version,
            "show_dead_letters": f"tidegate dlq list {contract.pipeline}",
            **_files(contract),
        },
        code_version=contract.version,
        freshness_policy=dg.FreshnessPolicy.time_window(
            max(timedelta(seconds=contract.limits.freshness_seconds), LEAST_FRESHNESS)
        ),
    )


def _description(contract: Contract, table: Table) -> str:
    how = {
        "append": "one or more rows for each message",
        "upsert": "the latest state of each key",
        "accumulate": f"exact sums over {contract.row_table.name}",
    }[table.disposition]
    what = table.description or contract.description
    return f"{what} ({table.disposition}: {how}, from {contract.topic}.)".strip()


def _files(contract: Contract) -> dict[str, dg.MetadataValue[Any]]:
    """Return the paths of the contract and of its transform, as far as there are files."""
    files = {"contract": contract.path, "transform": contract.transform_path}
    return {name: dg.PathMetadataValue(path.resolve()) for name, path in files.items() if path and path.exists()}


def _schema(contract: Contract, table: Table) -> dg.TableSchema:
    """Return every column with a description, including Tidegate's own."""
    columns = [
        dg.TableColumn(
            column.name,
            column.type.postgres,
            description=column.description or _origin(contract, table, column.name),
            constraints=dg.TableColumnConstraints(
                nullable=not column.required, unique=table.group_by == (column.name,)
            ),
            tags={"classification": column.classification} if column.classification else {},
        )
        for column in table.columns
    ]
    own = [
        dg.TableColumn(
            name,
            kind.postgres,
            description=DESCRIPTIONS[name],
            constraints=dg.TableColumnConstraints(nullable=False, unique=name == "_key"),
        )
        for name, kind in target_columns(table)
    ]
    return dg.TableSchema(columns=[*columns, *own])


def _origin(contract: Contract, table: Table, name: str) -> str:
    """Return the origin of a column's values, for a column without a description."""
    if table != contract.row_table:
        sums = {item.column: f"{item.function}({item.source or '*'})" for item in table.aggregates}
        return f"{sums.get(name, f'Grouping column {name}')} of {contract.row_table.name}."
    field = next((item for item in contract.message_fields if item.name == name), None)
    if field is None:
        return "Computed by the transform."
    return field.description or f"{field.place} of the message."


def resident_bytes() -> int:
    """Return the resident memory of this process and its children. Pages that they share count in each."""
    own = psutil.Process()
    found = 0
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.Error):  # it may end meanwhile
            found += process.memory_info().rss
    return found
