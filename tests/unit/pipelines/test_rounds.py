"""A run shares its time by turns, the oldest message first, and one pipeline's failure is its own."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pytest
from dagster_postgres.utils import DagsterPostgresException
from sqlalchemy.exc import OperationalError

from platform_defs.contract.model.contract import Contract, Limits
from platform_defs.errors import BrokerAway, LedgerAway, PipelineHeld
from platform_defs.ledger.answers import PipelineStatus
from platform_defs.offsets import PartitionView, Position, TopicView
from platform_defs.pipelines.scheduler import rounds, run_policy
from platform_defs.pipelines.scheduler.rounds import in_rounds
from platform_defs.pipelines.scheduler.run_policy import EverythingThere, OtherRuns, Turned, WhatIsDue
from platform_defs.pipelines.scheduler.waiting import Seen, Waiting, Waits
from platform_defs.settings.contracts import find_contract

PAGE_VIEWS = find_contract("web_page_views")


class Topics:
    """Topics of one partition, and how far each has been read. A turn reads ten messages at most, and begins with
    `before`.
    """

    def __init__(self, before: Callable[[str], None] | None = None, /, **ends: int) -> None:
        self.before = before or (lambda _: None)
        self.spark_has_ended, self.stopped = False, threading.Event()
        self.ends, self.read = dict(ends), dict.fromkeys(ends, 0)
        self.held: set[str] = set()
        self.suspects: set[str] = set()
        self.turns: list[str] = []
        self.lock = threading.Lock()

    @property
    def contracts(self) -> list[Contract]:
        limits = Limits(lag_messages=10, lag_seconds=3600.0)
        return [replace(PAGE_VIEWS, pipeline=name, topic=name, limits=limits) for name in self.ends]

    def look(self, contracts: Sequence[Contract]) -> list[Seen]:
        return [self._seen(contract) for contract in contracts]

    def take(self, name: str) -> Turned:
        self.before(name)
        with self.lock:
            self.turns.append(name)
            if name in self.held:
                self.held.discard(name)
                raise PipelineHeld(f"{name} is in use")
            before = self.read[name]
            self.read[name] = min(self.ends[name], before + 10)
            return Turned(int(self.read[name] > before), {0: self.read[name]})

    def alone(self, name: str) -> bool:
        return name in self.suspects

    def over(self) -> bool:
        return self.spark_has_ended

    def stop(self) -> None:
        self.stopped.set()

    def everything(self) -> EverythingThere:
        return EverythingThere(self.look(self.contracts))

    def due(self, *first: str, waits: Waits | None = None, others: OtherRuns | None = None) -> WhatIsDue:
        return WhatIsDue(self.contracts, first, waits or {}, self.look, lambda: others or OtherRuns())

    def _seen(self, contract: Contract) -> Seen:
        name = contract.pipeline
        view = TopicView(name, "cluster", "topic", {0: PartitionView(0, self.ends[name])})
        status = PipelineStatus(name, has_run=True, held=name in self.held)
        return Seen(contract, status, [Position(0, "cluster", "topic", self.read[name])], view)


def test_a_large_backlog_and_a_small_one_take_turns() -> None:
    topics = Topics(large=50, small=20)
    assert in_rounds(topics.everything(), topics, max_turns=1) == {}
    assert topics.turns == ["large", "small", "large", "small", "large", "large", "large"]


def test_who_has_a_turn_counts_among_those_that_want_one() -> None:
    topics = Topics(a=10, b=30, c=10)
    by_hand, due = topics.everything(), topics.due("a", "b")
    for policy, count in ((by_hand, 3), (due, 2)):
        assert len(policy.wanted(["a"])) == count - 1
        assert (policy.others_waiting(count - 1), policy.others_waiting(count)) == (True, False)
        policy.turned("a", Turned(1, {0: 10}))
        assert (policy.others_waiting(count - 2), policy.others_waiting(count - 1)) == (True, False)


@pytest.mark.parametrize(
    ("others", "waited_for"),
    [(OtherRuns(), False), (OtherRuns(superseded=True), True), (OtherRuns(frozenset("b")), True)],
    ids=["nobody waits", "the next run waits", "a run by hand waits"],
)
def test_no_turn_is_long_once_another_run_waits(
    others: OtherRuns, *, waited_for: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, topics = [OtherRuns(), others], Topics(a=30, b=30)
    policy = WhatIsDue(topics.contracts, ("a", "b"), {}, topics.look, lambda: answers.pop(0))
    assert not policy.others_waiting(2)
    monkeypatch.setattr(policy, "_next_full_poll", 0.0)
    policy.wanted(["a"])
    assert policy.others_waiting(2) is waited_for


def test_a_run_that_warms_up_has_one_turn_at_a_time_for_all() -> None:
    topics = Topics(a=30, b=30)
    policy = WhatIsDue(topics.contracts, ("a", "b"), {}, topics.look, lambda: OtherRuns(one_turn=True))
    assert policy.others_waiting(2)


def test_by_hand_reads_what_was_there_at_the_beginning_and_not_what_comes_after() -> None:
    def arrives(name: str) -> None:
        topics.ends[name] += 10  # as fast as it is read

    topics = Topics(arrives, endless=20)
    assert in_rounds(topics.everything(), topics) == {}
    assert topics.read == {"endless": 20}


def test_a_run_for_what_is_due_ends_when_nothing_is_due_though_something_is_unread() -> None:
    def trickles(name: str) -> None:
        topics.ends[name] += 2  # below lagMessages

    topics = Topics(trickles, a=25)
    assert in_rounds(topics.due("a"), topics) == {}
    assert 0 < topics.ends["a"] - topics.read["a"] < 10


def test_the_oldest_message_is_first() -> None:
    topics = Topics(young=10, old=10, oldest=10)
    waits = {"young": Waiting(300.0, 0), "old": Waiting(200.0, 0), "oldest": Waiting(100.0, 0)}
    assert in_rounds(topics.due("young", "old", "oldest", waits=waits), topics, max_turns=1) == {}
    assert topics.turns == ["oldest", "old", "young"]


def test_what_becomes_due_while_a_run_is_there_is_taken_up_by_it() -> None:
    def arrives(_: str) -> None:
        topics.ends["b"] = 10

    topics = Topics(arrives, a=10, b=0)
    assert in_rounds(topics.due("a"), topics) == {}
    assert topics.turns == ["a", "b"]


@pytest.mark.parametrize("other", ["held by a run", "asked for by hand"])
def test_what_another_run_has_is_left_to_it(other: str) -> None:
    topics = Topics(a=10, b=10)
    topics.held = {"b"} if other == "held by a run" else set()
    assert in_rounds(topics.due("a", others=OtherRuns(frozenset("b"))), topics) == {}
    assert topics.turns == ["a"]


def test_a_run_by_hand_waits_for_a_pipeline_that_another_run_holds() -> None:
    topics = Topics(a=10)
    topics.held = {"a"}
    assert in_rounds(topics.everything(), topics) == {}
    assert topics.read == {"a": 10}


def test_a_pipeline_that_failed_is_tried_again_by_the_same_run_after_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[Exception] = [BrokerAway("away")]

    def fails_once(_: str) -> None:
        if errors:
            raise errors.pop()

    monkeypatch.setattr(run_policy, "REST", -1.0)
    topics = Topics(fails_once, a=30)
    assert in_rounds(topics.due("a"), topics) == {}
    assert topics.read == {"a": 30}


def test_a_pipeline_that_lags_and_can_read_nothing_now_is_left_alone_for_a_while() -> None:
    """The pipeline is behind an open transaction; the other goes on meanwhile."""
    topics = Topics(a=30, b=30)
    policy = topics.due("a", "b")
    policy.turned("a", Turned(0))
    assert in_rounds(policy, topics) == {}
    assert topics.turns == ["b", "b", "b"]


@pytest.mark.parametrize("error", [BrokerAway("away"), ZeroDivisionError("a bug")])
@pytest.mark.parametrize("due", [True, False])
def test_a_pipeline_that_fails_stops_no_other(error: Exception, due: bool) -> None:
    tried: list[str] = []

    def fails(name: str) -> None:
        tried.append(name)
        if name == "bad":
            raise error

    topics = Topics(fails, bad=30, good=30)
    assert in_rounds(topics.due("bad", "good") if due else topics.everything(), topics) == {"bad": error}
    assert tried.count("bad") == 1
    assert topics.read == {"bad": 0, "good": 30}


def test_a_batch_that_keeps_failing_is_tried_while_no_other_is() -> None:
    beside: list[tuple[str, list[str]]] = []
    busy: list[str] = []

    def takes_a_while(name: str) -> None:
        busy.append(name)
        time.sleep(0.05)
        beside.append((name, list(busy)))
        busy.remove(name)

    topics = Topics(takes_a_while, a=20, suspect=20, b=20, c=20)
    topics.suspects = {"suspect"}
    assert in_rounds(topics.everything(), topics) == {}
    assert topics.read == topics.ends
    assert [names for name, names in beside if name == "suspect"] == [["suspect"]] * 2
    assert not any("suspect" in names for name, names in beside if name != "suspect")
    assert any(len(names) > 1 for _, names in beside)


@pytest.mark.parametrize(
    "away",
    [LedgerAway("away"), BrokerAway("away"), OperationalError("", None, Exception()), DagsterPostgresException()],
)
def test_a_look_that_fails_ends_no_turn(away: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_policy, "FULL_POLL_SECONDS", 0.05)
    monkeypatch.setattr(rounds, "POLL_SECONDS", 0.01)
    looked = threading.Event()

    class Away(Topics):
        def look(self, contracts: Sequence[Contract]) -> list[Seen]:
            if self.turns:
                return super().look(contracts)
            looked.set()
            raise away

    def waits(_: str) -> None:
        assert looked.wait(10)

    topics = Away(waits, a=10)
    assert in_rounds(topics.due("a"), topics) == {}
    assert topics.read == {"a": 10}
    assert not topics.stopped.is_set()


@pytest.mark.parametrize(("superseded", "read"), [(True, 0), (False, 10)])
def test_a_run_that_is_relieved_leaves_what_is_due(*, superseded: bool, read: int) -> None:
    topics = Topics(a=10)
    assert in_rounds(topics.due(others=OtherRuns(superseded=superseded)), topics) == {}
    assert topics.read == {"a": read}


def test_a_run_that_warms_up_takes_one_turn_at_a_time_until_it_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [OtherRuns(one_turn=True), OtherRuns()]
    topics = Topics(a=30, b=30, c=30)
    policy = WhatIsDue(topics.contracts, ("a", "b", "c"), {}, topics.look, lambda: answers.pop(0))
    assert [*policy.wanted(())] == ["a"]
    assert [*policy.wanted(["a"])] == []
    monkeypatch.setattr(policy, "_next_full_poll", 0.0)
    assert [*policy.wanted(["a"])] == ["b", "c"]


def test_a_run_waits_for_what_will_soon_be_due(monkeypatch: pytest.MonkeyPatch) -> None:
    topics, waited = Topics(a=3), list[float]()

    def pass_time(seconds: float) -> None:
        waited.append(seconds)
        topics.ends["a"] = 10  # as many as lagMessages

    monkeypatch.setattr(run_policy.time, "sleep", pass_time)
    almost = Waiting(time.time() - 3600.0 + run_policy.SOON - 1, 0)
    assert in_rounds(topics.due(waits={"a": almost}), topics) == {}
    assert topics.turns == ["a"]
    assert waited == [run_policy.FULL_POLL_SECONDS]


def test_a_run_does_not_wait_for_what_is_due_later(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = Topics(a=3)
    monkeypatch.setattr(run_policy.time, "sleep", pytest.fail)
    later = Waiting(time.time() - 3600.0 + run_policy.SOON + 60, 0)
    assert in_rounds(topics.due(waits={"a": later}), topics) == {}


def test_a_look_that_fails_ends_a_run_without_turns() -> None:
    def away(_: Sequence[Contract]) -> list[Seen]:
        raise LedgerAway("away")

    topics = Topics(a=10)
    with pytest.raises(LedgerAway):
        in_rounds(WhatIsDue(topics.contracts, (), {}, away, OtherRuns), topics)


def test_once_spark_has_ended_no_pipeline_gets_a_turn_to_fail_in() -> None:
    def spark_ends(_: str) -> None:
        topics.spark_has_ended = True
        raise BrokerAway("as a job whose JVM is gone")

    topics = Topics(spark_ends, a=10, b=10)
    assert list(in_rounds(topics.everything(), topics, max_turns=1)) == ["a"]


def test_a_run_that_is_ended_stops_the_turns_that_are_being_taken() -> None:
    class Ended(BaseException):
        """An exception in the main thread, as if Dagster ended the run."""

    class RunPolicy(EverythingThere):
        def wanted(self, busy: Iterable[str]) -> Sequence[str]:
            if list(busy):
                raise Ended
            return super().wanted(())

    def waits(_: str) -> None:
        assert topics.stopped.wait(10)

    topics = Topics(waits, a=10)
    with pytest.raises(Ended):
        in_rounds(RunPolicy(topics.look(topics.contracts)), topics)
    assert topics.stopped.is_set()
