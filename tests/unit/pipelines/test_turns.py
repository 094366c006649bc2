"""The end of a pipeline's turn, and turns in isolation."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from platform_defs.engine.plan.budget import Spent
from platform_defs.errors import LedgerAway
from platform_defs.errors.error_policy import TRIES
from platform_defs.ledger.published import Published
from platform_defs.offsets import OffsetRange
from platform_defs.pipelines.scheduler import turns
from platform_defs.pipelines.scheduler.rounds import MAX_CONCURRENT_TURNS, _next
from platform_defs.pipelines.scheduler.run_policy import SHIFT
from platform_defs.pipelines.scheduler.turns import ALONE, ALONE_FOR, Turns, _may_leave_more
from platform_defs.settings.contracts import find_contract
from platform_defs.stack.endpoints import Endpoints


@pytest.mark.parametrize(
    ("offsets", "more"),
    [((1,), False), ((30, 30), False), ((50, 50), True), ((50, 49), True)],  # shares of a full batch are rounded down
)
def test_only_a_full_batch_is_followed_by_another_in_the_same_turn(offsets: tuple[int, ...], more: bool) -> None:
    shipped = find_contract("web_page_views")
    contract = replace(shipped, limits=replace(shipped.limits, batch_messages=100))
    ranges = tuple(OffsetRange(contract.topic, number, 0, count) for number, count in enumerate(offsets))
    assert _may_leave_more(Published(1, contract.pipeline, ranges, 1, 1, 0, 0, (), {}), contract) is more


@pytest.mark.parametrize("others_waiting", [True, False])
def test_a_turn_of_a_run_that_stays_goes_on_until_others_wait_for_theirs(others_waiting: bool) -> None:
    contract = find_contract("web_page_views")
    unused: Any = None
    taken = Turns(unused, [], Endpoints("", ""), unused, unused, stays=True)
    taken.others_waiting = lambda: others_waiting
    batch = Published(1, contract.pipeline, (OffsetRange(contract.topic, 0, 0, 1),), 1, 1, 0, 0, (), {})
    assert taken._goes_on(batch, contract, Spent(turns.SHARE)) is not others_waiting
    taken.finish()


def test_a_turn_is_long_where_nobody_waits_for_one() -> None:
    unused: Any = None
    taken = Turns(unused, [], Endpoints("", ""), unused, unused)
    assert taken._share() == turns.SHARE
    taken.others_waiting = lambda: False
    assert taken._share() == turns.LONG


def test_a_long_turn_ends_with_its_share_once_others_have_come_to_wait() -> None:
    unused: Any = None
    contract = find_contract("web_page_views")
    size = contract.limits.batch_messages
    full = Published(1, contract.pipeline, (OffsetRange(contract.topic, 0, 0, size),), size, 1, 0, 0, (), {})
    taken = Turns(unused, [], Endpoints("", ""), unused, unused)
    taken.others_waiting = lambda: False
    spent, over = Spent(turns.SHARE, begun=turns.SHARE.batches), Spent(turns.SHARE, begun=1, started=-1e9)
    assert taken._goes_on(full, contract, spent)
    taken.others_waiting = lambda: True
    assert not taken._goes_on(full, contract, spent)
    assert not taken._goes_on(full, contract, over)
    assert taken._goes_on(full, contract, Spent(turns.SHARE, begun=1))
    assert taken._goes_on(replace(full, followed=True), contract, spent)


@pytest.mark.parametrize("others_waiting", [True, False])
def test_a_run_that_stays_stages_ahead_where_nobody_waits_for_a_turn(others_waiting: bool) -> None:
    unused: Any = None
    taken = Turns(unused, [], Endpoints("", ""), unused, unused, stays=True)
    taken.others_waiting = lambda: others_waiting
    assert taken._share().ahead is not others_waiting
    taken.finish()


def test_of_ranges_that_are_published_one_by_one_their_plan_says_whether_there_may_be_more() -> None:
    contract = find_contract("web_page_views")
    share = contract.limits.batch_messages // 4
    plan = tuple(OffsetRange(contract.topic, partition, 0, share) for partition in range(4))
    first = Published(1, contract.pipeline, plan[:1], 1, 1, 0, 0, (), {}, plan=plan, followed=True)
    assert _may_leave_more(first, contract)
    assert _may_leave_more(replace(first, followed=False), contract)
    assert not _may_leave_more(replace(first, followed=False, plan=plan[:2]), contract)


def test_a_batch_that_has_failed_often_is_tried_alone_though_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    failures, clock = iter([0, ALONE - 1, ALONE, ALONE, ALONE]), iter([10.0, 9.0 + ALONE_FOR, 10.0 + ALONE_FOR])
    context: Any = None
    monkeypatch.setattr(turns.time, "monotonic", lambda: next(clock))
    counting: Any = _Counting(failures)
    taken = Turns(context, [], Endpoints("", ""), counting, context)
    assert [taken.alone("a") for _ in range(5)] == [False, False, True, True, False]
    assert not taken.alone("a"), "Postgres is away: its turn says so"


class _Counting:
    def __init__(self, failures: Iterator[int]) -> None:
        self._failures = failures

    def batch_failures(self, _: str) -> int:
        try:
            return next(self._failures)
        except StopIteration:
            raise LedgerAway("away") from None


@dataclass
class Machine:
    """Processes that take turns by the real rules, and one pipeline whose batch kills them. `now` is the time.

    `seconds` is how long a batch of each takes; for the killer, until the process dies. A process that takes a pipeline
    over counts a death, as the ledger does; a commit sets the count to 0.
    """

    seconds: Mapping[str, float]
    killer: str
    now: float = 0.0
    counted: Counter[str] = field(default_factory=Counter[str])
    died: set[str] = field(default_factory=set[str])  # pipelines whose last owner has died
    halted: set[str] = field(default_factory=set[str])
    commits: Counter[str] = field(default_factory=Counter[str])

    def batch_failures(self, name: str) -> int:
        return self.counted[name]

    def process(self, taken: Turns, order: Sequence[str]) -> None:
        """Take turns until the process dies or its time is over; `order`: the oldest message first."""
        queue, ends = deque(order), dict[str, float]()
        until = self.now + SHIFT
        while self.now < until or ends:
            wanted = [name for name in queue if name not in ends and name not in self.halted]
            for name in _next(wanted if self.now < until else (), list(ends), taken, MAX_CONCURRENT_TURNS):
                self._begin(name, ends)
                taken._alone_since.pop(name, None)
            self.now += 1.0
            for name in [name for name, end in ends.items() if end <= self.now]:
                if name == self.killer:
                    self.died |= set(ends)
                    return
                del ends[name]
                taken._alone_since.pop(name, None)
                self.counted[name] = 0
                self.commits[name] += 1
                queue.remove(name)
                queue.append(name)

    def _begin(self, name: str, ends: dict[str, float]) -> None:
        self.counted[name] += name in self.died
        self.died.discard(name)
        if self.counted[name] >= TRIES:
            self.halted.add(name)
        else:
            ends[name] = self.now + self.seconds[name]


@pytest.mark.parametrize(("dies_after", "takes"), [(1.0, 1.0), (70.0, 30.0), (200.0, 290.0)])
def test_a_batch_that_kills_its_process_halts_and_none_of_those_beside_it(
    dies_after: float, takes: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred pipelines are due all the time, and the killer's message is the oldest."""
    names = [f"p{number}" for number in range(200)]
    machine = Machine(dict.fromkeys(names, takes) | {"p0": dies_after}, "p0")
    monkeypatch.setattr(turns.time, "monotonic", lambda: machine.now)
    ledger: Any = machine
    context: Any = None
    for _ in range(3 * TRIES):
        machine.process(Turns(context, [], Endpoints("", ""), ledger, context), names)
        if machine.halted:
            break
    assert machine.halted == {"p0"}
    machine.process(Turns(context, [], Endpoints("", ""), ledger, context), names)
    assert machine.halted == {"p0"}
    assert not {"p1", "p2"} - set(machine.commits), "those beside it have gone on"
