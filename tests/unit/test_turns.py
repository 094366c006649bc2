"""When a pipeline's turn ends."""

from dataclasses import replace

import pytest

from assets import find_contract
from platform_defs.engine.ports import Published
from platform_defs.offsets import OffsetRange
from platform_defs.orchestration.turns import _may_leave_more


@pytest.mark.parametrize(
    ("offsets", "more"),
    [((1,), False), ((30, 30), False), ((50, 50), True), ((50, 49), True)],  # shares of a full batch are rounded down
)
def test_only_a_full_batch_is_followed_by_another_in_the_same_turn(offsets: tuple[int, ...], more: bool) -> None:
    shipped = find_contract("web_page_views")
    contract = replace(shipped, limits=replace(shipped.limits, batch_messages=100))
    ranges = tuple(OffsetRange(contract.topic, number, 0, count) for number, count in enumerate(offsets))
    assert _may_leave_more(Published(1, contract.pipeline, ranges, 1, 1, 0, 0, (), {}), contract) is more
