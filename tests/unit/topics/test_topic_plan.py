"""The plan of topics: once applied it leaves nothing to do, and it changes nothing that was not declared."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from platform_defs.kafka.observed import Partition
from platform_defs.ledger.answers import Reader
from platform_defs.topics.apply import plan_staleness
from platform_defs.topics.declared import Declared
from platform_defs.topics.observed import Observed, ObservedTopic, same_value
from platform_defs.topics.placement import added, replaced, spread_over
from platform_defs.topics.plan import Plan, plan_of
from platform_defs.topics.steps import AddPartitions, Create, Reassign, SetConfig
from tests.unit.topics.topic_model import after, applied, cluster, topic

NAMES = ("a.one", "b.two", "c.three", "d.four")
VALUES = {
    "retention.ms": ["1000", "604800000", "-1", None],
    "min.insync.replicas": ["1", "2", None],
    "cleanup.policy": ["compact", "delete", "compact,delete"],
}
settings = st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in VALUES.items()})


@st.composite
def clusters(draw: st.DrawFn) -> Observed:
    """Return one to six brokers in up to three racks, with topics placed at random on them."""
    count = draw(st.integers(1, 6))
    racks: dict[int, str | None] = {n: draw(st.sampled_from(["a", "b", "c"])) for n in range(1, count + 1)}
    found = dict[str, ObservedTopic]()
    for name in draw(st.sets(st.sampled_from(NAMES))):
        factor = draw(st.integers(1, count))
        places = st.permutations(list(racks)).map(lambda order, factor=factor: tuple(order[:factor]))
        overrides = {k: v for k, v in draw(settings).items() if v is not None}
        made = topic(*draw(st.lists(places, min_size=1, max_size=5)), topic_id=f"id-of-{name}")
        found[name] = replace(made, overrides=overrides, effective={**made.effective, **overrides})
    return replace(cluster(), brokers=racks, topics=found, names=frozenset(found))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Observed, list[Declared]]:
    """Return a cluster and declarations for it that no rule refuses."""
    observed, found = draw(clusters()), list[Declared]()
    for name in sorted(draw(st.sets(st.sampled_from(NAMES), min_size=1))):
        there = observed.topics.get(name)
        least = len(there.partitions) if there else 1
        partitions = draw(st.none() | st.integers(least, least + 4))
        factor = draw(st.none() | st.integers(1, len(observed.brokers)))
        found.append(Declared(name, partitions, factor, draw(settings)))
    return observed, found


@given(worlds())
def test_after_a_plan_is_applied_nothing_is_left_to_do(world: tuple[Observed, list[Declared]]) -> None:
    observed, declared = world
    then = applied(observed, plan_of(declared, observed))
    assert plan_of(declared, then).steps == ()


@given(worlds())
def test_a_plan_keeps_every_topic_every_partition_and_what_is_not_declared(
    world: tuple[Observed, list[Declared]],
) -> None:
    observed, declared = world
    then = applied(observed, plan_of(declared, observed))
    wanted = {one.topic: one for one in declared}
    assert then.topics.keys() == observed.topics.keys() | wanted.keys()
    for name, before in observed.topics.items():
        now, says = then.topics[name], wanted.get(name, Declared(name))
        assert now.topic_id == before.topic_id
        assert len(now.partitions) == max(len(before.partitions), says.partitions or 0)
        untouched = {*before.overrides, *now.overrides} - {*says.config}
        assert all(before.overrides.get(key) == now.overrides.get(key) for key in untouched)
        if says.replication_factor is None:
            assert now.replicas[: len(before.replicas)] == before.replicas


@given(worlds())
def test_a_plan_survives_its_file_and_still_holds_wherever_it_is_interrupted(
    world: tuple[Observed, list[Declared]],
) -> None:
    observed, declared = world
    plan = plan_of(declared, observed)
    form = TypeAdapter(Plan)
    stored = form.validate_json(form.dump_json(plan))
    assert stored == plan
    assert plan_staleness(stored, observed) is None
    for step in plan.steps:
        observed = after(observed, step)
        if isinstance(step, AddPartitions) and step.replicas is None:
            return  # Kafka chose the replicas: a new plan is needed
        assert plan_staleness(stored, observed) is None
        assert set(map(repr, plan_of(declared, observed).steps)) <= set(map(repr, stored.steps))


HELD = topic((1, 2), (2, 3), topic_id="held", retention_ms="1000")
WANTED = Declared("t", partitions=4, config={"retention.ms": "2000"})


@pytest.mark.parametrize(
    ("now", "sentence"),
    [
        (replace(HELD, topic_id="other"), "deleted and recreated (its id was held and is now other)"),
        (replace(HELD, overrides={"retention.ms": "5"}), "retention.ms was 1000 and is now 5"),
        (replace(HELD, overrides={**HELD.overrides, "a": "1"}), "a was not set and is now 1"),
        (topic((1, 2), topic_id="held", retention_ms="1000"), "it had 2 partitions and now has 1"),
        (topic((1, 2), (2, 1), topic_id="held", retention_ms="1000"), "the replicas of its partitions have changed"),
        (None, "t no longer exists"),
    ],
)
def test_a_plan_holds_no_longer_once_the_topic_was_changed(now: ObservedTopic | None, sentence: str) -> None:
    plan = plan_of([WANTED], cluster(("t", HELD)))
    assert sentence in (plan_staleness(plan, cluster(*([("t", now)] if now else []))) or "")


def test_a_plan_holds_on_its_own_cluster_alone() -> None:
    plan = plan_of([WANTED], cluster(("t", HELD)))
    other = replace(cluster(("t", HELD)), cluster_id="another")
    assert plan_staleness(plan, other) == "the plan was made on cluster cluster-1, but this is cluster another"


def test_a_topic_that_came_to_be_otherwise_than_planned_ends_the_plan() -> None:
    plan = plan_of([WANTED], cluster())
    assert plan_staleness(plan, cluster(("t", topic((1,), retention_ms="2000")))) is not None
    made = cluster(("t", topic((1,), (2,), (3,), (1,), retention_ms="2000")))
    assert plan_staleness(plan, made) is None


def test_a_new_leader_or_a_replica_out_of_sync_is_no_change_of_a_topic() -> None:
    plan = plan_of([WANTED], cluster(("t", HELD)))
    failed = replace(HELD, partitions=(Partition("t", 0, 2, (1, 2), (2,)), *HELD.partitions[1:]))
    assert plan_staleness(plan, cluster(("t", failed))) is None


def test_steps_come_in_the_order_create_configs_partitions_reassign() -> None:
    declared = [Declared("b", 3, 3, {"retention.ms": "1"}), Declared("a", 1)]
    plan = plan_of(declared, cluster(("b", topic((1,)))))
    assert [type(step) for step in plan.steps] == [Create, SetConfig, AddPartitions, Reassign]


def test_a_setting_declared_as_null_takes_the_override_away() -> None:
    declared = Declared("t", config={"retention.ms": None})
    then = applied(cluster(("t", HELD)), plan_of([declared], cluster(("t", HELD))))
    assert then.topics["t"].overrides == {}


@pytest.mark.parametrize(
    ("readers", "config", "created"),
    [
        (("append",), {}, {}),
        (("upsert",), {}, {"cleanup.policy": "compact"}),
        (("upsert", "upsert"), {"retention.ms": "1"}, {"cleanup.policy": "compact", "retention.ms": "1"}),
        (("upsert", "append"), {}, {}),
        (("upsert",), {"cleanup.policy": "delete"}, {"cleanup.policy": "delete"}),
        (("upsert",), {"cleanup.policy": None}, {}),
        ((), {}, {}),
    ],
)
def test_a_topic_that_only_upserts_read_is_created_compacted(
    readers: tuple[Any, ...], config: dict[str, str | None], created: dict[str, str]
) -> None:
    declared = Declared("t", config=config, readers=tuple(Reader(f"p{n}", one) for n, one in enumerate(readers)))
    assert plan_of([declared], cluster()).steps == (Create("t", config=created),)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("0.5", "0.50", True),
        ("0.1", "0.10000000000000001", True),
        ("snan", "1", False),
        ("1000", "1e3", True),
        ("TRUE", "true", True),
        ("compact, delete", "compact,delete", True),
        ("9223372036854775807", "9223372036854775806", False),
        ("lz4", "LZ4", False),
        (None, "1", False),
        (None, None, True),
    ],
)
def test_values_are_compared_as_kafka_reads_them(one: str | None, other: str | None, same: bool) -> None:
    assert same_value(one, other) is same


@given(st.integers(1, 6), st.integers(1, 5), st.data())
def test_replicas_are_distinct_of_the_factor_asked_and_in_as_many_racks_as_there_can_be(
    brokers: int, partitions: int, data: st.DataObject
) -> None:
    racks: dict[int, str | None] = {n: data.draw(st.sampled_from(["a", "b", "c"])) for n in range(1, brokers + 1)}
    before, factor = (data.draw(st.integers(1, brokers)) for _ in range(2))
    current = added([], partitions, before, racks)
    wanted = replaced(current, factor, racks)
    for old, new in zip(current, wanted, strict=True):
        assert len(set(new)) == len(new) == factor
        assert spread_over(new, racks)
        assert new[0] == old[0]  # the preferred leader stays
    assert replaced(wanted, factor, racks) == wanted


def test_a_replica_on_a_broker_that_is_gone_goes_first_when_there_are_fewer() -> None:
    assert replaced([(9, 1, 2)], 2, {1: "a", 2: "b"}) == [(1, 2)]


def test_replicas_of_a_broker_that_is_away_stay_where_they_are() -> None:
    assert replaced([(1, 9), (1, 2)], 2, {1: "a", 2: "a", 3: "b"}) == [(1, 9), (1, 3)]


def test_more_partitions_while_fewer_brokers_live_than_replicas_are_left_to_kafka() -> None:
    observed = replace(
        cluster(), brokers={1: "a", 2: "b"}, topics={"a.one": topic((1, 2, 3))}, names=frozenset({"a.one"})
    )
    first, *_ = plan_of([Declared("a.one", 2, 2)], observed).steps
    assert first == AddPartitions("a.one", 1, 2, None)
