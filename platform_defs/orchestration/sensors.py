"""The lag sensor: looks at all pipelines at once and starts a run for those that are due.

It also keeps the checks `not_halted` in line with the ledger, and reports dead runs. Lag comes from the ledger and the
broker, never from the cursor, which only says since when something has been unread. Run requests have no run_key:
Dagster deduplicates those forever, so a failed run could never be started again.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg
from dagster import DagsterInstance, DagsterRun, RunRecord

from platform_defs.contract.model import Contract
from platform_defs.errors import BadInput
from platform_defs.orchestration.goals import HANDOVER, SHIFT
from platform_defs.orchestration.halts import stale_halt_checks
from platform_defs.orchestration.jobs import AssetJob
from platform_defs.orchestration.keys import LAG_SENSOR, PIPELINE_TAG, STARTED_FOR, table_keys
from platform_defs.orchestration.runs import asked_by_hand, live, report_dead, scheduled, selected
from platform_defs.orchestration.survey import Survey, kept_survey
from platform_defs.orchestration.waiting import Due, Seen, Waits, decide, from_cursor, remember, to_cursor
from platform_defs.words import plural
from resources.endpoints import connection

EVERY, RARELY = 5, 15  # seconds between two ticks with few pipelines, and with very many
PIPELINES = 20  # for which a second is added: a tick over 200 takes a tenth of a second of CPU, also when idle
MOST = 20  # pipelines that a run is asked for; it finds the others that are due by itself (orchestration/goals.py)
TAKES_UP = 45.0  # seconds after which a pipeline that is due and that no working run took up gets a run of its own
RUNS = 2  # at once, where dagster.yaml says nothing


def lag_sensor(contracts: Sequence[Contract], job: AssetJob) -> dg.SensorDefinition:
    """The sensor. It fails, visibly, when Kafka or Postgres does not answer at all."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]  # of Dagster: a bare PathLike
        name=LAG_SENSOR,
        job=job,
        minimum_interval_seconds=min(max(EVERY, len(contracts) // PIPELINES), RARELY),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Starts a run for the pipelines that have as many unread messages as their contract's lagMessages, or one "
            "that has waited as long as its latency. Reports dead runs as failed."
        ),
    )
    def sense_lag(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        try:
            endpoints = connection()
        except BadInput as error:  # the stack is not running
            return dg.SensorResult(skip_reason=str(error), cursor=context.cursor)
        return look(context.instance, contracts, kept_survey(endpoints), context.cursor)

    return sense_lag


def look(
    instance: DagsterInstance, contracts: Sequence[Contract], survey: Survey, cursor: str | None
) -> dg.SensorResult:
    """One tick. Raises BrokerAway, LedgerAway, and BadInput for an unusable ledger."""
    report_dead(instance, survey.live_runs, contracts)
    records = live(instance, contracts)
    seen, now = survey.look(contracts), time.time()
    waits = remember(from_cursor(cursor), seen, now)
    working = Working.of(instance, records, contracts, now)
    found = start(seen, waits, working, now)
    busy = {name for run in working.runs for name in selected(run, contracts)}
    free = [
        (item.contract, item.status) for item in seen if not item.status.held and item.contract.pipeline not in busy
    ]
    return found._replace(cursor=to_cursor(waits), asset_events=stale_halt_checks(instance, free))


@dataclass(frozen=True)
class Working:
    """The runs that there are, by what they leave to a new one."""

    runs: Sequence[DagsterRun]
    most: int  # runs at once
    by_hand: frozenset[str]  # pipelines that were asked for by hand: their run waits for its turn, or has it
    leaving: frozenset[str] = frozenset()  # the ids of the runs whose shift is nearly over

    @classmethod
    def of(
        cls, instance: DagsterInstance, records: Sequence[RunRecord], contracts: Sequence[Contract], now: float
    ) -> "Working":
        runs = [item.dagster_run for item in records]
        leaving = {
            item.dagster_run.run_id for item in records if item.start_time and now - item.start_time > SHIFT - HANDOVER
        }
        queue = instance.get_concurrency_config().run_queue_config
        most = queue.max_concurrent_runs if queue and queue.max_concurrent_runs > 0 else RUNS
        return cls(runs, most, asked_by_hand(runs, contracts), frozenset(leaving))

    @property
    def looks_itself(self) -> bool:
        """Whether a run is there that takes up whatever becomes due, and stays for a while."""
        return any(scheduled(run) and run.run_id not in self.leaving for run in self.runs)


def start(seen: Sequence[Seen], waits: Waits, working: Working, now: float) -> dg.SensorResult:
    """A run request, or the reason why there is none."""
    decided = {item.contract.pipeline: _decided(item, waits, working, now) for item in seen}
    due = sorted((item for item in decided.values() if isinstance(item, Due)), key=lambda item: item.since)
    if not due:
        return dg.SensorResult(skip_reason=_reasons({name: str(reason) for name, reason in decided.items()}))
    if len(working.runs) >= working.most:
        return dg.SensorResult(skip_reason=f"{_names(due)} due, and {plural(len(working.runs), 'run')} at work already")
    late = [item for item in due if now - item.since > _patience(item, seen)]
    if working.looks_itself and not late:
        return dg.SensorResult(skip_reason=f"{_names(due)} due: the run that is at work takes them up")
    return dg.SensorResult(run_requests=[_request((late if working.looks_itself else due)[:MOST], seen)])


def _decided(item: Seen, waits: Waits, working: Working, now: float) -> Due | str:
    name = item.contract.pipeline
    if item.status.held:
        return f"held by a run (run id {item.status.run_id or 'none: Dagster did not start it'})"
    if name in working.by_hand:
        return "left to the run that was started for it by hand"
    return decide(item, waits.get(name), now)


def _patience(item: Due, seen: Sequence[Seen]) -> float:
    """Seconds after which a message of the pipeline should have been read although another run has been at work."""
    limits = next(other.contract.limits for other in seen if other.contract.pipeline == item.pipeline)
    return limits.lag_seconds + TAKES_UP


def _request(due: Sequence[Due], seen: Sequence[Seen]) -> dg.RunRequest:
    """A run for these. Their checks are not selected: those of a batch that is not read would be shown as skipped."""
    contracts = {item.contract.pipeline: item.contract for item in seen}
    keys = [key for item in due for key in table_keys(contracts[item.pipeline])]
    why = _reasons({item.pipeline: item.reason for item in due})
    tags = {STARTED_FOR: why[:1000]}  # an index of Dagster's bounds it
    if len(due) == 1:
        tags[PIPELINE_TAG] = due[0].pipeline
    return dg.RunRequest(asset_selection=keys, asset_check_keys=[], tags=tags)


def _names(due: Sequence[Due]) -> str:
    return ", ".join(item.pipeline for item in due[:3]) + (f" and {len(due) - 3} more are" if len(due) > 3 else " is")


def _reasons(reasons: dict[str, str]) -> str:
    """One line for people: what most pipelines have in common is said once."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        by_reason.setdefault(reason, []).append(name)
    return "; ".join(
        f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}: {reason}"
        for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1]))[:20]
    )
