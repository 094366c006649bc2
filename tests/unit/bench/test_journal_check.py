"""A journal compared with a log: lost, doubled, reordered, ghosts, and how long it took."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.producers.journal import KEYS, Journal
from bench.producers.journal_check import compare_with_log, quantile
from bench.producers.measured import summed_up

MS = 1_000_000  # nanoseconds


def journal_of(reported: str) -> Journal:
    """Return a journal of a message per ms, answered 5 ms later: d for delivered, f for failed, w for nothing yet."""
    journal = Journal()
    for number, what in enumerate(reported):
        assert journal.sent(number * MS) == number
        tell = {"d": journal.delivered, "f": journal.failed}.get(what)
        if tell:
            tell((number,), (number + 5) * MS)
    return journal


def test_a_log_that_holds_each_message_once_in_order_is_faultless() -> None:
    found = compare_with_log(journal_of("dddd"), [0, 1, 2, 3], fired=True)
    assert (found.sent, found.delivered, found.failed) == (4, 4, 0)
    assert (found.lost, found.doubled, found.reordered, found.ghosts) == (0, 0, 0, 0)


def test_what_was_told_delivered_and_is_not_there_is_lost() -> None:
    assert compare_with_log(journal_of("dddd"), [0, 3], fired=True).lost == 2


def test_what_was_told_failed_may_be_missing() -> None:
    found = compare_with_log(journal_of("dfw"), [0], fired=True)
    assert (found.lost, found.ghosts, found.failed, found.sent) == (0, 0, 1, 3)


def test_what_was_told_failed_and_is_there_is_a_ghost() -> None:
    assert compare_with_log(journal_of("dff"), [0, 2], fired=True).ghosts == 1


def test_a_message_that_is_there_three_times_is_one_that_was_doubled() -> None:
    found = compare_with_log(journal_of("dd"), [0, 1, 0, 0], fired=True)
    assert (found.doubled, found.reordered) == (1, 0)


def test_order_counts_within_a_key_alone() -> None:
    journal = journal_of("d" * (KEYS + 2))
    assert compare_with_log(journal, [1, 0, *range(2, KEYS + 2)], fired=True).reordered == 0
    behind = [KEYS, 0, *range(1, KEYS), KEYS + 1]
    assert compare_with_log(journal, behind, fired=True).reordered == 1


def test_the_longest_stall_is_the_longest_time_without_an_acknowledgement() -> None:
    journal = Journal()
    for number, at in enumerate((10, 12, 400, 401)):
        journal.sent(number * MS)
        journal.delivered((number,), at * MS)
    found = compare_with_log(journal, range(4), fired=True)
    assert found.longest_stall_ms == 388
    assert found.messages_per_second == pytest.approx(4 / 0.401)
    assert list(found.latencies_ms) == [10, 11, 398, 398]


def test_nothing_delivered_has_no_speed_and_no_latency() -> None:
    found = summed_up("leader", "away", [compare_with_log(journal_of("fff"), [], fired=True)])
    assert (found.messages_per_second, found.p99_ms, found.max_ms, found.longest_stall_ms) == (0, 0, 0, 0)


def test_rounds_are_summed_and_their_speed_is_the_median() -> None:
    one, other = (
        compare_with_log(journal_of("dd"), [0], fired=True),
        compare_with_log(journal_of("ddd"), [0, 1, 1], fired=False),
    )
    found = summed_up("leader", "unclean", [one, one, other])
    assert (found.rounds, found.fired, found.sent, found.lost, found.doubled) == (3, 2, 7, 3, 1)
    assert found.messages_per_second == round(one.messages_per_second)


@given(st.lists(st.sampled_from("dfw"), min_size=1, max_size=80), st.data())
def test_counts_are_those_of_a_plain_count(reported: list[str], data: st.DataObject) -> None:
    log = data.draw(st.lists(st.integers(0, len(reported) - 1), max_size=160))
    found, there = compare_with_log(journal_of("".join(reported)), log, fired=True), Counter(log)
    assert found.lost == sum(what == "d" and there[number] == 0 for number, what in enumerate(reported))
    assert found.ghosts == sum(what == "f" and there[number] > 0 for number, what in enumerate(reported))
    assert found.doubled == sum(count > 1 for count in there.values())
    firsts = list(dict.fromkeys(log))
    assert found.reordered == sum(
        any(other > number and other % KEYS == number % KEYS for other in firsts[:at])
        for at, number in enumerate(firsts)
    )


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_quantile_is_the_least_value_that_this_share_does_not_exceed(values: list[float], share: float) -> None:
    ordered = sorted(values)
    found = quantile(ordered, share)
    assert sum(value <= found for value in values) >= share * len(values)
    assert sum(value < found for value in values) < share * len(values)
