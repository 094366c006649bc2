"""When a run is due, and how long a pipeline that keeps failing waits."""

import pytest

from platform_defs.contract.model import Limits
from platform_defs.orchestration.waiting import Waiting, back_off, due, still_waiting

LIMITS = Limits(lag_messages=100, lag_seconds=30.0)


def test_nothing_unread_is_never_due() -> None:
    assert still_waiting(Waiting(0.0, 5), lag=0, read=5, now=1000.0) is None
    assert due(0, None, LIMITS, 1000.0) is None


def test_many_messages_are_due_at_once() -> None:
    assert "100 unread" in (due(100, Waiting(1000.0, 0), LIMITS, 1000.0) or "")


def test_few_messages_are_due_when_the_oldest_has_waited_long_enough() -> None:
    first = still_waiting(None, lag=1, read=7, now=1000.0)
    later = still_waiting(first, lag=3, read=7, now=1030.0)
    assert later == first
    assert due(3, later, LIMITS, 1029.0) is None
    assert "the oldest for 30 s" in (due(3, later, LIMITS, 1030.0) or "")


def test_progress_makes_another_message_the_oldest() -> None:
    first = still_waiting(None, lag=1, read=7, now=1000.0)
    assert still_waiting(first, lag=1, read=8, now=1030.0) == Waiting(1030.0, 8)


def test_a_clock_that_goes_back_an_hour_makes_nobody_wait_for_an_hour() -> None:
    first = still_waiting(None, lag=1, read=7, now=5000.0)
    after = still_waiting(first, lag=1, read=7, now=1400.0)
    assert "the oldest for 30 s" in (due(1, still_waiting(after, lag=1, read=7, now=1430.0), LIMITS, 1430.0) or "")


@pytest.mark.parametrize("cursor", [None, "", "1789.3"])
def test_a_cursor_is_a_hint_and_may_be_missing(cursor: str | None) -> None:
    assert Waiting.from_cursor(cursor) is None


def test_a_cursor_survives_being_stored() -> None:
    assert Waiting.from_cursor(Waiting(1000.5, 7).to_cursor()) == Waiting(1000.5, 7)


def test_failures_are_waited_out_longer_each_time_and_never_for_ever() -> None:
    assert [back_off(n) for n in (0, 1, 2, 3, 50)] == [0.0, 10.0, 20.0, 40.0, 300.0]
