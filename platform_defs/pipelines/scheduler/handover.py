"""Decides when a run that the sensor started gives way to the next: at the end of its shift, or if definitions changed.

Such a run takes up whatever becomes due, so one of them works at a time. The sensor alone decides, at each tick, and
notifies a run by tags, so that no two runs depend on each other's clock.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from dagster import RunRecord

from platform_defs.dagster.keys import DEFINITIONS, HANDS_OVER, LEAVE

# Seconds after which a run that the sensor started ends: its failures are shown then, and the next begins.
SHIFT = 1800.0
# Seconds before its end from which the next run may start. Once that is READY, this one leaves, so that none waits.
HANDOVER = 120.0
READY = 60.0  # seconds after its start that a run is at work, its JVM warm


@dataclass(frozen=True)
class ScheduledRun:
    """A run that the sensor started, as it is at one moment."""

    run_id: str
    age: float  # seconds since it started; 0 for one that has not
    definitions: str  # the digest that it was started with; empty: by an older version of Tidegate
    spent: bool = False  # it asks for another in its place, though its shift is not over
    leaving: bool = False  # it has the tag to leave

    def is_outdated(self, definitions: str) -> bool:
        """Return True if Dagster has loaded other definitions since. A run without a digest ends with its shift."""
        return bool(self.definitions) and self.definitions != definitions

    @property
    def hands_over(self) -> bool:
        """True if its shift is nearly over: the next run may start."""
        return self.spent or self.leaving or self.age > SHIFT - HANDOVER


def scheduled_run(record: RunRecord, now: float) -> ScheduledRun:
    """Return the run of `record` as it is `now`, in seconds since the epoch."""
    age = max(0.0, now - record.start_time) if record.start_time else 0.0
    run = record.dagster_run
    return ScheduledRun(run.run_id, age, run.tags.get(DEFINITIONS, ""), HANDS_OVER in run.tags, LEAVE in run.tags)


def to_leave(runs: Sequence[ScheduledRun], definitions: str) -> Mapping[str, str]:
    """Return the ids of the runs that are to leave now, each with the reason."""
    ready = any(run.age > READY and not run.hands_over and not run.is_outdated(definitions) for run in runs)
    outdated = {run.run_id: "a contract or transform has changed" for run in runs if run.is_outdated(definitions)}
    superseded = {run.run_id: "the next run has taken over" for run in runs if ready and run.hands_over}
    return {**superseded, **outdated}


def beside(runs: Sequence[ScheduledRun], definitions: str) -> Collection[str]:
    """Return the ids of the runs that still do the work while a run that starts now warms up. One that is overdue
    hangs.
    """
    there = [run for run in runs if run.hands_over and not run.leaving and run.age < SHIFT]
    return [run.run_id for run in there if not run.is_outdated(definitions)]
