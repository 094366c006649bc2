"""How a run shares its time: by turns, the oldest message first, and one pipeline's failure is its own."""

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from assets import find_contract
from platform_defs.contract.model import Contract, Limits
from platform_defs.errors import BrokerAway, PipelineHeld
from platform_defs.offsets import PartitionView, Position, TopicView
from platform_defs.orchestration.goals import EverythingThere, Turned, WhatIsDue
from platform_defs.orchestration.rounds import in_rounds
from platform_defs.orchestration.waiting import Seen, Waiting, Waits
from resources.postgres.answers import PipelineStatus

PAGE_VIEWS = find_contract("web_page_views")


class Topics:
    """Topics of one partition, and how far each has been read. A turn reads ten messages at most."""

    def __init__(self, **ends: int) -> None:
        self.ends, self.read = dict(ends), dict.fromkeys(ends, 0)
        self.held: set[str] = set()
        self.turns: list[str] = []
        self.lock = threading.Lock()

    @property
    def contracts(self) -> list[Contract]:
        limits = Limits(lag_messages=10, lag_seconds=3600.0)
        return [replace(PAGE_VIEWS, pipeline=name, topic=name, limits=limits) for name in self.ends]

    def look(self, contracts: Sequence[Contract]) -> list[Seen]:
        return [self._seen(contract) for contract in contracts]

    def take(self, name: str) -> Turned:
        with self.lock:
            self.turns.append(name)
            if name in self.held:
                self.held.discard(name)
                raise PipelineHeld.by_run(name, "another")
            before = self.read[name]
            self.read[name] = min(self.ends[name], before + 10)
            return Turned(int(self.read[name] > before), {0: self.read[name]})

    def everything(self) -> EverythingThere:
        return EverythingThere(self.look(self.contracts))

    def due(self, *first: str, waits: Waits | None = None, others: frozenset[str] = frozenset()) -> WhatIsDue:
        return WhatIsDue(self.contracts, first, waits or {}, self.look, lambda: others)

    def _seen(self, contract: Contract) -> Seen:
        name = contract.pipeline
        view = TopicView(name, "cluster", "topic", {0: PartitionView(0, self.ends[name])})
        status = PipelineStatus(name, has_run=True)
        return Seen(contract, status, name in self.held, [Position(0, "cluster", "topic", self.read[name])], view)


def nothing() -> None:
    pass


def test_a_large_backlog_and_a_small_one_take_turns() -> None:
    topics = Topics(large=50, small=20)
    assert in_rounds(topics.everything(), topics.take, nothing, hands=1) == {}
    assert topics.turns == ["large", "small", "large", "small", "large", "large", "large"]


def test_by_hand_reads_what_was_there_at_the_beginning_and_not_what_comes_after() -> None:
    topics = Topics(endless=20)
    goal = topics.everything()

    def take(name: str) -> Turned:
        topics.ends[name] += 10  # as fast as it is read
        return topics.take(name)

    assert in_rounds(goal, take, nothing) == {}
    assert topics.read == {"endless": 20}


def test_a_run_for_what_is_due_ends_when_nothing_is_due_though_something_is_unread() -> None:
    topics = Topics(a=25)

    def take(name: str) -> Turned:
        topics.ends[name] += 2  # a trickle, below lagMessages
        return topics.take(name)

    assert in_rounds(topics.due("a"), take, nothing) == {}
    assert 0 < topics.ends["a"] - topics.read["a"] < 10


def test_the_oldest_message_is_first() -> None:
    topics = Topics(young=10, old=10, oldest=10)
    waits = {"young": Waiting(300.0, 0), "old": Waiting(200.0, 0), "oldest": Waiting(100.0, 0)}
    assert in_rounds(topics.due("young", "old", "oldest", waits=waits), topics.take, nothing, hands=1) == {}
    assert topics.turns == ["oldest", "old", "young"]


def test_what_becomes_due_while_a_run_is_there_is_taken_up_by_it() -> None:
    topics = Topics(a=10, b=0)

    def take(name: str) -> Turned:
        topics.ends["b"] = 10
        return topics.take(name)

    assert in_rounds(topics.due("a"), take, nothing) == {}
    assert topics.turns == ["a", "b"]


@pytest.mark.parametrize("other", ["held by a run", "asked for by hand"])
def test_what_another_run_has_is_left_to_it(other: str) -> None:
    topics = Topics(a=10, b=10)
    topics.held = {"b"} if other == "held by a run" else set()
    assert in_rounds(topics.due("a", others=frozenset("b")), topics.take, nothing) == {}
    assert topics.turns == ["a"]


def test_a_run_by_hand_waits_for_a_pipeline_that_another_run_holds() -> None:
    topics = Topics(a=10)
    topics.held = {"a"}
    assert in_rounds(topics.everything(), topics.take, nothing) == {}
    assert topics.read == {"a": 10}


@pytest.mark.parametrize("error", [BrokerAway("away"), ZeroDivisionError("a bug")])
def test_a_pipeline_that_fails_stops_no_other(error: Exception) -> None:
    topics = Topics(bad=30, good=30)

    def take(name: str) -> Turned:
        if name == "bad":
            topics.turns.append(name)
            raise error
        return topics.take(name)

    for goal in (topics.everything(), topics.due("bad", "good")):
        topics.turns.clear()
        topics.read["good"] = 0
        assert in_rounds(goal, take, nothing) == {"bad": error}
        assert topics.turns.count("bad") == 1
        assert topics.read["good"] == 30


def test_a_run_that_is_ended_stops_the_turns_that_are_being_taken() -> None:
    topics, stopped = Topics(a=10), threading.Event()

    class Ended(BaseException):
        """As Dagster ends a run: in its main thread."""

    class Goal(EverythingThere):
        def wanted(self, busy: object) -> Sequence[str]:
            if list(busy):  # pyright: ignore[reportCallIssue, reportArgumentType]
                raise Ended
            return super().wanted(())

    def take(name: str) -> Turned:
        assert stopped.wait(10)
        return topics.take(name)

    with pytest.raises(Ended):
        in_rounds(Goal(topics.look(topics.contracts)), take, stopped.set)
