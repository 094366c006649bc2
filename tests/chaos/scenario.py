"""What a scenario is: a fault that is shown to have fired, and what an independent judge then finds in the tables."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import SparkSession

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.verification.verify import verify
from tests.chaos.fault_classes import FaultClass
from tests.support.world import World

IN_TASKS = {"in_decode", "in_copy"}  # crash points that Spark's workers reach; the others are the driver's


@dataclass(frozen=True)
class Verdict:
    """What came of a scenario. `lost` and `duplicated` are verify's, after the pipeline has caught up."""

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
    """What scenarios are given."""

    world: World
    random: random.Random
    kills: int  # how often the scenario that kills at random moments does

    def spark_for(self, point: str) -> SparkSession | None:
        """The session through which a run reaches this crash point: workers of another JVM than the run's would not."""
        return None if point in IN_TASKS else self.world.spark()

    def judge(self, pipeline: Pipeline, fired: int, outcome: str, *, messages: int | None = None) -> Verdict:
        """Let the pipeline catch up, if it has not, and ask `verify`. Raises AssertionError unless all is as it must
        be.

        `messages` is how many `verify` must have judged: by default all that the topic's partitions span.
        """
        assert fired > 0, "the fault never fired"
        self.world.drain(pipeline)
        report = verify(pipeline, self.world.endpoints, self.world.spark)
        assert report.ok, report.explanation
        name = pipeline.name
        assert self.world.rows("select * from tidegate.staging where pipeline = %s", name) == [], "staging is left"
        if messages is None:
            messages = sum(held.end - held.low for held in self.world.ends(pipeline).values())
        assert report.messages == messages, f"{report.messages} of {messages} messages were judged"
        return Verdict(fired, report.lost, report.duplicated, outcome)


Play = Callable[[Chaos], Verdict]
Played = TypeVar("Played", bound=Play)


@dataclass(frozen=True)
class Scenario:
    """A scenario as it is registered."""

    play: Play
    fault_class: FaultClass
    representative: bool  # of its class: `.ci/run` plays it, and the others are played by `make test-long`
    shares: str | None  # what is expensive to start and shared with other scenarios: they run in the same worker


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
