"""The work that is left for a run: everything that was there when it was started by hand, or whatever is due."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from platform_defs.contract.model.contract import Contract
from platform_defs.dagster.storage import STORAGE_AWAY
from platform_defs.errors import BrokerAway, LedgerAway, PipelineHeld
from platform_defs.offsets import TopicView
from platform_defs.pipelines.scheduler.handover import SHIFT
from platform_defs.pipelines.scheduler.waiting import Due, Seen, Waits, decide, due_in, remember

FULL_POLL_SECONDS = 5.0  # seconds between two polls of all pipelines
SOON = 20.0  # seconds for which a run waits for pipelines to become due: the next run would take as long to start
REST = 30.0  # seconds for which a pipeline that failed is left alone at least: the ledger may not have recorded it
EMPTY = 5.0  # the same, after a turn that found nothing to read, as behind an open transaction
PATIENCE = 900.0  # seconds for which a run by hand waits for a pipeline that another run has leased


@dataclass(frozen=True)
class Turned:
    """The result of a pipeline's turn."""

    batches: int
    next_offsets: Mapping[int, int] = field(default_factory=dict[int, int])  # by partition, when the turn ended


class RunPolicy(Protocol):
    """Decides who is next, and when a run is over."""

    def wanted(self, busy: Iterable[str]) -> Sequence[str]:
        """Return the pipelines that want a turn now, in order, without those that have theirs (`busy`).

        The run is over once there are none of either.
        """
        ...

    def turned(self, name: str, turn: Turned) -> None:
        """Note that the pipeline has had its turn."""
        ...

    def failed(self, name: str, error: Exception) -> bool:
        """Return True if that ends the run's work on the pipeline as a failure. It wants no more turns then."""
        ...


class EverythingThere:
    """Reads each pipeline up to the end that its topic had when the run began: a run started by hand."""

    def __init__(self, seen: Sequence[Seen]) -> None:
        # By partition; None if they are unknown: its turn will report why.
        self._ends = {
            item.contract.pipeline: {p: held.end for p, held in item.view.partitions.items()}
            if isinstance(item.view, TopicView)
            else None
            for item in seen
        }
        self._left = deque(self._ends)
        self._until = time.monotonic() + PATIENCE

    def wanted(self, busy: Iterable[str]) -> Sequence[str]:
        """See RunPolicy."""
        taken = set(busy)
        return [name for name in self._left if name not in taken]

    def others_waiting(self, max_turns: int) -> bool:
        """Return True if more pipelines want a turn, or have one, than there are turns at a time."""
        return len(self._left) > max_turns

    def turned(self, name: str, turn: Turned) -> None:
        """See RunPolicy. A turn that found nothing to read ends it, wherever the positions are."""
        self._left.remove(name)
        ends = self._ends[name]
        reached = ends is not None and all(turn.next_offsets.get(p, 0) >= end for p, end in ends.items())
        if turn.batches and not reached:
            self._left.append(name)

    def failed(self, name: str, error: Exception) -> bool:
        """See RunPolicy. Waits for a pipeline that another run has leased."""
        self._left.remove(name)
        waits = isinstance(error, PipelineHeld) and time.monotonic() < self._until
        if waits:
            self._left.append(name)
        return not waits


@dataclass(frozen=True)
class OtherRuns:
    """The effects of Dagster's other runs on this one."""

    by_hand: frozenset[str] = frozenset()  # the pipelines of a running run that was started by hand
    superseded: bool = False  # this run is to leave what is due to the next one
    one_turn: bool = False  # this run warms up beside one that still does the work: a turn at a time


class WhatIsDue:
    """Works on what is due, the oldest unread message first, until nothing is, or will be soon: the sensor's runs.

    `first`: the pipelines that the run was started for. It also takes up those that become due meanwhile, so that they
    need not wait for another run to start, unless they were asked for by hand (`others`) or another run has them.
    """

    def __init__(
        self,
        contracts: Sequence[Contract],
        first: Iterable[str],
        waits: Waits,
        look: Callable[[Sequence[Contract]], Sequence[Seen]],
        others: Callable[[], OtherRuns],
    ) -> None:
        self._contracts, self._waits, self._look, self._others = contracts, waits, look, others
        began = time.time()
        self._due = sorted(first, key=lambda name: waits[name].since if name in waits else began)
        self._rests: dict[str, float] = {}  # until when
        self._end = time.monotonic() + SHIFT
        self._next_full_poll = time.monotonic() + FULL_POLL_SECONDS
        self._one_turn, self._by_hand = others().one_turn, False
        self._due_in = inf  # seconds, as of the last poll

    def wanted(self, busy: Iterable[str]) -> Sequence[str]:
        """See RunPolicy."""
        taken = set(busy)
        if time.monotonic() > self._end:
            return []
        if time.monotonic() > self._next_full_poll or (not self._due and not taken):
            self._due = self._looked(taken)
            while not self._due and not taken and 0 < self._due_in < SOON and time.monotonic() < self._end:
                time.sleep(
                    min(max(self._due_in, 1.0), FULL_POLL_SECONDS)
                )  # a poll queries all; brokers send no notifications
                self._due = self._looked(taken)
            self._next_full_poll = time.monotonic() + FULL_POLL_SECONDS
        wanted = [name for name in self._due if name not in taken]
        if self._one_turn:
            return [] if taken else wanted[:1]
        return wanted

    def others_waiting(self, max_turns: int) -> bool:
        """Return the same as of the last poll; True also if another run waits for a pipeline, or for this run's end."""
        waited_for = self._by_hand or time.monotonic() > self._end
        return waited_for or len(self._due) > (1 if self._one_turn else max_turns)

    def turned(self, name: str, turn: Turned) -> None:
        """See RunPolicy. The next poll shows whether it is due again."""
        self._leave(name)
        if not turn.batches:
            self._rests[name] = time.monotonic() + EMPTY

    def failed(self, name: str, error: Exception) -> bool:
        """See RunPolicy. It is tried again when its back-off ends; one that another run has is not ours."""
        self._leave(name)
        held = isinstance(error, PipelineHeld)
        if not held:
            self._rests[name] = time.monotonic() + REST
        return not held

    def _leave(self, name: str) -> None:
        self._due = [other for other in self._due if other != name]

    def _looked(self, taken: set[str]) -> list[str]:
        """Return the pipelines that are due. A failed poll ends no turn that is being taken: the turn may not need what
        is away.
        """
        try:
            seen, others = self._look(self._contracts), self._others()
        except (LedgerAway, *STORAGE_AWAY):
            if not taken:
                raise
            self._end = 0.0  # the run's own session may be gone: leave the rest to the next run
            return []
        except BrokerAway:
            if not taken:
                raise
            return self._due
        self._one_turn, self._by_hand, self._due_in = others.one_turn, bool(others.by_hand), inf
        if others.superseded:
            self._end = 0.0
            return []
        now = time.time()
        self._waits = remember(self._waits, seen, now)
        resting = {name for name, until in self._rests.items() if time.monotonic() < until}
        not_ours = others.by_hand | resting | {item.contract.pipeline for item in seen if item.status.held} - taken
        ours = {item.contract.pipeline: item for item in seen if item.contract.pipeline not in not_ours}
        decided = [decide(item, self._waits.get(name), now) for name, item in ours.items()]
        self._due_in = min((due_in(item, self._waits.get(name), now) for name, item in ours.items()), default=inf)
        due = sorted((item for item in decided if isinstance(item, Due)), key=lambda item: item.since)
        return [item.pipeline for item in due]
