"""Batches that a run reports together, also while a database does not answer."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest
from sqlalchemy.exc import OperationalError

from platform_defs.contract.model.contract import CheckResult
from platform_defs.errors import LedgerAway
from platform_defs.ledger.published import Published
from platform_defs.offsets import OffsetRange
from platform_defs.pipelines.reporting import reporter
from platform_defs.pipelines.reporting.reporter import Reporter
from platform_defs.settings.contracts import find_contract
from platform_defs.stack.endpoints import Endpoints

CONTRACT = find_contract("web_page_views")
CHECK = CheckResult("message_decodes", CONTRACT.row_table.name, "warning", False, {"failed": 1, "messages": 10})


class Listener:
    """Dagster and the ledger, as a reporter knows them; `answers`: the ledger is there."""

    def __init__(self) -> None:
        self.events, self.told, self.answers = list[Any](), list[int](), True
        self.log = self

    def log_event(self, event: Any) -> None:
        self.events.append(event)

    def info(self, _: str) -> None:
        pass

    def warning(self, _: str) -> None:
        pass

    def positions(self, _: str) -> Sequence[Any]:
        if not self.answers:
            raise LedgerAway("away")
        return []

    def rows_so_far(self, _: str, batch_id: int) -> int:
        return 10 * batch_id

    def mark_reported(self, batch_id: int) -> None:
        if not self.answers:
            raise LedgerAway("away")
        self.told.append(batch_id)

    @property
    def messages(self) -> list[Any]:
        found = [event for event in self.events if isinstance(event, dg.AssetMaterialization)]
        return [event.metadata["messages"].value for event in found]


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Listener:
    monkeypatch.setattr(Reporter, "_tell_others", lambda _: None)
    return Listener()


def reporter_to(listener: Any) -> Reporter:
    return Reporter(listener, CONTRACT, listener, Endpoints("", ""), collects=True)


def batch(number: int) -> Published:
    ranges = (OffsetRange(CONTRACT.topic, 0, 10 * (number - 1), 10 * number),)
    return Published(number, CONTRACT.pipeline, ranges, 10, 9, 1, 0, (CHECK,), {"plan": 0.1})


def test_the_first_batch_is_reported_at_once_and_those_of_the_next_seconds_together(listener: Listener) -> None:
    one = reporter_to(listener)
    for number in range(1, 5):
        one.published(batch(number))
        one.report_collected()
    assert (listener.messages, listener.told) == ([10], [1])
    one.report_collected(at_once=True)
    assert (listener.messages, listener.told) == ([10, 30], [1, 2, 3, 4])


def test_where_many_pipelines_are_busy_each_is_reported_more_seldom(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "TOGETHER", 0.0)
    one = reporter_to(listener)
    for number in range(1, 4):
        one.published(batch(number))
        one.report_collected(every=50.0)
    assert listener.told == [1]
    one.report_collected()
    assert listener.told == [1, 2, 3]


def test_what_dagster_never_hears_is_left_to_the_next_run_and_not_kept_without_end(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "MAX_UNREPORTED", 3)
    one, listener.answers = reporter_to(listener), False
    for number in range(1, 11):
        one.published(batch(number))
        one.report_collected(at_once=True)
    listener.answers = True
    one.report_collected(at_once=True)
    assert listener.told == [8, 9, 10]


def test_a_check_that_passes_is_shown_though_dagster_did_not_hear_the_first_batch(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(_: object) -> None:
        raise OperationalError("away", None, Exception())

    one, passed = reporter_to(listener), replace(batch(1), checks=(replace(CHECK, passed=True),))
    with monkeypatch.context() as away:
        away.setattr(listener, "log_event", refuses)
        one.published(passed)
        one.report_collected()
    one.report_collected(at_once=True)
    assert [event.passed for event in listener.events if isinstance(event, dg.AssetCheckEvaluation)] == [True]


def test_what_could_not_be_reported_is_reported_later_and_counted_once(listener: Listener) -> None:
    one = reporter_to(listener)
    listener.answers = False
    one.published(batch(1))
    one.report_collected()
    assert listener.told == []
    listener.answers = True
    one.published(batch(2))
    one.report_collected(at_once=True)
    assert (listener.messages, listener.told) == ([20], [1, 2])
    (tally,) = one.tallies.values()
    assert (tally.batches, tally.failed) == (2, 2)


def test_what_dagster_has_heard_and_the_ledger_has_not_noted_is_reported_again(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = reporter_to(listener)
    with monkeypatch.context() as away:
        away.setattr(listener, "mark_reported", not_there)
        one.published(batch(1))
        one.report_collected()
    one.report_collected(at_once=True)
    assert (listener.messages, listener.told) == ([10, 10], [1])
    (tally,) = one.tallies.values()
    assert tally.batches == 1


def not_there(_: int) -> None:
    raise LedgerAway("away")
