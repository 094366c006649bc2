"""What a task records about the range that it read."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from platform_defs.engine.task import _Tally
from platform_defs.formats.block import message_blocks
from platform_defs.offsets import OffsetRange


@dataclass(frozen=True)
class Delivered:
    """A message with nothing in it but where it was in the log."""

    at: int

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return b"{}"

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 0, 0

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return None

    def leader_epoch(self) -> int | None:
        return 5


def covered(until: int, offsets: Sequence[int]) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    """The leader epoch and the gaps in the coverage of [90, until) after `offsets` were delivered."""
    tally = _Tally(OffsetRange("topic", 0, 90, until, leader_epoch=4))
    for block in message_blocks([Delivered(at) for at in offsets]):
        tally.add(block, len(offsets), 0, 0)
    coverage = tally.coverage(uuid4())
    return coverage.leader_epoch, coverage.gaps


def test_the_epoch_of_the_last_message_is_kept_where_it_is_right_before_the_next_range() -> None:
    assert covered(100, range(90, 100)) == (5, ())


def test_no_epoch_is_kept_behind_a_control_record_whose_own_may_be_later() -> None:
    assert covered(101, range(90, 100)) == (None, ((100, 101),))
    assert covered(100, range(90, 90)) == (None, ((90, 100),))


def test_offsets_that_were_never_delivered_are_gaps() -> None:
    assert covered(100, [90, 91, 95, 99]) == (5, ((92, 95), (96, 99)))
