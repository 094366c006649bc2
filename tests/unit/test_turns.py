"""When a pipeline's turn ends, and when it has its turn alone."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from assets import find_contract
from platform_defs.engine.ports import Published
from platform_defs.errors import LedgerAway
from platform_defs.offsets import OffsetRange
from platform_defs.orchestration import turns
from platform_defs.orchestration.turns import ALONE, ALONE_FOR, Turns, _may_leave_more
from resources.endpoints import Endpoints


@pytest.mark.parametrize(
    ("offsets", "more"),
    [((1,), False), ((30, 30), False), ((50, 50), True), ((50, 49), True)],  # shares of a full batch are rounded down
)
def test_only_a_full_batch_is_followed_by_another_in_the_same_turn(offsets: tuple[int, ...], more: bool) -> None:
    shipped = find_contract("web_page_views")
    contract = replace(shipped, limits=replace(shipped.limits, batch_messages=100))
    ranges = tuple(OffsetRange(contract.topic, number, 0, count) for number, count in enumerate(offsets))
    assert _may_leave_more(Published(1, contract.pipeline, ranges, 1, 1, 0, 0, (), {}), contract) is more


def test_a_batch_that_has_failed_often_is_tried_alone_though_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    failures, clock = iter([0, ALONE - 1, ALONE, ALONE, ALONE]), iter([10.0, 9.0 + ALONE_FOR, 10.0 + ALONE_FOR])
    context: Any = None
    monkeypatch.setattr(turns.time, "monotonic", lambda: next(clock))
    counting: Any = _Counting(failures)
    taken = Turns(context, [], Endpoints("", ""), counting, context)
    assert [taken.alone("a") for _ in range(5)] == [False, False, True, True, False]
    assert not taken.alone("a"), "Postgres is away: its turn says so"


class _Counting:
    def __init__(self, failures: Iterator[int]) -> None:
        self._failures = failures

    def batch_failures(self, _: str) -> int:
        try:
            return next(self._failures)
        except StopIteration:
            raise LedgerAway("away") from None
