"""A continuous run: it stays for the pipelines whose contracts allow a latency of a few seconds only.

It polls the broker for the ends of all their topics in one request, some ten times within the shortest latency, and
gives a turn to each pipeline with unread messages. It polls all else (positions, halts, back-off, partitions, runs
started by hand) every few seconds, as the sensor does.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.dagster.storage import STORAGE_AWAY
from platform_defs.engine.batch import Budget
from platform_defs.errors import BrokerAway, Fenced, LedgerAway, PipelineHeld
from platform_defs.errors.words import plural
from platform_defs.offsets import TopicView
from platform_defs.pipelines.scheduler.handover import HANDOVER, SHIFT
from platform_defs.pipelines.scheduler.run_policy import FULL_POLL_SECONDS, OtherRuns, Turned
from platform_defs.pipelines.scheduler.waiting import Seen, must_wait, wants_turn

SHARE = Budget(batches=8, seconds=1.0)  # of one turn; a batch that has begun is finished
BATCH = 100_000  # messages: a larger batch takes longer than the others' messages may wait
POLLS = 10  # polls of the ends of all topics, within the shortest latency ...
SHORTEST, LONGEST = 0.05, 0.4  # ... and seconds between two of them, at least and at most
POLL_PAUSE_FACTOR = 9.0  # pause after a poll of the ends, in multiples of its duration; also after an early full poll
HELD = 1.0  # seconds for which a pipeline is left alone that another run has leased
FENCED = 10.0  # ... that another run has taken away
RETRY = 5.0  # ... that failed: the ledger may not have recorded it; then twice as long each time ...
MAX_RETRY = 60.0  # ... up to this: each try is two events of Dagster's
EMPTY = 1.0  # ... that had nothing to read, as behind an open transaction
AWAY = 180.0  # seconds to wait for systems that do not answer; then the run fails, and the next begins

Place = tuple[str, int]  # topic, partition


@dataclass(frozen=True)
class RunBudget:
    """The limits at which a run asks for another in its place, though it could go on.

    The memory that a run needs depends on its cores and contracts, so its growth is limited.
    """

    batches: int = 20_000
    settles: float = 300.0  # seconds after which the memory is what the run needs
    growth: float = 2.0  # times that ...
    least_growth: float = 1e9  # ... and at least so many bytes more

    def spent(self, batches: int, needed: float | None, memory: float) -> str | None:
        """Return why the run should end, after so many batches; None if it may go on. `needed`: the bytes it used once
        that had settled, None before that; `memory`: those that it uses now.
        """
        if batches >= self.batches:
            return f"it has published {plural(batches, 'batch', 'batches')}"
        if needed is not None and memory > max(needed * self.growth, needed + self.least_growth):
            return f"its memory use grew from {needed / 1e6:,.0f} MB to {memory / 1e6:,.0f} MB"
        return None


def poll_interval(contracts: Iterable[Contract]) -> float:
    """Return the seconds between two polls of the ends of all topics."""
    shortest = min((item.limits.lag_seconds for item in contracts), default=LONGEST)
    return min(max(shortest / POLLS, SHORTEST), LONGEST)


def in_small_batches(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline as a turn reads it beside others: no batch of a backlog takes long."""
    limits = pipeline.contract.limits
    small = replace(limits, batch_messages=min(limits.batch_messages, BATCH))
    return replace(pipeline, contract=replace(pipeline.contract, limits=small))


@dataclass(frozen=True)
class SchedulerInputs:
    """The functions by which the policy observes and asks for another run."""

    look: Callable[[Sequence[Contract]], Sequence[Seen]]
    ends: Callable[[Iterable[Place]], Mapping[Place, int]]
    others: Callable[[], OtherRuns]
    unreported: Callable[[], Collection[str]]  # pipelines with batches that a run has left unreported
    memory: Callable[[], float]  # bytes
    hand_over: Callable[[str], None]  # ask the sensor for another run, with the reason
    over: Callable[[], bool]  # returns True if no turn can be taken any more


