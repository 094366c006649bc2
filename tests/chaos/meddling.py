"""Ways to let something happen to a run at a certain moment of it: real parts of the run, with a hand in them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from platform_defs.engine.batch import Outside, drain
from platform_defs.engine.errors import Halt
from platform_defs.engine.offsets import OffsetRange
from platform_defs.engine.ports import Block, Pipeline, Published, Source
from resources import settlement
from resources.kafka import KafkaBroker
from resources.outside import kafka_options
from resources.settings import settings
from resources.settlement import From, Settlement
from tests.world import World

Act = Callable[[], object]


def play(world: World, pipeline: Pipeline, change: Callable[[Outside], Outside]) -> list[Published]:
    """One run of the pipeline, over what `change` makes of everything outside."""
    with world.hold(pipeline) as outside:
        return list(drain(pipeline, change(outside)))


def before_the_read(act: Act) -> Callable[[Outside], Outside]:
    """Between the plan and the first task."""
    return lambda outside: replace(outside, spark=_Once(act, outside.spark))


def within_a_range(act: Act, mark: Path, partition: int = 0) -> Callable[[Outside], Outside]:
    """Between two blocks of this partition's range, in Spark's worker; `mark` is there once it has happened."""
    return lambda outside: replace(outside, source=Interrupted(outside.source, act, mark, partition))


def before_the_publication(act: Act) -> Callable[[Outside], Outside]:
    """After the last task and the audit."""
    return lambda outside: replace(outside, lineage=_Before(outside.lineage, "of_batch", act))


def halted(world: World, pipeline: Pipeline, code: str, run: Callable[[], object] | None = None) -> dict[str, Any]:
    """A run halts with `code`, the ledger remembers, and the next run is stopped at the door. The halt's detail."""
    with pytest.raises(Halt) as halt:
        run() if run else world.drain(pipeline)
    status: Any = world.ledger.status(pipeline.name)
    assert (halt.value.code, status["state"], status["halt_code"]) == (code, "halted", code)
    assert status["halt_detail"] == halt.value.detail
    with pytest.raises(Halt, match="nobody has settled it"):
        world.drain(pipeline)
    return halt.value.detail


def acknowledge(world: World, pipeline: Pipeline, start: From | None = None) -> Settlement:
    """Settle the pipeline's halt as `tidegate ack` does; what was decided."""
    decided = settlement.plan(pipeline.contract, world.ledger, KafkaBroker(kafka_options(world.endpoints)), start)
    assert decided is not None
    settlement.settle(world.endpoints.postgres_url, pipeline.contract, decided, "a scenario", "chaos")
    return decided


def mark(pipeline: Pipeline) -> Path:
    """A file that is not there yet, for what happens in a worker to be known of."""
    return settings().home / f"{pipeline.name}.happened"


@dataclass(frozen=True)
class Interrupted:
    """The real source. Once, in the middle of the range of one partition, something happens."""

    real: Source
    act: Act
    mark: Path
    partition: int

    def read(self, wanted: OffsetRange) -> Iterator[Block]:
        if wanted.partition != self.partition or self.mark.exists():
            yield from self.real.read(wanted)
            return
        middle = wanted.from_offset + len(wanted) // 2
        yield from self.real.read(replace(wanted, until_offset=middle))
        self.act()
        self.mark.touch()
        yield from self.real.read(replace(wanted, from_offset=middle, leader_epoch=None))


@dataclass
class _Once:
    """`then`, with `act` done once before it."""

    act: Act
    then: Callable[[], Any]
    done: bool = False

    def __call__(self) -> Any:
        if not self.done:
            self.done = True
            self.act()
        return self.then()


@dataclass(frozen=True)
class _Before:
    """Something real with somebody's hand in it, just before one of its methods."""

    real: Any
    method: str
    act: Act

    def __getattr__(self, name: str) -> Any:
        if name == self.method:
            self.act()
        return getattr(self.real, name)
