"""The plan of a reassignment: its preconditions, its remaining moves, its throttles and its file."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.cluster.cli.reassign import store
from platform_defs.cluster.reassign import Kept, Record
from platform_defs.cluster.reassignment import (
    Reassignment,
    TopicPlan,
    brokers,
    differences,
    from_json,
    remaining,
    throttled_replicas,
    to_json,
    under_way,
)
from platform_defs.errors import BadInput
from platform_defs.kafka.observed import Broker, Moving, Observed, Partition
from platform_defs.topics.apply import reassignment_of
from platform_defs.topics.plan import Plan
from platform_defs.topics.steps import AddPartitions, Move, Reassign, Seen

PLAN = Reassignment(
    "c",
    (
        TopicPlan(
            "t",
            "id-of-t",
            {0: (1, 2), 1: (1, 2), 2: (1, 2)},
            {0: (3, 2), 1: (1, 3), 2: (2, 1)},
            bytes=7,
        ),
    ),
)


def seen(*replicas: tuple[int, ...], moving: tuple[Moving, ...] = ()) -> Observed:
    partitions = tuple(Partition("t", n, held[0], held, held) for n, held in enumerate(replicas))
    return Observed("c", (), partitions, None, moving=moving, topic_ids={"t": "id-of-t"})


AS_OBSERVED = seen((1, 2), (1, 2), (1, 2))


def test_a_cluster_as_it_was_observed_may_be_changed() -> None:
    assert differences(PLAN, AS_OBSERVED) == []
    assert remaining(PLAN, AS_OBSERVED) == PLAN.planned()


def test_what_an_interrupted_apply_reached_or_began_is_no_difference_and_not_begun_again() -> None:
    begun = Moving("t", 0, (3, 2, 1), adding=(3,), removing=(1,))
    now = seen((3, 2, 1), (1, 2), (2, 1), moving=(begun,))
    assert differences(PLAN, now) == []
    assert remaining(PLAN, now) == {("t", 1): (1, 3)}
    assert under_way(PLAN, now) == (begun,)


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (replace(AS_OBSERVED, cluster_id="d"), "it is for cluster c, but this is cluster d"),
        (replace(AS_OBSERVED, topic_ids={}), "topic t no longer exists"),
        (replace(AS_OBSERVED, topic_ids={"t": "new"}), "topic t was deleted and recreated"),
        (seen((1, 2), (2, 3), (1, 2)), r"t\[1\] was on brokers 1, 2 and is now on brokers 2, 3"),
        (seen((2, 1), (1, 2), (1, 2)), r"t\[0\] was on brokers 1, 2 and is now on brokers 2, 1"),
        (
            replace(AS_OBSERVED, moving=(Moving("t", 1, (2, 3, 1), (3,), (1,)),)),
            r"t\[1\] was on brokers 1, 2 and is now on brokers 2, 3",
        ),
        (
            replace(AS_OBSERVED, moving=(Moving("u", 0, (1, 2), (2,), (1,)),)),
            r"u\[0\] is being reassigned to brokers 2, which is not part of this plan",
        ),
    ],
)
def test_a_plan_that_is_out_of_date_says_what_has_changed(now: Observed, message: str) -> None:
    (difference,) = differences(PLAN, now)
    assert re.search(message, difference)


def test_only_orders_move_nothing_and_are_not_throttled() -> None:
    assert PLAN.orders() == {("t", 2): (2, 1)}
    assert (PLAN.moves, PLAN.bytes) == (2, 7)
    assert throttled_replicas(PLAN) == {"t": ("0:1,0:2,1:1,1:2", "0:3,1:3")}
    only_order = replace(PLAN.topics[0], observed={2: (1, 2)}, planned={2: (2, 1)})
    assert throttled_replicas(replace(PLAN, topics=(only_order,))) == {}


def test_a_broker_that_is_dead_cannot_be_told_and_so_is_not_throttled() -> None:
    live = (Broker(1, "a", answers=False), Broker(2, "b"), Broker(3, "c"), Broker(4, "d"))
    assert brokers(PLAN, replace(AS_OBSERVED, brokers=live)) == [2, 3]
    assert brokers(PLAN, replace(AS_OBSERVED, brokers=(Broker(2, "b", fenced=True), *live[2:]))) == [3]


def test_the_way_back_leads_to_what_was_observed() -> None:
    assert PLAN.back().planned() == PLAN.observed()
    assert differences(PLAN.back(), seen((3, 2), (1, 3), (2, 1))) == []


numbers = st.integers(0, 30)
lists = st.lists(numbers, min_size=1, max_size=4, unique=True).map(tuple)
pairs = st.dictionaries(numbers, st.tuples(lists, lists), min_size=1, max_size=5)


@given(st.dictionaries(st.text(min_size=1, max_size=8), pairs, max_size=4), st.none() | st.integers(0))
def test_a_plan_file_is_read_as_it_was_written(topics: dict[str, dict], size: int | None) -> None:
    plans = (
        TopicPlan(name, "id", {n: was for n, (was, _) in held.items()}, {n: to for n, (_, to) in held.items()}, size)
        for name, held in topics.items()
    )
    plan = Reassignment("c", tuple(plans))
    assert from_json(json.loads(json.dumps(to_json(plan))), "p.json") == plan


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (["kind"], "another", "kind"),
        (["cluster_id"], "", "cluster_id"),
        (["topics"], [], "topics"),
        (["topics", "t", "topic_id"], 7, "topics.t.topic_id"),
        (["topics", "t", "bytes"], "many", "topics.t.bytes"),
        (["topics", "t", "partitions", "x"], {}, "topics.t.partitions.x"),
        (["topics", "t", "partitions", "0", "planned"], [1, 1], "topics.t.partitions.0.planned"),
        (["topics", "t", "partitions", "0", "observed"], ["1"], "topics.t.partitions.0.observed"),
        (["topics", "t", "partitions", "0"], None, "topics.t.partitions.0"),
    ],
)
def test_a_plan_file_that_was_changed_is_refused_by_field(path: list[str], value: object, field: str) -> None:
    document = json.loads(json.dumps(to_json(PLAN)))
    place = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    with pytest.raises(BadInput) as refused:
        from_json(document, "p.json")
    assert (refused.value.file, refused.value.field) == ("p.json", field)


def test_a_file_that_is_no_plan_is_refused_in_words_of_json() -> None:
    with pytest.raises(BadInput, match=r"is no reassignment plan: Input should be a valid dictionary\. Make"):
        from_json([], "p.json")


def test_the_record_of_a_reassignment_outlives_the_process(tmp_path: Path) -> None:
    record = Record(tmp_path / "home")
    assert record.load("c") is None
    record.save(Kept(PLAN, 10, "under way"))
    assert record.load(PLAN.cluster_id) == Kept(PLAN, 10, "under way")


@pytest.mark.parametrize("text", ["", "{}", '{"plan": {"kind": "x"}}', "[]"])
def test_a_record_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "reassignment.json").write_text(text)
    with pytest.raises(BadInput, match=r"reassignment\.json"):
        Record(tmp_path).load("c")


def test_the_moves_of_a_plan_of_topics_are_a_reassignment() -> None:
    steps = (AddPartitions("t", 1, 2, ((2,),)), Reassign("t", (Move(0, (1,), (1, 2)), Move(1, (2,), (2, 3)))))
    found = reassignment_of(Plan("c", {"t": Seen("id", ((1,),), {})}, steps))
    assert found == Reassignment("c", (TopicPlan("t", "id", {0: (1,), 1: (2,)}, {0: (1, 2), 1: (2, 3)}),))
    assert reassignment_of(Plan("c", {}, ())).topics == ()


def test_a_plan_that_cannot_be_written_is_said_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "no such folder" / "plan.json"
    with pytest.raises(BadInput, match="the plan cannot be written") as wrong:
        store(to_json(PLAN), file)
    assert wrong.value.file == str(file)
