"""A renamed topic in a contract: two logs under one pipeline, and a choice that only a person can make."""

from dataclasses import replace
from functools import partial

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from tests.chaos.halts import halted, resolve_halt
from tests.chaos.moments import before_the_read, play
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.kafka.logs import add_partitions
from tests.support.world import World, transfers


@scenario(FaultClass.TOPIC_RENAMED)
def topic_renamed_in_the_contract(chaos: Chaos) -> Verdict:
    """Halt; after `resolve` the new topic is read from its start, and the rest of the old one is a declared skip."""
    world = chaos.world
    old = world.caught_up()
    world.send(old, transfers(8, start=8))  # two in each partition: the unread tail
    add_partitions(world, old, 5)
    world.send(old, transfers(3, start=50), partition=4)  # no run has seen this partition either
    new = renamed(world, old)
    detail = halted(world, new, "topic_changed", partial(world.drain, new))
    assert detail == {"was": old.contract.topic, "is": new.contract.topic}
    decided = resolve_halt(world, new, "beginning")
    assert [step.skip for step in decided.steps] == [*[(2, 4)] * 4, (0, 3)]
    assert "11 offsets" in decided.explanation
    skips = "select partition, from_offset, until_offset from tidegate.declared_skip where pipeline = %s order by 1"
    assert [tuple(row.values()) for row in world.rows(skips, old.name)] == [*[(n, 2, 4) for n in range(4)], (4, 0, 3)]
    return chaos.judge(new, 1, "halted; the new topic from its start, the old tail declared")


@scenario(FaultClass.TOPIC_RENAMED, representative=True)
def topic_renamed_while_a_batch_is_planned(chaos: Chaos) -> Verdict:
    """Halt; with the old name back in the contract `resolve` continues with that batch; then the rename is resolved."""
    world = chaos.world
    old = world.caught_up()
    world.send(old, transfers(8, start=8))
    with pytest.raises(_Died):
        play(world, old, before_the_read(_die))
    new = renamed(world, old)
    halted(world, new, "topic_changed", partial(world.drain, new))
    decided = resolve_halt(world, old)
    assert (decided.steps, decided.keep_pending) == ((), True)
    assert [batch.messages for batch in world.drain(old)] == [8]
    halted(world, new, "topic_changed", partial(world.drain, new))
    assert [step.skip for step in resolve_halt(world, new, "beginning").steps] == [None] * 4
    return chaos.judge(new, 1, "the old topic was read to its end, then the new one from its start")


def renamed(world: World, old: Pipeline) -> Pipeline:
    """Return the pipeline with another topic in its contract, which has twelve messages."""
    new = replace(old, contract=replace(old.contract, topic=f"{old.contract.topic}.v2"))
    world.create_topic(new.contract.topic)
    world.send(new, transfers(12, start=100))
    return new


class _Died(BaseException):
    """The end of a run as if it was killed: not an Exception, which a run would record as its failure."""


def _die() -> None:
    raise _Died
