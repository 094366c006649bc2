"""A run that stays for pipelines with a latency of a few seconds, and when the sensor starts one."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import pytest

from platform_defs.contract.model.contract import CONTINUOUS_BELOW, Contract, Limits
from platform_defs.errors import BadInput, BrokerAway, Fenced, LedgerAway, PipelineHeld
from platform_defs.kafka.topic_views import KafkaTopics
from platform_defs.ledger.answers import PipelineState, PipelineStatus
from platform_defs.ledger.published import Published
from platform_defs.offsets import OffsetRange, PartitionView, Position, TopicView, whole_spans
from platform_defs.pipelines.reporting.collected import groups, together
from platform_defs.pipelines.scheduler import continuous
from platform_defs.pipelines.scheduler.continuous import (
    Continuous,
    Place,
    RunBudget,
    SchedulerInputs,
    in_small_batches,
    poll_interval,
)
from platform_defs.pipelines.scheduler.handover import SHIFT
from platform_defs.pipelines.scheduler.rounds import in_rounds
from platform_defs.pipelines.scheduler.run_policy import OtherRuns, Turned
from platform_defs.pipelines.scheduler.waiting import Seen
from platform_defs.settings.contracts import find_contract, find_pipeline

pytestmark = pytest.mark.long


PAGE_VIEWS = find_contract("web_page_views")
NOW = 10_000.0


class Topics:
    """Topics of one partition. A turn reads ten messages at most, and begins with `before`. The run is superseded once
    everything is read, unless `stays`.
    """

    def __init__(self, before: Callable[[str], None] | None = None, *, stays: bool = False, **ends: int) -> None:
        self.before, self.stays = before or (lambda _: None), stays
        self.ends, self.read = dict(ends), dict.fromkeys(ends, 0)
        self.held, self.halted, self.suspects = set[str](), set[str](), set[str]()
        self.turns, self.asked, self.unreported = list[str](), list[str](), set[str]()
        self.looks = self.polls = 0
        self.memory, self.spark_has_ended = 1e9, False
        self.away: Exception | None = None
        self.lock = threading.Lock()

    def run(self, max_turns: int = 1, budget: RunBudget | None = None, age: float = 0.0) -> Mapping[str, Exception]:
        policy = self.policy(budget, age)
        return in_rounds(policy, self, max_turns, policy.poll_seconds)

    def policy(self, budget: RunBudget | None = None, age: float = 0.0) -> Continuous:
        around = SchedulerInputs(
            self.look,
            self.last_offsets,
            self.others,
            lambda: self.unreported,
            lambda: self.memory,
            self.asked.append,
            self.over,
        )
        return Continuous(self.contracts, around, budget or RunBudget(), age)

    @property
    def contracts(self) -> list[Contract]:
        limits = Limits(lag_seconds=0.5)
        return [replace(PAGE_VIEWS, pipeline=name, topic=name, limits=limits) for name in self.ends]

    def look(self, contracts: Sequence[Contract]) -> list[Seen]:
        self.looks += 1
        if self.away is not None:
            raise self.away
        return [self._seen(contract) for contract in contracts]

    def last_offsets(self, places: Iterable[Place]) -> Mapping[Place, int]:
        self.polls += 1
        return {(topic, partition): self.ends[topic] for topic, partition in places}

    def others(self) -> OtherRuns:
        return OtherRuns(superseded=not self.stays and self.read == self.ends)

    def take(self, name: str) -> Turned:
        self.before(name)
        with self.lock:
            self.turns.append(name)
            before = self.read[name]
            self.read[name] = min(self.ends[name], before + 10)
            return Turned(int(self.read[name] > before), {0: self.read[name]})

    def alone(self, name: str) -> bool:
        return name in self.suspects

    def over(self) -> bool:
        return self.spark_has_ended

    def stop(self) -> None:
        pass

    def _seen(self, contract: Contract) -> Seen:
        name = contract.pipeline
        view = TopicView(name, "cluster", "topic", {0: PartitionView(0, self.ends[name])})
        state: PipelineState = "halted" if name in self.halted else "active"
        status = PipelineStatus(name, has_run=True, held=name in self.held, state=state)
        return Seen(contract, status, [Position(0, "cluster", "topic", self.read[name])], view)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FULL_POLL_SECONDS", "HELD", "RETRY", "FENCED"):
        monkeypatch.setattr(continuous, name, 0.2)


def test_a_backlog_does_not_keep_a_message_of_another_topic_waiting() -> None:
    topics = Topics(large=1_000, small=10)
    assert topics.run() == {}
    assert topics.turns.index("small") <= 1
    assert topics.read == topics.ends


def test_those_that_have_waited_longest_for_a_turn_come_first() -> None:
    topics = Topics(a=30, b=30, c=30)
    assert topics.run() == {}
    assert [sorted(topics.turns[n : n + 3]) for n in (0, 3, 6)] == [["a", "b", "c"]] * 3


def test_a_message_is_noticed_between_two_looks_by_a_question_for_the_ends_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(continuous, "FULL_POLL_SECONDS", 3_600.0)
    topics = Topics(stays=True, a=0)
    policy = topics.policy()
    threading.Timer(0.3, topics.ends.update, [{"a": 1}]).start()
    assert policy.wanted(()) == ["a"]
    assert (topics.looks, topics.polls > 1) == (1, True)


def test_a_question_for_the_ends_that_no_broker_answers_says_so() -> None:
    with pytest.raises(BrokerAway, match="did not answer within 1 s"):
        KafkaTopics({"bootstrap.servers": "127.0.0.1:1"}, timeout=1).ends([("topic", 0), ("topic", 1)])


def test_what_was_read_in_a_turn_is_not_unread_at_the_next_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuous, "FULL_POLL_SECONDS", 3_600.0)
    topics = Topics(stays=True, a=5, b=5)
    policy = topics.policy()
    assert sorted(policy.wanted(())) == ["a", "b"]
    policy.turned("a", topics.take("a"))
    assert policy.wanted(["b"]) == []
    assert topics.polls == 1


def test_what_an_earlier_run_left_unreported_gets_one_turn_though_nothing_is_unread() -> None:
    class Later(Topics):
        def others(self) -> OtherRuns:
            self.ends["b"] = int(self.looks > 4)
            return OtherRuns()

    topics = Later(a=0, b=0)
    topics.unreported = {"a", "of another run's"}
    policy = topics.policy()
    assert policy.wanted(()) == ["a"]
    assert policy.failed("a", PipelineHeld("another run has it")) is False
    assert policy.wanted(()) == ["a"]
    policy.turned("a", topics.take("a"))
    assert policy.wanted(()) == ["b"]


def test_what_is_unread_goes_before_what_is_unreported() -> None:
    topics = Topics(stays=True, a=0, b=5)
    topics.unreported = {"a"}
    policy = topics.policy()
    assert policy.wanted(()) == ["b"]
    policy.turned("b", topics.take("b"))
    assert not policy.others_waiting()
    assert policy.wanted(()) == ["a"]


@pytest.mark.parametrize("hinders", ["held", "halted"])
def test_a_pipeline_that_may_have_no_turn_hinders_no_other_and_has_one_once_it_may(hinders: str) -> None:
    topics = Topics(a=10, b=30)
    getattr(topics, hinders).add("a")
    threading.Timer(0.5, getattr(topics, hinders).discard, ["a"]).start()
    assert topics.run() == {}
    assert topics.turns == ["b", "b", "b", "a"]


@pytest.mark.parametrize("error", [Fenced("taken"), PipelineHeld("held"), ZeroDivisionError("a bug")])
def test_a_turn_that_fails_ends_neither_the_run_nor_the_others(error: Exception) -> None:
    errors = {"bad": error}

    def fails_once(name: str) -> None:
        if name in errors:
            raise errors.pop(name)

    topics = Topics(fails_once, bad=10, good=30)
    assert topics.run() == {}
    assert topics.read == topics.ends


def test_a_pipeline_that_fails_at_once_each_time_is_tried_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuous, "RETRY", 0.1)
    monkeypatch.setattr(continuous, "MAX_RETRY", 60.0)
    tries = list[str]()

    def fails(name: str) -> None:
        if name == "bad":
            tries.append(name)
            raise BadInput("the table lacks a column")

    topics = Topics(fails, stays=True, bad=10, good=30)
    failures = topics.run(age=SHIFT - 2.0)
    assert failures.keys() == {"bad"}
    assert topics.read["good"] == 30
    assert len(tries) <= 5  # after 0.1, 0.2, 0.4 and 0.8 seconds


def test_a_pipeline_that_went_well_again_is_tried_again_soon_when_it_fails() -> None:
    policy = Topics(stays=True, a=1).policy()
    for _ in range(20):
        policy.failed("a", ZeroDivisionError("a bug"))
    assert policy.rests("a") > 10.0
    policy.turned("a", Turned(1, {0: 1}))
    policy.failed("a", ZeroDivisionError("a bug"))
    assert policy.rests("a") <= continuous.RETRY
    policy.failed("a", LedgerAway("away"))
    assert policy.rests("a") <= continuous.RETRY  # no fault of the pipeline's


def test_a_look_that_takes_long_puts_no_question_for_the_ends_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuous, "FULL_POLL_SECONDS", 3_600.0)
    topics = Topics(stays=True, a=0)
    before = topics.look
    monkeypatch.setattr(topics, "look", lambda contracts: (threading.Event().wait(0.5), before(contracts))[1])
    policy = topics.policy()
    threading.Timer(0.6, topics.ends.update, [{"a": 1}]).start()
    began = time.monotonic()
    assert policy.wanted(()) == ["a"]
    assert time.monotonic() - began < 2.0


def test_a_pipeline_that_is_held_for_long_does_not_have_all_looked_at_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(continuous, "FULL_POLL_SECONDS", 3_600.0)
    topics = Topics(stays=True, a=10, b=0)
    topics.held.add("a")
    before = topics.look
    monkeypatch.setattr(topics, "look", lambda contracts: (threading.Event().wait(0.3), before(contracts))[1])
    topics.run(age=SHIFT - 2.0)
    assert topics.looks == 1


def test_what_failed_last_is_what_the_run_fails_with_and_a_take_over_is_no_failure() -> None:
    topics = Topics(stays=True, a=1)
    policy = topics.policy()
    assert policy.failed("a", BrokerAway("away"))
    assert not policy.failed("a", Fenced("by a command"))
    assert not policy.failed("a", PipelineHeld("by a run"))


@pytest.mark.slow
@pytest.mark.parametrize("away", [LedgerAway("away"), BrokerAway("away")])
def test_systems_that_are_away_for_a_while_are_waited_for(away: Exception) -> None:
    topics = Topics(a=10)
    topics.away = away
    threading.Timer(1.2, setattr, [topics, "away", None]).start()
    assert topics.run() == {}
    assert topics.read == {"a": 10}


def test_systems_that_stay_away_end_the_run_and_first_the_turns_that_are_being_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(continuous, "AWAY", -1.0)
    topics = Topics(a=10)
    topics.away = LedgerAway("away")
    assert topics.policy().wanted(["a"]) == []
    with pytest.raises(LedgerAway):
        topics.policy().wanted(())


def test_a_run_whose_spark_ends_while_nothing_is_unread_does_not_wait_for_a_message_to_notice() -> None:
    topics = Topics(stays=True, a=0)
    threading.Timer(0.3, setattr, [topics, "spark_has_ended", True]).start()
    assert topics.run(age=SHIFT - 5.0) == {}
    assert topics.looks < 15  # of 25 to the end of its shift


def test_a_run_ends_with_its_shift_though_something_is_unread() -> None:
    topics = Topics(stays=True, a=10)
    assert topics.run(age=SHIFT + 1) == {}
    assert topics.read == {"a": 0}


def test_a_run_whose_budget_is_spent_asks_once_for_another_and_works_until_that_is_there() -> None:
    topics = Topics(a=50)
    assert topics.run(budget=RunBudget(batches=1)) == {}
    assert topics.read == {"a": 50}
    assert len(topics.asked) <= 1
    policy = (stays := Topics(stays=True, a=50)).policy(RunBudget(batches=0))
    for _ in range(2):
        policy.wanted(())
        policy.failed("a", PipelineHeld("look again"))
    assert stays.asked == ["it has published 0 batches"]


def test_memory_is_a_reason_once_it_has_doubled_and_grown_by_a_gigabyte() -> None:
    budget = RunBudget()
    assert budget.spent(1, None, 9e9) is None
    assert budget.spent(1, 2e9, 3.9e9) is None
    assert budget.spent(1, 0.5e9, 1.4e9) is None
    assert budget.spent(1, 2e9, 4.1e9) == "its memory use grew from 2,000 MB to 4,100 MB"


def test_memory_is_compared_with_what_the_run_needed_in_its_fifth_minute() -> None:
    topics = Topics(stays=True, a=1)
    policy = topics.policy(age=301.0)
    policy.wanted(())
    topics.memory = 3e9
    policy.failed("a", PipelineHeld("look again"))
    threading.Timer(0.3, topics.ends.update, [{"a": 2}]).start()
    policy.wanted(())
    assert topics.asked == ["its memory use grew from 1,000 MB to 3,000 MB"]


def test_the_broker_is_asked_ten_times_within_the_shortest_latency_within_bounds() -> None:
    def every(*latencies: float) -> float:
        return poll_interval([replace(PAGE_VIEWS, limits=Limits(lag_seconds=item)) for item in latencies])

    assert [every(2.0, 1.0), every(0.001), every(4.9)] == [0.1, continuous.SHORTEST, continuous.LONGEST]


def test_a_batch_of_a_backlog_is_small_and_the_contract_is_otherwise_the_same() -> None:
    pipeline = find_pipeline("web_page_views")
    small = in_small_batches(pipeline)
    assert small.contract.limits.batch_messages == continuous.BATCH
    assert replace(small.contract, limits=pipeline.contract.limits) == pipeline.contract


def test_a_contract_is_served_by_a_run_that_stays_where_its_latency_is_below_five_seconds() -> None:
    assert CONTINUOUS_BELOW == 5.0
    assert [Limits(lag_seconds=item).continuous for item in (0.5, 4.9, 5.0, 30.0)] == [True, True, False, False]


# Reports of several batches


def batch(number: int, first: int, until: int, version: str = "1") -> Published:
    ranges = (OffsetRange("t", 0, first, until),)
    return Published(
        number, "p", ranges, until - first, until - first, 1, 0, (), {"plan": 0.1}, contract_version=version
    )


def test_batches_are_reported_as_one_with_the_sums_and_the_last_id() -> None:
    (group,) = groups([batch(1, 0, 10), batch(2, 10, 25)])
    found = together(group)
    assert (found.batch_id, found.messages, found.dead_letters, found.timings) == (2, 25, 2, {"plan": 0.2})
    (span,) = whole_spans(found.ranges)
    assert (span.from_offset, span.until_offset) == (0, 25)


def test_batches_between_which_another_run_has_read_or_the_contract_changed_are_reported_apart() -> None:
    assert [len(item) for item in groups([batch(1, 0, 10), batch(3, 15, 20), batch(4, 20, 21)])] == [1, 2]
    assert [len(item) for item in groups([batch(1, 0, 10), batch(2, 10, 20, "2")])] == [1, 1]
    assert groups([]) == []
