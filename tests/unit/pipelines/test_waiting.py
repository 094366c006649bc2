"""When a pipeline is due, and what the sensor's cursor keeps of all of them."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from platform_defs.contract.model.contract import Limits
from platform_defs.errors import BrokerAway
from platform_defs.ledger.answers import PipelineStatus
from platform_defs.offsets import PartitionView, Position, TopicView
from platform_defs.pipelines.scheduler.waiting import (
    Due,
    Seen,
    Waiting,
    decide,
    due,
    from_cursor,
    remember,
    still_waiting,
    to_cursor,
)
from platform_defs.settings.contracts import find_contract

LIMITS = Limits(lag_messages=100, lag_seconds=30.0)
CONTRACT = replace(find_contract("web_page_views"), limits=LIMITS)


def seen(unread: int, *, read: int = 5, status: PipelineStatus | None = None) -> Seen:
    view = TopicView(CONTRACT.topic, "cluster", "topic", {0: PartitionView(0, read + unread)})
    known = status or PipelineStatus(CONTRACT.pipeline, has_run=True)
    return Seen(CONTRACT, known, [Position(0, "cluster", "topic", read)], view)


def away() -> Seen:
    return replace(seen(0), view=BrokerAway("it does not say"))


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
    assert "the oldest unread for 30 s" in (due(3, later, LIMITS, 1030.0) or "")


def test_progress_makes_another_message_the_oldest() -> None:
    first = still_waiting(None, lag=1, read=7, now=1000.0)
    assert still_waiting(first, lag=1, read=8, now=1030.0) == Waiting(1030.0, 8)


def test_a_clock_that_goes_back_an_hour_makes_no_pipeline_wait_for_an_hour() -> None:
    first = still_waiting(None, lag=1, read=7, now=5000.0)
    after = still_waiting(first, lag=1, read=7, now=1400.0)
    assert "the oldest unread for 30 s" in (
        due(1, still_waiting(after, lag=1, read=7, now=1430.0), LIMITS, 1430.0) or ""
    )


@pytest.mark.parametrize("cursor", [None, "", "1789.3", '{"since": 1000.0, "read": 7}', "[]"])
def test_a_cursor_is_a_hint_and_may_be_missing_or_another_versions(cursor: str | None) -> None:
    assert from_cursor(cursor) == {}


def test_the_cursor_keeps_only_what_is_unread() -> None:
    waits = remember({"gone": Waiting(1.0, 1)}, [seen(3)], 1000.5)
    assert from_cursor(to_cursor(waits)) == {CONTRACT.pipeline: Waiting(1000.5, 5)}
    assert remember(waits, [seen(0, read=8)], 1001.0) == {}


def test_a_topic_that_cannot_be_seen_keeps_what_was_known_of_it() -> None:
    waits = remember({}, [seen(3)], 1000.0)
    assert remember(waits, [away()], 1010.0) == waits
    assert decide(away(), waits[CONTRACT.pipeline], 1040.0) == "it does not say"


def test_a_batch_that_was_not_reported_is_due_after_the_latency_though_nothing_is_unread() -> None:
    left = replace(seen(0), unreported=True)
    waits = remember({}, [left], 1000.0)
    assert decide(left, waits[CONTRACT.pipeline], 1029.0) == "0 unread messages; no run is due yet"
    waits = remember(waits, [left], 1031.0)
    found = decide(left, waits[CONTRACT.pipeline], 1031.0)
    assert isinstance(found, Due)
    assert (found.since, found.reason) == (1000.0, "a run ended before reporting its batches")
    assert remember(waits, [seen(0)], 1040.0) == {}


def test_a_pipeline_that_is_due_says_since_when() -> None:
    found = decide(seen(3), Waiting(1000.0, 5), 1031.0)
    assert isinstance(found, Due)
    assert (found.pipeline, found.since) == (CONTRACT.pipeline, 1000.0)


def test_what_is_halted_or_backed_off_is_not_due_whatever_its_lag() -> None:
    known = PipelineStatus(CONTRACT.pipeline, has_run=True)
    halted = replace(known, state="halted", halt_code="retention_passed")
    backed_off = replace(known, backed_off=True, retry_at=datetime(2026, 11, 1, tzinfo=UTC))
    waiting = Waiting(0.0, 5)
    assert "is halted" in str(decide(seen(500, status=halted), waiting, 1000.0))
    assert "it waits until 2026-11-01" in str(decide(seen(500, status=backed_off), waiting, 1000.0))


def test_a_log_that_was_cut_is_due_at_once_though_nothing_is_unread() -> None:
    cut = replace(seen(0), positions=[Position(0, "cluster", "topic", 9)])
    found = decide(cut, None, 1000.0)
    assert isinstance(found, Due)
    assert found.reason == "log_truncated"
