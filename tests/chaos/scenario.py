"""Scenarios: a fault that is shown to have fired, and the result of an independent validation of the tables."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import SparkSession
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import BrokerAway
from platform_defs.verify.verify import verify
from tests.chaos.fault_classes import FaultClass
from tests.support.world import World

IN_TASKS = {"in_decode", "in_copy"}  # crash points in Spark's workers; the others are in the driver


@dataclass(frozen=True)
class Verdict:
    """The result of a scenario. `lost` and `duplicated` are verify's, after the pipeline has caught up."""

    fired: int
    lost: int
    duplicated: int
    outcome: str

    @property
    def kept(self) -> bool:
        """True if no message was lost or duplicated."""
        return self.lost == self.duplicated == 0


@dataclass(frozen=True)
class Chaos:
    """The inputs of a scenario."""

    world: World
    random: random.Random
    kills: int  # of the scenario that kills at random moments

    def spark_for(self, point: str) -> SparkSession | None:
        """Return the session through which a run reaches this crash point, or None for a JVM of its own: other workers
        would not reach a point inside a task.
        """
        return None if point in IN_TASKS else self.world.spark()

    def judge(self, pipeline: Pipeline, fired: int, outcome: str, *, messages: int | None = None) -> Verdict:
        """Let the pipeline catch up, if it has not, and run `verify`. Raises AssertionError if the tables are not
        exact.

        `messages` is the number that `verify` must have read: by default all that the topic's partitions span.
        """
        assert fired > 0, "the fault never fired"
        self.world.drain(pipeline)
        # On a busy machine a broker that is killed now and then may be away for longer than verify waits.
        patient = Retrying(retry=retry_if_exception_type(BrokerAway), stop=stop_after_attempt(3), reraise=True)
        report = patient(verify, pipeline, self.world.endpoints, self.world.spark)
        assert report.ok, report.explanation
        name = pipeline.name
        assert self.world.rows("select * from tidegate.staging where pipeline = %s", name) == [], "staging is left"
        if messages is None:
            messages = sum(held.end - held.low for held in self.world.ends(pipeline).values())
        assert report.messages == messages, f"{report.messages} of {messages} messages were compared"
        return Verdict(fired, report.lost, report.duplicated, outcome)


Play = Callable[[Chaos], Verdict]
Played = TypeVar("Played", bound=Play)


@dataclass(frozen=True)
class Scenario:
    """A registered scenario."""

    play: Play
    fault_class: FaultClass
    representative: bool  # of its class: `.ci/run` plays it; `make chaos` plays all
    shares: str | None  # an expensive resource shared with other scenarios: they run in the same worker


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    fault_class: FaultClass, *, representative: bool = False, shares: str | None = None
) -> Callable[[Played], Played]:
    """Register a function under its name; its docstring is the expected outcome."""

    def register(play: Played) -> Played:
        SCENARIOS[play.__name__.replace("_", " ")] = Scenario(play, fault_class, representative, shares)
        return play

    return register


__all__ = ["SCENARIOS", "Chaos", "FaultClass", "Play", "Scenario", "Verdict", "scenario"]
