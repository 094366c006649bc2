"""The lag sensor: polls all pipelines at once and starts a run for those that are due.

It also keeps the checks `not_halted` in line with the ledger, and reports dead runs. Lag comes from the ledger and the
broker, never from the cursor, which only has the time since which something has been unread. Run requests have no
run_key: Dagster deduplicates those forever, so a failed run could never be started again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile

import dagster as dg
from dagster import DagsterInstance, DagsterRunStatus, RunRecord, RunsFilter
from dagster._core.definitions.selector import RepositorySelector

from platform_defs.contract.model.contract import CONTINUOUS_BELOW, Contract
from platform_defs.dagster.jobs import AssetJob
from platform_defs.dagster.keys import (
    BESIDE,
    CONTINUOUS,
    CONTINUOUS_JOB,
    CONTINUOUS_OP,
    DEFINITIONS,
    DRAIN_JOB,
    LAG_SENSOR,
    LEAVE,
    PIPELINE_TAG,
    STARTED_FOR,
    table_keys,
)
from platform_defs.dagster.run_session import tags_of_ledger
from platform_defs.dagster.runs import asked_by_hand, live, report_dead, scheduled, selected, stays
from platform_defs.errors.words import plural
from platform_defs.pipelines.reporting.halts import stale_halt_checks
from platform_defs.pipelines.scheduler.handover import READY, ScheduledRun, beside, scheduled_run, to_leave
from platform_defs.pipelines.scheduler.survey import Survey, kept_survey
from platform_defs.pipelines.scheduler.waiting import Due, Seen, Waits, decide, from_cursor, remember, to_cursor
from platform_defs.stack.endpoints import connection

EVERY, RARELY = 5, 15  # seconds between two ticks with few pipelines, and with very many
PIPELINES = 13  # for each so many, a second between two ticks: a tick over 200 takes a third of a second of CPU
MOST = 20  # pipelines that a run is started for; it finds the others that are due by itself (scheduler/run_policy.py)
STUCK = 45.0  # seconds that a pipeline has been due, and no batch has committed, after which a second run starts ...
STARVED = 300.0  # ... and seconds due after which one starts though others commit
RUNS = 2  # at once, if dagster.yaml has no limit; and runs that stay: one may take the other's place
IT_STAYS = "it stays"
TRIES = 8  # past runs to check
LASTED = 300.0  # seconds after which a failure was not one to start
FIRST_PAUSE, MAX_PAUSE = 10.0, 300.0  # seconds after one that failed sooner, then twice as long each time
ENDED = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]


def lag_sensor(
    contracts: Sequence[Contract], jobs: Sequence[AssetJob | dg.JobDefinition], definitions: str, names: str = ""
) -> dg.SensorDefinition:
    """Return the sensor of these contracts; `definitions` is the digest of their pipelines.

    Its ticks fail while Kafka or Postgres does not answer at all, or the embedded one is not running.
    """

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]  # of Dagster: a bare PathLike
        name=f"{names}{LAG_SENSOR}",
        jobs=jobs,
        minimum_interval_seconds=min(max(EVERY, len(contracts) // PIPELINES), RARELY),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Launches a run when lag reaches lagMessages or the oldest unread message exceeds latency. Keeps one "
            "run going for pipelines with a latency of a few seconds. Reports dead runs as failed."
        ),
    )
    def sense_lag(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        origin, repository, location = context.code_location_origin, context.repository_name, None
        if origin is not None and repository is not None:  # in a daemon: the same id as `location_of` a run
            selector = RepositorySelector(location_name=origin.location_name, repository_name=repository)
            location = selector.selector_id
        survey = kept_survey(connection())
        return look(context.instance, contracts, survey, context.cursor, definitions, names, location)

    return sense_lag


def look(
    instance: DagsterInstance,
    contracts: Sequence[Contract],
    survey: Survey,
    cursor: str | None,
    definitions: str,
    names: str = "",
    location: str | None = None,
) -> dg.SensorResult:
    """Run one tick. `definitions` is the digest of what Dagster has loaded; `names`, what the jobs' names begin with;
    `location`, the id of the sensor's code location.

    Raises BrokerAway, LedgerAway, and BadInput for an unusable ledger.
    """
    ledger_id = survey.ledger_id()
    report_dead(instance, survey.live_runs, contracts, ledger_id, location)
    records = live(instance, contracts, ledger_id, location)
    seen, now = survey.look(contracts), time.time()
    waits = remember(from_cursor(cursor), seen, now)
    wanting = [item for item in seen if item.contract.limits.continuous]
    due_later = [item for item in seen if not item.contract.limits.continuous]
    staying = [item for item in records if stays(item.dagster_run)]
    others = [item for item in records if not stays(item.dagster_run)]
    for_now = at_work(others, contracts, definitions, _idle(survey, due_later), now)
    for_good = at_work(staying, contracts, definitions, _idle(survey, wanting), now)
    for_good = replace(for_good, by_hand=for_now.by_hand)
    for working in (for_good, for_now):
        for run_id, why in to_leave(working.scheduled, definitions).items():
            instance.add_run_tags(run_id, {LEAVE: why})
    pause = partial(restart_pause, instance, ledger_id, definitions, now)
    most = most_at_once(instance, [item.contract for item in seen])
    found = (
        start(due_later, waits, for_now, most, now, names),
        keep_one(wanting, waits, for_good, pause, now, names),
    )
    busy = {name for item in others for name in selected(item.dagster_run, contracts)}
    free = [
        (item.contract, item.status) for item in seen if not item.status.held and item.contract.pipeline not in busy
    ]
    requests = [
        item.with_replaced_attrs(tags={**item.tags, **tags_of_ledger(ledger_id)})
        for item in found
        if isinstance(item, dg.RunRequest)
    ]
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else "; ".join(item for item in found if isinstance(item, str) and item),
        cursor=to_cursor(waits),
        asset_events=stale_halt_checks(instance, free),
    )


def _idle(survey: Survey, seen: Sequence[Seen]) -> float:
    return survey.ledger.seconds_since_commit([item.contract.pipeline for item in seen])


@dataclass(frozen=True)
class Working:
    """The runs at work, and what they leave to a new run."""

    runs: int  # that work on pipelines, or are going to
    by_hand: frozenset[str]  # pipelines of runs started by hand: their run waits for its turn, or has it
    scheduled: tuple[ScheduledRun, ...]  # those that the sensor started
    definitions: str  # the digest of what Dagster has loaded
    idle: float  # seconds since the last commit of a pipeline that such runs are for

    @property
    def looks_itself(self) -> bool:
        """True if there is a run that takes up whatever becomes due, and stays for a while."""
        return any(not run.hands_over and not run.is_outdated(self.definitions) for run in self.scheduled)

    def is_stuck(self, waited: float) -> bool:
        """Return True if a pipeline that has `waited` so many seconds since it became due needs another run than the
        one at work.
        """
        if any(run.age < READY for run in self.scheduled):
            return False  # it has just started, or is about to
        return waited > STARVED or (waited > STUCK and self.idle > STUCK)

    def tags(self, why: str) -> dict[str, str]:
        """Return the tags of a run that is started now."""
        tags = {STARTED_FOR: why[:1000], DEFINITIONS: self.definitions}  # an index of Dagster's bounds a tag
        working_ones = beside(self.scheduled, self.definitions)
        return tags | ({BESIDE: " ".join(working_ones)} if working_ones else {})


def at_work(
    records: Sequence[RunRecord], contracts: Sequence[Contract], definitions: str, idle: float, now: float
) -> Working:
    """Return the state of these runs `now`, in seconds since the epoch."""
    by_hand = asked_by_hand((item.dagster_run for item in records), contracts)
    ours = tuple(scheduled_run(item, now) for item in records if scheduled(item.dagster_run))
    return Working(len(records), by_hand, ours, definitions, idle)


def most_at_once(instance: DagsterInstance, contracts: Sequence[Contract] = ()) -> int:
    """Return how many runs that end when nothing is due may work at once: one less than Dagster allows, since one may
    verify, and another less if one stays.
    """
    queue = instance.get_concurrency_config().run_queue_config
    staying = any(item.limits.continuous for item in contracts)
    return max(1, queue.max_concurrent_runs - 1 - staying) if queue and queue.max_concurrent_runs > 0 else RUNS


def restart_pause(instance: DagsterInstance, ledger_id: str | None, definitions: str, now: float) -> float:
    """Return the seconds until a run that stays may start, after those before it with the same definitions have failed
    one after the other.
    """
    tags = {CONTINUOUS: IT_STAYS, DEFINITIONS: definitions, **tags_of_ledger(ledger_id)}
    filters = RunsFilter(tags=tags, statuses=ENDED)
    ended = instance.get_run_records(filters, limit=TRIES)
    failed = [*takewhile(lambda record: record.dagster_run.status == DagsterRunStatus.FAILURE, ended)]
    # Start and end of each. If its process did not start, the end is both.
    return pause_after([(run.start_time or run.end_time or now, run.end_time or now) for run in failed], now)


def pause_after(failed: Sequence[tuple[float, float]], now: float) -> float:
    """Return the same, from start and end of each run that has failed in a row, newest first, in seconds since the
    epoch. A run that stayed for a while was a good one: only its pipelines had failed.
    """
    soon = [*takewhile(lambda run: run[1] - run[0] < LASTED, failed)]
    if not soon:
        return 0.0
    return max(0.0, soon[0][1] + min(FIRST_PAUSE * 2 ** (len(soon) - 1), MAX_PAUSE) - now)


def keep_one(
    seen: Sequence[Seen], waits: Waits, working: Working, pause: Callable[[], float], now: float, names: str = ""
) -> dg.RunRequest | str | None:
    """Return a run request for the pipelines whose latency is a few seconds, if no run stays for them; or the reason
    why there is none. None if there are no such pipelines.

    `pause`: returns the seconds for which none may start, called if one would: also beside one that leaves or hangs.
    """
    if not seen:
        return None
    if all(item.status.state == "halted" for item in seen):
        return f"{plural(len(seen), 'low-latency pipeline')}: each is halted until a user resolves it"
    due = [item for item in seen if isinstance(_decided(item, waits, working, now), Due)]
    since = {name: waiting.since for name, waiting in waits.items()}
    late = [
        item for item in due if working.is_stuck(now - _should_have_begun(item, since.get(item.contract.pipeline, now)))
    ]
    if working.looks_itself and not (late and len(working.scheduled) < RUNS):
        return f"{plural(len(seen), 'pipeline')} with low latency: a continuous run reads them"
    if (seconds := pause()) > 0:
        return f"the continuous run has failed and restarts in {seconds:.0f} s"
    pipelines = [item.contract.pipeline for item in seen]
    why = f"a latency of less than {CONTINUOUS_BELOW:.0f} s: {', '.join(pipelines)}"
    tags = {**working.tags(why), CONTINUOUS: IT_STAYS}
    config = {"ops": {f"{names}{CONTINUOUS_OP}": {"config": {"pipelines": pipelines}}}}
    return dg.RunRequest(job_name=f"{names}{CONTINUOUS_JOB}", run_config=config, tags=tags)


def start(
    seen: Sequence[Seen], waits: Waits, working: Working, most: int, now: float, names: str = ""
) -> dg.RunRequest | str:
    """Return a run request, or the reason why there is none. `most`: runs at once."""
    decided = {item.contract.pipeline: _decided(item, waits, working, now) for item in seen}
    due = sorted((item for item in decided.values() if isinstance(item, Due)), key=lambda item: item.since)
    if not due:
        return _reasons({name: str(reason) for name, reason in decided.items()})
    are_due = f"{_first_three([item.pipeline for item in due])} {'is' if len(due) == 1 else 'are'} due"
    if working.runs >= most:
        return f"{are_due}, but no more runs may start: {working.runs} in progress"
    by_name = {item.contract.pipeline: item for item in seen}
    late = [item for item in due if working.is_stuck(now - _should_have_begun(by_name[item.pipeline], item.since))]
    if working.looks_itself and not late:
        return f"{are_due}; the current run will read {'it' if len(due) == 1 else 'them'}"
    chosen = (late if working.looks_itself else due)[:MOST]
    return _request(chosen, by_name, working, f"{names}{DRAIN_JOB}")


def _decided(item: Seen, waits: Waits, working: Working, now: float) -> Due | str:
    name = item.contract.pipeline
    if item.status.held:
        return f"in use by a run (run id {item.status.run_id or 'none: Dagster did not start it'})"
    if name in working.by_hand:
        return "a manually started run reads it"
    return decide(item, waits.get(name), now)


def _should_have_begun(seen: Seen, since: float) -> float:
    """Return when a run should have taken up a pipeline that has waited `since` then: after its latency, and the
    back-off after a failure.
    """
    retry_at = seen.status.retry_at
    return max(since + seen.contract.limits.lag_seconds, retry_at.timestamp() if retry_at else 0.0)


def _request(due: Sequence[Due], seen: Mapping[str, Seen], working: Working, job: str) -> dg.RunRequest:
    """Return a run for these. Their checks are not selected: those of a batch that is not read would be shown as
    skipped.
    """
    keys = [key for item in due for key in table_keys(seen[item.pipeline].contract)]
    tags = working.tags(_reasons({item.pipeline: item.reason for item in due}))
    if len(due) == 1:
        tags[PIPELINE_TAG] = due[0].pipeline
    return dg.RunRequest(job_name=job, asset_selection=keys, asset_check_keys=[], tags=tags)


def _first_three(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _reasons(reasons: dict[str, str]) -> str:
    """Return one line for people: a reason that pipelines share appears once."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        by_reason.setdefault(reason, []).append(name)
    return "; ".join(
        f"{_first_three(names)}: {reason}"
        for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1]))[:20]
    )
