"""Ids that name messages, and how long messages took."""

from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.producers.message import DeliveryCounts, Ids, Latencies, sent_before

seconds = st.lists(st.floats(1e-6, 600.0), min_size=1, max_size=200)


def test_ids_are_uuids_of_version_7_each_once_and_in_order() -> None:
    ids = Ids()
    made = [ids.new() for _ in range(2_000)]
    assert made == sorted({*made})
    read = [UUID(one.decode()) for one in made]
    assert {(one.version, one.variant) for one in read} == {(7, RFC_4122)}


def test_two_producers_make_different_ids() -> None:
    assert len({Ids().new() for _ in range(1_000)}) == 1_000


@given(seconds, st.sampled_from([0.5, 0.99, 1.0]))
def test_a_quantile_is_at_most_one_percent_above_the_true_one_and_never_below(took: list[float], share: float) -> None:
    latencies = Latencies()
    for one in took:
        latencies.add(one)
    true = next(one for n, one in enumerate(sorted(took), 1) if n >= share * len(took))
    found = latencies.milliseconds(share)
    assert found is not None
    assert true * 1_000 * (1 - 1e-9) - 0.0005 <= found <= true * 1_000 * 1.01 + 0.0005


@given(seconds, seconds)
def test_what_was_told_in_two_parts_is_what_was_told_at_once(first: list[float], second: list[float]) -> None:
    whole, one, other = DeliveryCounts(), DeliveryCounts(), DeliveryCounts()
    for part, took in ((one, first), (other, second), (whole, first + second)):
        for latency in took:
            part.latencies.add(latency)
            part.delivered += 1
            part.partitions[len(took) % 4] += 1
    one.add(other)
    assert one.delivered == whole.delivered == one.partitions.total()
    for share in (0.5, 0.99, 1.0):
        assert one.latencies.milliseconds(share) == pytest.approx(whole.latencies.milliseconds(share))


def test_without_messages_there_is_no_latency() -> None:
    assert Latencies().milliseconds(0.5) is None


def test_ids_of_one_producer_say_which_came_first_though_its_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = Ids()
    first = ids.new()
    monkeypatch.setattr("platform_defs.producers.message.time.time", lambda: 1_000.0)
    second, other = ids.new(), Ids().new()
    assert (sent_before(first, second), sent_before(second, first), sent_before(first, first)) == (True, False, False)
    assert not sent_before(first, other)
    assert not sent_before(other, first)
    assert not sent_before(b"my-order-1", b"my-order-2")
