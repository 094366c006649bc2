"""The planner of a reassignment: by examples, by rules that always hold, and against every possible assignment."""

from collections import Counter
from itertools import combinations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from platform_defs.cluster.levelling import level
from platform_defs.cluster.moves import OfTopic, Site, led_evenly, moved, rearranged, spread_evenly, with_factor

THREE = Site({1: "a", 2: "b", 3: "c"})
PLAIN = Site({1: None, 2: None, 3: None})


def counts(assigned: OfTopic, site: Site) -> list[int]:
    held = Counter(broker for replicas in assigned.values() for broker in replicas)
    return [held[broker] for broker in site.brokers]


def squares(numbers: list[int]) -> int:
    return sum(number * number for number in numbers)


def test_a_topic_on_two_of_three_brokers_is_moved_by_a_third_of_its_replicas() -> None:
    observed = {0: (1, 2), 1: (1, 2), 2: (1, 2)}
    planned = rearranged(observed, THREE)
    assert moved(observed, planned) == 2
    assert counts(planned, THREE) == [2, 2, 2]
    assert sorted(replicas[0] for replicas in planned.values()) == [1, 2, 3]


def test_an_even_topic_is_left_alone() -> None:
    observed = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}
    assert rearranged(observed, THREE) == observed


def test_leaders_are_evened_out_without_moving_a_byte() -> None:
    observed = {0: (1, 2, 3), 1: (1, 2, 3), 2: (1, 2, 3)}
    planned = rearranged(observed, THREE)
    assert moved(observed, planned) == 0
    assert {replicas[0] for replicas in planned.values()} == {1, 2, 3}


def test_replicas_on_one_rack_are_spread_over_two() -> None:
    site = Site({1: "a", 2: "a", 3: "b", 4: "b"})
    observed = {0: (1, 2), 1: (3, 4)}
    planned = rearranged(observed, site)
    assert all(site.spread(replicas) == 2 for replicas in planned.values())
    assert moved(observed, planned) == 2
    assert counts(planned, site) == [1, 1, 1, 1]


def test_a_broker_that_leaves_gives_all_of_its_replicas_away() -> None:
    observed = {0: (1, 2), 1: (2, 3), 2: (3, 1)}
    planned = rearranged(observed, Site({1: "a", 2: "b"}))
    assert all(set(replicas) == {1, 2} for replicas in planned.values())
    assert moved(observed, planned) == 2


def test_more_replicas_keep_those_there_are_and_add_the_least_loaded() -> None:
    observed = {0: (1,), 1: (1,), 2: (2,)}
    planned = with_factor(observed, THREE, 2)
    assert all(planned[number][:1] == observed[number] for number in observed)
    assert squares(counts(planned, THREE)) == 12
    assert with_factor(planned, THREE, 1) == observed


def test_fewer_replicas_take_away_those_that_share_a_rack_first() -> None:
    site = Site({1: "a", 2: "a", 3: "b"})
    assert with_factor({0: (1, 2, 3)}, site, 2) == {0: (1, 3)}


def test_fewer_replicas_take_away_those_of_a_broker_that_leaves_first() -> None:
    assert with_factor({0: (9, 1, 2)}, THREE, 2) == {0: (1, 2)}


def test_more_replicas_than_racks_are_as_many_on_each() -> None:
    site = Site({1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "b"})
    assert with_factor({0: (1,)}, site, 4) == {0: (1, 4, 2, 5)}


def test_of_equal_brokers_the_one_with_less_of_other_topics_is_taken() -> None:
    assert with_factor({0: (1,)}, Site(PLAIN.racks, {2: 9, 3: 4}), 2) == {0: (1, 3)}


@st.composite
def sites(draw: st.DrawFn) -> Site:
    brokers = draw(st.integers(1, 4))
    rack = st.sampled_from(("a", "b", "c"))
    named = draw(st.booleans())
    return Site({number: draw(rack) if named else None for number in range(1, brokers + 1)})


