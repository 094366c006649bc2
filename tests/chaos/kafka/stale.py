"""Stale responses of a broker: a partition, or a leader, that was read from is missing."""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from platform_defs.engine.batch import RunContext
from platform_defs.errors import BrokerAway
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.kafka.leader_epochs import LeaderEpochs
from platform_defs.offsets import TopicView
from platform_defs.resolve import settlement
from tests.chaos.halts import halted, resolve_halt
from tests.chaos.moments import before_the_publication, play
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.kafka.logs import delete_records
from tests.support.world import transfers

ALWAYS = 1_000


@dataclass
class Behind:
    """The real broker, with `answers` stale responses to come."""

    real: Any
    make: Callable[[TopicView], TopicView]
    answers: int = 0
    given: list[TopicView] = field(default_factory=list[TopicView])

    def describe(self, topic: str, partitions: Collection[int] | None = None, *, configured: bool = True) -> TopicView:
        view = self.real.describe(topic, partitions, configured=configured)
        if not self.answers:
            return view
        self.answers -= 1
        self.given.append(self.make(view))
        return self.given[-1]

    def leader_epochs(self, topic: str) -> AbstractContextManager[LeaderEpochs]:
        return self.real.leader_epochs(topic)


def without_partition(view: TopicView, number: int = 1) -> TopicView:
    return replace(view, partitions={n: held for n, held in view.partitions.items() if n != number})


def of_an_earlier_leader(view: TopicView) -> TopicView:
    """Return the view with an earlier leader for every partition, and unchanged ends."""
    return replace(view, partitions={n: replace(held, leader_epoch=-1) for n, held in view.partitions.items()})


@scenario(FaultClass.STALE_METADATA, representative=True)
def stale_metadata_at_resolve(chaos: Chaos) -> Verdict:
    """The response lacks a partition that was read: nothing is resolved, and its position is kept."""
    world = chaos.world
    pipeline = world.caught_up()
    world.send(pipeline, transfers(40, start=8))
    delete_records(world, pipeline, {0: 7})
    halted(world, pipeline, "retention_passed")
    broker = Behind(KafkaBroker(world.endpoints.kafka_options()), without_partition, ALWAYS)
    with pytest.raises(BrokerAway, match=r"no partition 1 of .*, which was read"):
        settlement.propose(pipeline.contract, world.ledger, broker, None)
    assert world.position(pipeline) == dict.fromkeys(range(4), 2)
    resolve_halt(world, pipeline)
    return chaos.judge(pipeline, len(broker.given), "nothing was settled; with a whole answer, it was")


@scenario(FaultClass.STALE_METADATA)
def stale_metadata_before_publish(chaos: Chaos) -> Verdict:
    """The response lacks a planned partition: the broker is queried again, and the same run publishes."""
    return _asked_again(chaos, without_partition)


@scenario(FaultClass.STALE_METADATA)
def answer_of_an_earlier_leader_before_publish(chaos: Chaos) -> Verdict:
    """The response names an earlier leader than those read from: the broker is queried again."""
    return _asked_again(chaos, of_an_earlier_leader)


@scenario(FaultClass.STALE_METADATA)
def answers_of_an_earlier_leader_without_end(chaos: Chaos) -> Verdict:
    """Nothing is published on the word of an earlier leader than those read from; the next run continues."""
    world = chaos.world
    pipeline = world.caught_up()
    world.send(pipeline, transfers(40, start=8))
    answers: list[TopicView] = []
    with pytest.raises(BrokerAway, match="leader epoch -1"):
        play(world, pipeline, partial(_behind_at_publish, of_an_earlier_leader, ALWAYS, answers))
    assert world.position(pipeline) == dict.fromkeys(range(4), 2)
    return chaos.judge(pipeline, len(answers), "nothing published; the next run did")


def _asked_again(chaos: Chaos, make: Callable[[TopicView], TopicView]) -> Verdict:
    world = chaos.world
    pipeline = world.caught_up()
    world.send(pipeline, transfers(40, start=8))
    answers: list[TopicView] = []
    (batch,) = play(world, pipeline, partial(_behind_at_publish, make, 1, answers))
    assert batch.messages == 40
    return chaos.judge(pipeline, len(answers), "asked again; published")


def _behind_at_publish(
    make: Callable[[TopicView], TopicView], answers: int, given: list[TopicView], context: RunContext
) -> RunContext:
    """From the moment before publication, make the next `answers` responses stale."""
    broker = Behind(context.broker, make, given=given)
    return before_the_publication(lambda: setattr(broker, "answers", answers))(replace(context, broker=broker))
