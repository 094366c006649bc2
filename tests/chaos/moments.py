"""Moments inside a batch at which a scenario injects a fault: wrappers of the real parts of a run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import RunContext, drain
from platform_defs.engine.interfaces.source_and_staging import Source
from platform_defs.formats.blocks.block import Block
from platform_defs.ledger.published import Published
from platform_defs.offsets import OffsetRange
from platform_defs.settings.settings import settings
from tests.support.world import World

Act = Callable[[], object]
Change = Callable[[RunContext], RunContext]


def play(world: World, pipeline: Pipeline, change: Callable[[RunContext], RunContext]) -> list[Published]:
    """Run the pipeline once, with the RunContext that `change` returns."""
    with world.open_run(pipeline) as context:
        return list(drain(pipeline, change(context)))


def before_the_read(act: Act) -> Callable[[RunContext], RunContext]:
    """Act between the plan and the first task."""
    return lambda context: replace(context, spark=_Once(act, context.spark))


def within_a_range(act: Act, mark: Path, partition: int = 0) -> Callable[[RunContext], RunContext]:
    """Act between two blocks of this partition's range, in Spark's worker; `mark` exists once it has happened."""
    return lambda context: replace(context, source=Interrupted(context.source, act, mark, partition))


def before_the_publication(act: Act) -> Callable[[RunContext], RunContext]:
    """Act after the last task and the audit."""
    return lambda context: replace(context, lineage=_Before(context.lineage, "of_batch", act))


def before_the_rules_are_judged(act: Act) -> Callable[[RunContext], RunContext]:
    """Act after the last task, if the batch has rows."""
    return lambda context: replace(context, auditor=_Before(context.auditor, "evaluate", act))


def before_dead_letters_are_counted(act: Act) -> Callable[[RunContext], RunContext]:
    """Act after the last task, if there are dead letters."""
    return lambda context: replace(context, ledger=_Before(context.ledger, "faults", act))


def mark(pipeline: Pipeline) -> Path:
    """Return the path of a file that a worker creates once it has acted."""
    return settings().home / f"{pipeline.name}.happened"


@dataclass(frozen=True)
class Interrupted:
    """The real source. It acts once, in the middle of the range of one partition."""

    real: Source
    act: Act
    mark: Path
    partition: int

    def read(self, wanted: OffsetRange, cluster_id: str | None = None) -> Iterator[Block]:
        if wanted.partition != self.partition or self.mark.exists():
            yield from self.real.read(wanted, cluster_id)
            return
        middle = wanted.from_offset + len(wanted) // 2
        yield from self.real.read(replace(wanted, until_offset=middle), cluster_id)
        self.act()
        self.mark.touch()
        yield from self.real.read(replace(wanted, from_offset=middle, leader_epoch=None), cluster_id)


@dataclass
class _Once:
    """`then`, preceded by `act` the first time."""

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
    """A wrapper that acts before one of the real object's methods."""

    real: Any
    method: str
    act: Act

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        if name != self.method:
            return found

        def after_the_act(*args: Any, **options: Any) -> Any:
            self.act()
            return found(*args, **options)

        return after_the_act


Moment = Literal["before_stage", "before_publish", "after_the_tables_are_checked"]


@dataclass
class Intruder:
    """A fault: `deed(staging_id)`, once, at `moment` of the first batch of a run. `fired` is 1 once it has happened."""

    moment: Moment
    deed: Callable[[int], object]
    fired: int = 0

    def drain(self, world: World, pipeline: Pipeline) -> list[Published]:
        """Run as `World.drain` does, with this fault."""
        return play(world, pipeline, lambda context: replace(context, ledger=_Ledger(context.ledger, self)))

    def at(self, moment: Moment, staging_id: int) -> None:
        if moment == self.moment and not self.fired:
            self.fired = 1
            self.deed(staging_id)


class _Ledger:
    """The run's ledger, which notifies the intruder of each moment."""

    def __init__(self, ledger: Any, intruder: Intruder) -> None:
        self._ledger, self._intruder = ledger, intruder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def open_staging(self, pending: Any) -> Any:
        area = self._ledger.open_staging(pending)
        self._intruder.at("before_stage", area.staging_id)
        return area

    @contextmanager
    def publication(self, staged: Any, **how: Any) -> Iterator[Any]:
        self._intruder.at("before_publish", staged.staging_id)
        with self._ledger.publication(staged, **how) as transaction:
            yield _Publication(transaction, self._intruder, staged.staging_id)


class _Publication:
    """The publishing transaction, which does the same."""

    def __init__(self, transaction: Any, intruder: Intruder, staging_id: int) -> None:
        self._transaction, self._intruder, self._staging_id = transaction, intruder, staging_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def check_tables(self) -> None:
        self._transaction.check_tables()
        self._intruder.at("after_the_tables_are_checked", self._staging_id)
