"""A lag sensor for each pipeline: starts a run when the contract's limits ask for one, and never a second at a time.

It also keeps the check `not_halted` in line with the ledger. Lag comes from the ledger and the broker, never from the
cursor. Run requests have no run_key: Dagster deduplicates those forever, so a failed run could never be started again.
"""

import time

import dagster as dg
from dagster import DagsterInstance

from platform_defs import offsets
from platform_defs.contract.model import Contract
from platform_defs.errors import BadInput, Halt, LedgerOutdated, TopicMissing
from platform_defs.orchestration.halts import stale_halt_check
from platform_defs.orchestration.jobs import AssetJob
from platform_defs.orchestration.keys import PIPELINE_TAG
from platform_defs.orchestration.runs import failures_in_a_row, report_dead, writer
from platform_defs.orchestration.waiting import Waiting, back_off, due, still_waiting
from platform_defs.words import plural
from resources.endpoints import Endpoints, connection
from resources.kafka.broker import KafkaBroker
from resources.postgres.answers import PipelineStatus
from resources.postgres.ledger import Ledger

EVERY = 5  # seconds
PATIENCE = 5.0  # seconds for the broker's answer


def lag_sensor(contract: Contract, job: AssetJob) -> dg.SensorDefinition:
    """The sensor of a pipeline. A tick takes some 50 ms; it fails, visibly, when Kafka or Postgres does not answer."""
    limits = contract.limits

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]  # of Dagster: a bare PathLike
        name=f"{contract.pipeline}_lag",
        job=job,
        minimum_interval_seconds=EVERY,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            f"Starts {contract.pipeline} when {limits.lag_messages:,} messages of {contract.topic} are unread, or one "
            f"has waited {limits.lag_seconds:.0f} s. Reports dead runs as failed."
        ),
        tags={PIPELINE_TAG: contract.pipeline},
    )
    def sense_lag(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        try:
            endpoints = connection()
        except BadInput as error:  # the stack is not running
            return dg.SensorResult(skip_reason=str(error))
        try:
            return look(context.instance, contract, endpoints, context.cursor)
        except TopicMissing as error:
            return dg.SensorResult(skip_reason=str(error))

    return sense_lag


def look(instance: DagsterInstance, contract: Contract, endpoints: Endpoints, cursor: str | None) -> dg.SensorResult:
    """One tick. Raises BrokerAway, LedgerAway, TopicMissing, and BadInput for an unusable ledger or broker."""
    ledger = Ledger(endpoints.postgres_url)
    report_dead(instance, ledger, contract)
    if (run := writer(instance, contract)) is not None:
        return dg.SensorResult(skip_reason=f"run {run.run_id} is {run.status.value.lower()}", cursor=cursor)
    status = _status(ledger, contract)
    found = _start(instance, ledger, contract, status, endpoints, cursor)
    return found._replace(asset_events=stale_halt_check(instance, contract, status))


def _status(ledger: Ledger, contract: Contract) -> PipelineStatus:
    """The pipeline's status. Migrates an older ledger: a run would, but none starts before the ledger can be read."""
    try:
        return ledger.status(contract.pipeline)
    except LedgerOutdated:
        ledger.migrate()
        return ledger.status(contract.pipeline)


def _start(
    instance: DagsterInstance,
    ledger: Ledger,
    contract: Contract,
    status: PipelineStatus,
    endpoints: Endpoints,
    cursor: str | None,
) -> dg.SensorResult:
    """A run request, or the reason why there is none."""
    now = time.time()
    if reason := _must_not_start(instance, ledger, contract, status, now):
        return dg.SensorResult(skip_reason=reason, cursor=cursor)
    view = KafkaBroker(endpoints.kafka_options(), timeout=PATIENCE).describe(contract.topic)
    positions = ledger.positions(contract.pipeline)
    try:
        offsets.judge(contract.pipeline, positions, view)
    except Halt as halt:  # a truncated or recreated topic may show no lag at all; the run records the halt
        request = dg.RunRequest(tags={PIPELINE_TAG: contract.pipeline, "tidegate/started_for": halt.code})
        return dg.SensorResult(run_requests=[request], cursor=cursor)
    behind = sum(offsets.lag(positions, view).values())
    waiting = still_waiting(Waiting.from_cursor(cursor), behind, sum(item.next_offset for item in positions), now)
    remembered = waiting.to_cursor() if waiting else ""
    if reason := due(behind, waiting, contract.limits, now):
        request = dg.RunRequest(tags={PIPELINE_TAG: contract.pipeline, "tidegate/started_for": reason})
        return dg.SensorResult(run_requests=[request], cursor=remembered)
    return dg.SensorResult(skip_reason=f"{plural(behind, 'unread message')}; no run is due yet", cursor=remembered)


def _must_not_start(
    instance: DagsterInstance, ledger: Ledger, contract: Contract, status: PipelineStatus, now: float
) -> str | None:
    """Why no run may start now, whatever the lag."""
    name = contract.pipeline
    if not status.has_run:
        return None
    if status.state == "halted":
        code = status.halt_code
        return f"{name} is halted ({code}) until a person settles it. To see how: tidegate ack {name}"
    if ledger.is_running(status):
        return f"{name} is locked by a run that Dagster did not start (run id {status.run_id or 'none'})"
    if status.backed_off:
        table = contract.row_table.name.replace(".", "/")
        return f"a batch failed a blocking check and will be retried after a back-off; materialize {table} to retry now"
    failures, ended = failures_in_a_row(instance, contract)
    if 0 < (left := ended + back_off(failures) - now) <= back_off(failures):  # more: the clock was set back
        return f"the last {failures} runs failed; the next one starts in {left:.0f} s"
    return None
