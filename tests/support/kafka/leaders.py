"""Changes that tests make to the leader epochs of a topic's partitions and of a pipeline's positions."""

from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import RunContext
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.kafka.leader_epochs import LeaderEpochs
from platform_defs.offsets import TopicView
from tests.support.world import World

UNHEARD_OF = 99  # a leader epoch that no log of the embedded broker ever had


def led_by_an_unheard_of_leader(world: World, pipeline: Pipeline, partition: int) -> None:
    """Record an unknown leader epoch for a position, as if its messages had been truncated."""
    epoch = "UPDATE tidegate.source_position SET leader_epoch = %s WHERE pipeline = %s AND partition = %s"
    world.rows(epoch, UNHEARD_OF, pipeline.name, partition)


def led_later(context: RunContext, partition: int = 1) -> RunContext:
    """Return a run that learns of a newly elected leader, and so asks it where its log ends."""
    assert isinstance(context.broker, KafkaBroker)
    return replace(context, broker=LedLater(context.broker, partition))


@dataclass(frozen=True)
class LedLater:
    """The real broker with a changed leader epoch for one partition."""

    real: KafkaBroker
    partition: int = 1

    def describe(self, topic: str, partitions: Collection[int] | None = None, *, configured: bool = True) -> TopicView:
        view = self.real.describe(topic, partitions, configured=configured)
        if self.partition not in view.partitions:
            return view
        later = replace(view.partitions[self.partition], leader_epoch=UNHEARD_OF + 1)
        return replace(view, partitions={**view.partitions, self.partition: later})

    def leader_epochs(self, topic: str) -> AbstractContextManager[LeaderEpochs]:
        return self.real.leader_epochs(topic)
