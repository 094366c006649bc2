"""Moments inside a batch at which a scenario steps in, behind the run's back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from platform_defs.engine.batch import drain
from platform_defs.engine.ports import Pipeline, Published
from tests.world import World

Moment = Literal["before_stage", "before_publish", "after_the_tables_are_checked"]


@dataclass
class Intruder:
    """Does `deed(staging_id)` once, at `moment` of the first batch of a run. `fired` says whether it came to that."""

    moment: Moment
    deed: Callable[[int], object]
    fired: int = 0

    def drain(self, world: World, pipeline: Pipeline) -> list[Published]:
        """`World.drain`, with this one's hand in it."""
        with world.hold(pipeline) as outside:
            return list(drain(pipeline, replace(outside, ledger=_Ledger(outside.ledger, self))))

    def at(self, moment: Moment, staging_id: int) -> None:
        if moment == self.moment and not self.fired:
            self.fired = 1
            self.deed(staging_id)


class _Ledger:
    """The run's hold on the ledger, which lets the intruder know where the batch is."""

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
    """The publishing transaction, likewise."""

    def __init__(self, transaction: Any, intruder: Intruder, staging_id: int) -> None:
        self._transaction, self._intruder, self._staging_id = transaction, intruder, staging_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def check_tables(self) -> None:
        self._transaction.check_tables()
        self._intruder.at("after_the_tables_are_checked", self._staging_id)
