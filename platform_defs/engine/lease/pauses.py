"""The pause of a pipeline after a failure, and whether the failure counts against its batch."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True)
class Pause:
    """The pause of a pipeline after a failure, in seconds: `first`, then twice as long each time up to `longest`."""

    first: float
    longest: float


SHORT = Pause(10.0, 300.0)  # a system is unavailable: it may be back soon
SUSPECTED = Pause(120.0, 300.0)  # what the transform calls may be down for some messages: a failover takes a minute
LONG = Pause(30.0, 3_600.0)  # a person has to correct something, and each try reads the batch again


class Counts(StrEnum):
    """The condition under which a failure of a run counts against the pending batch."""

    ALWAYS = "always"
    NEVER = "never"
    UNLESS_STOPPED = "unless stopped"  # if Postgres has not been started again since the run took the pipeline over
    IF_CRASHED = "if crashed"  # the same, and if it has recovered from a crash since