class Continuous:
    """Gives turns to all pipelines with unread messages, those that have waited longest first (see RunPolicy).

    Ends when it is superseded, at the end of its shift, or if systems do not answer for AWAY seconds. `age`: of the
    run, in seconds.
    """

    def __init__(
        self, contracts: Sequence[Contract], around: SchedulerInputs, budget: RunBudget, age: float = 0.0
    ) -> None:
        self._contracts, self._around, self._budget = contracts, around, budget
        self._began = time.monotonic() - age
        self._end = self._began + SHIFT
        self.poll_seconds = poll_interval(contracts)
        self._known: dict[str, Seen] = {}  # those that may have turns, as of the last full poll
        self._read: dict[str, dict[int, int]] = {}  # the next offset by partition, as of the last full poll or turn
        self._unread: set[str] = set()
        self._unreported: set[str] | None = None  # read at the first full poll; a pipeline's first turn reports it
        self._rests: dict[str, float] = {}  # until when
        self._failed: dict[str, int] = {}  # times in a row
        self._last: dict[str, float] = {}  # when each had its last turn
        self._next_full_poll = self._next_offset_poll = 0.0
        self._away_since: float | None = None
        self._away: Exception | None = None  # for too long
        self._one_turn = self._asked = False
        self._batches = 0
        self._needed: float | None = None  # bytes of memory, once that has settled

    def wanted(self, busy: Iterable[str]) -> Sequence[str]:
        """See RunPolicy. If no pipeline wants a turn, wait until one does, or the run is to end."""
        taken = set(busy)
        self._unread -= taken
        while True:
            self._refresh(taken)
            if self._away is not None and not taken:
                raise self._away
            if self._away is not None or time.monotonic() > self._end or self._around.over():
                return []
            wanted = self._in_order(taken)
            if wanted or taken:
                return wanted
            time.sleep(self.poll_seconds)  # a broker sends no notifications

    def others_waiting(self) -> bool:
        """Return True if a pipeline without a turn wants one: the others are to end after a batch."""
        return bool(self._unread)

    def turned(self, name: str, turn: Turned) -> None:
        """See RunPolicy. The next poll of the ends shows whether it wants another."""
        self._unread.discard(name)
        if self._unreported:
            self._unreported.discard(name)
        self._last[name] = time.monotonic()
        self._failed.pop(name, None)
        self._batches += turn.batches
        self._read.setdefault(name, {}).update(turn.next_offsets)
        if not turn.batches:
            self._rests[name] = time.monotonic() + EMPTY
        self._next_offset_poll = 0.0

    def failed(self, name: str, error: Exception) -> bool:
        """See RunPolicy. It is tried again once a full poll shows that it may be. Being taken over is no failure."""
        self._unread.discard(name)
        self._known.pop(name, None)
        rest = self._rest_after(name, error)
        self._rests[name] = time.monotonic() + rest
        self._next_full_poll = min(self._next_full_poll, time.monotonic() + rest)
        return not isinstance(error, PipelineHeld | Fenced)

    def rests(self, name: str) -> float:
        """Return for how many seconds the pipeline is left alone from now on."""
        return max(0.0, self._rests.get(name, 0.0) - time.monotonic())

    def _rest_after(self, name: str, error: Exception) -> float:
        if isinstance(error, PipelineHeld):
            return HELD
        if isinstance(error, Fenced):
            return FENCED
        if isinstance(error, LedgerAway | BrokerAway):
            return RETRY  # failed polls hold all turns back
        self._failed[name] = failed = self._failed.get(name, 0) + 1
        return min(RETRY * 2 ** min(failed - 1, 10), MAX_RETRY)

    def _in_order(self, taken: set[str]) -> Sequence[str]:
        to_report = set[str]()  # batches of an earlier run: they wait until no pipeline has unread messages
        if self._unreported and self._away_since is None:
            known = {name for name, item in self._known.items() if isinstance(item.view, TopicView)}
            to_report = self._unreported & known
        free = ([name for name in names - taken if self.rests(name) == 0.0] for names in (self._unread, to_report))
        wanted = sorted(next(filter(None, free), ()), key=lambda name: self._last.get(name, 0.0))
        if self._one_turn:
            return [] if taken else wanted[:1]
        return wanted

    def _refresh(self, taken: set[str]) -> None:
        """Poll everything, or the ends alone, if it is time."""
        now = time.monotonic()
        if now < min(self._next_full_poll, self._next_offset_poll):
            return
        rest = self.poll_seconds
        try:
            if now >= self._next_full_poll:
                self._look(taken)
            else:
                self._poll(taken)
                rest = max(rest, POLL_PAUSE_FACTOR * (time.monotonic() - now))
        except (LedgerAway, BrokerAway, *STORAGE_AWAY) as away:
            self._away_since = self._away_since if self._away_since is not None else now
            self._unread.clear()  # not tried until the next poll, in a second
            self._next_full_poll = self._next_offset_poll = time.monotonic() + 1.0
            if now - self._away_since > AWAY:
                self._away = away
        else:
            self._away_since = None
            self._next_offset_poll = time.monotonic() + rest

    def _look(self, taken: set[str]) -> None:
        began = time.monotonic()
        seen, others = self._around.look(self._contracts), self._around.others()
        self._one_turn = others.one_turn
        self._end_early(superseded=others.superseded)
        elsewhere = {item.contract.pipeline for item in seen if item.status.held} - taken
        not_ours = others.by_hand | elsewhere
        ours = {item.contract.pipeline: item for item in seen if item.contract.pipeline not in not_ours}
        self._known = {name: item for name, item in ours.items() if must_wait(item) is None}
        for name in self._known.keys() - taken:
            self._read[name] = {at.partition: at.next_offset for at in self._known[name].positions}
        self._unreported = set(self._around.unreported()) if self._unreported is None else self._unreported
        self._unread = {name for name, item in self._known.items() if wants_turn(item)} - taken
        now = time.monotonic()
        self._next_full_poll = now + (
            min(max(HELD, POLL_PAUSE_FACTOR * (now - began)), FULL_POLL_SECONDS) if elsewhere else FULL_POLL_SECONDS
        )

    def _poll(self, taken: set[str]) -> None:
        topics = {name: item.view for name, item in self._known.items() if isinstance(item.view, TopicView)}
        ends = self._around.ends({(view.topic, p) for view in topics.values() for p in view.partitions})
        for name, view in topics.items():
            read = self._read.get(name, {})
            unread = any(ends.get((view.topic, p), 0) > read.get(p, held.low) for p, held in view.partitions.items())
            if unread and name not in taken:
                self._unread.add(name)

    def _end_early(self, *, superseded: bool) -> None:
        """End if another run has taken this one's place. If the budget is spent, ask for another run."""
        if superseded:
            self._end = 0.0
        if superseded or self._asked:
            return
        now, memory = time.monotonic(), self._around.memory()
        if self._needed is None and now - self._began > self._budget.settles:
            self._needed = memory
        if why := self._budget.spent(self._batches, self._needed, memory):
            self._around.hand_over(why)
            self._asked, self._end = True, min(self._end, now + HANDOVER)