@st.composite
def topics(draw: st.DrawFn, site: Site, most: int) -> dict[int, tuple[int, ...]]:
    factor = draw(st.integers(1, len(site.brokers)))
    replicas = st.permutations(site.brokers).map(lambda order: tuple(order[:factor]))
    return dict(enumerate(draw(st.lists(replicas, min_size=1, max_size=most))))


@given(st.data())
def test_a_plan_keeps_every_rule_and_a_second_one_is_empty(data: st.DataObject) -> None:
    site = data.draw(sites())
    observed = data.draw(topics(site, 12))
    factor = len(observed[0])
    planned = rearranged(observed, site)
    racks = min(factor, site.spread(site.brokers))
    assert planned.keys() == observed.keys()
    assert all(len(set(replicas)) == len(replicas) == factor for replicas in planned.values())
    assert all(site.spread(replicas) == racks for replicas in planned.values())
    assert rearranged(planned, site) == planned


def every_assignment(partitions: int, factor: int, site: Site) -> list[tuple[frozenset[int], ...]]:
    racks = min(factor, site.spread(site.brokers))
    good = [frozenset(one) for one in combinations(site.brokers, factor) if site.spread(one) == racks]
    return list(product(good, repeat=partitions))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_no_assignment_is_more_even_and_none_as_even_moves_less(data: st.DataObject) -> None:
    site = data.draw(sites())
    observed = data.draw(topics(site, 4))
    planned = spread_evenly(observed, site)

    def cost(assigned: OfTopic) -> tuple[int, int]:
        return squares(counts(assigned, site)), moved(observed, assigned)

    every = every_assignment(len(observed), len(observed[0]), site)
    assert cost(planned) == min(cost(dict(enumerate(map(tuple, one)))) for one in every)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_no_order_of_the_replicas_has_more_even_leaders(data: st.DataObject) -> None:
    site = data.draw(sites())
    observed = data.draw(topics(site, 4))
    planned = led_evenly(observed)

    def cost(leaders: tuple[int, ...]) -> tuple[int, int]:
        changed = sum(leader != observed[number][0] for number, leader in enumerate(leaders))
        return squares(list(Counter(leaders).values())), changed

    assert {n: set(replicas) for n, replicas in planned.items()} == {n: set(r) for n, r in observed.items()}
    assert cost(tuple(r[0] for r in planned.values())) == min(map(cost, product(*observed.values())))


@given(st.data())
def test_another_replication_factor_has_that_many_replicas_on_as_many_racks_as_can_be(data: st.DataObject) -> None:
    site = data.draw(sites())
    observed = data.draw(topics(site, 8))
    wanted = data.draw(st.integers(1, len(site.brokers)))
    planned = with_factor(observed, site, wanted)
    kept = [set(planned[n]) & set(observed[n]) for n in observed]
    assert all(len(set(replicas)) == wanted for replicas in planned.values())
    assert all(len(same) == min(wanted, len(observed[0])) for same in kept)
    assert all(planned[number][0] == observed[number][0] for number in observed)


def test_a_large_topic_is_planned() -> None:
    site = Site({number: "abc"[number % 3] for number in range(1, 10)})
    observed = dict.fromkeys(range(90), (1, 2, 3))
    planned = rearranged(observed, site)
    assert counts(planned, site) == [30] * 9
    assert moved(observed, planned) == 180


def test_a_plan_asks_again_only_for_what_has_moved() -> None:
    held, counts, asked = dict.fromkeys(range(3_000), 1), Counter({1: 3_000, 2: 0, 3: 0}), Counter[int]()

    def options(number: int) -> list[tuple[int, int, int]]:
        asked[number] += 1
        return [(held[number], other, int(held[number] == 1)) for other in (1, 2, 3) if other != held[number]]

    def move(number: int, source: int, target: int) -> bool:
        held[number] = target
        return source != target

    level(counts, held, options, move, lambda broker: (0, broker))
    assert Counter(held.values()) == counts == {1: 1_000, 2: 1_000, 3: 1_000}
    assert sum(asked.values()) == 3_000 + 2_000
