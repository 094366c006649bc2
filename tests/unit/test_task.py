"""What a task says of the range that it read."""

from uuid import uuid4

from platform_defs.engine.ports import Block
from platform_defs.engine.task import _Tally
from platform_defs.offsets import OffsetRange


class Delivered:
    """As much of a message as is counted."""

    def leader_epoch(self) -> int:
        return 5


def told(until: int, offsets: range) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    """The leader epoch and the gaps that a coverage of [90, until) tells after `offsets` were delivered."""
    tally = _Tally(OffsetRange("topic", 0, 90, until, leader_epoch=4))
    tally.add(Block([Delivered() for _ in offsets], offsets), len(offsets), 0, 0)  # pyright: ignore[reportArgumentType]
    coverage = tally.coverage(uuid4())
    return coverage.leader_epoch, coverage.gaps


def test_the_epoch_of_the_last_message_is_told_where_it_stands_right_before_the_next_range() -> None:
    assert told(100, range(90, 100)) == (5, ())


def test_no_epoch_is_told_behind_a_control_record_whose_own_may_be_later() -> None:
    assert told(101, range(90, 100)) == (None, ((100, 101),))
    assert told(100, range(90, 90)) == (None, ((90, 100),))
