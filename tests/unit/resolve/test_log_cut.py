"""The offset where a log was cut, from the leader epochs that were read and those that it has now."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.kafka.leader_epochs import MessageEpoch
from platform_defs.ledger.answers import EpochRead
from platform_defs.offsets import PartitionView
from platform_defs.resolve.settled_log import first_changed


@dataclass(frozen=True)
class Held:
    """A log: the leader epoch of each message, from `low` on; None if there is no message."""

    epochs: Sequence[int | None]
    low: int = 0

    def at_or_after(self, partition: int, offset: int) -> MessageEpoch | None:
        assert partition == 0
        assert offset >= self.low, "not to be read any more"
        found = ((at, self.epochs[at]) for at in range(offset, len(self.epochs)))
        return next((MessageEpoch(at, epoch) for at, epoch in found if epoch is not None), None)

    @property
    def view(self) -> PartitionView:
        return PartitionView(self.low, len(self.epochs))


def cut_of(read: list[int], now: Held, ends: list[int], seen: int | None = None, led: int = 0) -> int:
    """Return the cut. `led`: the leader epoch when the ends were seen; 0: that of the messages before them."""
    ranges = [EpochRead(end, max(read[end - 1], led)) for end in ends if end > now.low]
    return first_changed(now, 0, len(read), ranges, now.view, seen)


@pytest.mark.parametrize(
    ("read", "now", "cut"),
    [
        ([0] * 6, [0] * 6 + [1] * 4, 6),  # nothing was cut
        ([0] * 6, [0] * 4 + [1] * 4, 4),
        ([0] * 6, [0] * 4, 4),  # and nothing was written since
        ([0] * 3 + [1] * 3, [0] * 3 + [1] * 2 + [2] * 9, 5),
        ([0] * 4 + [2] * 2, [0] * 3 + [1] * 2 + [3] * 4, 5),  # two unclean elections: the logs diverged at 3 already
        ([1] * 6, [2] * 9, 0),
        ([0] * 6, [0] * 3 + [None] * 2 + [1] * 4, 3),  # a control record and an aborted message
    ],
)
def test_the_cut_is_where_what_was_read_and_what_is_there_part(
    read: list[int], now: list[int | None], cut: int
) -> None:
    assert cut_of(read, Held(now), list(range(1, len(read) + 1))) == cut


def test_without_epochs_the_end_that_was_seen_tells() -> None:
    assert cut_of([0] * 6, Held([0] * 9), [], seen=4) == 4
    assert cut_of([0] * 6, Held([0] * 9), []) == 6


def test_an_end_that_was_seen_and_is_refuted_by_an_epoch_tells_nothing() -> None:
    """A lagging broker reported it: the message before the position is the one that was read."""
    assert cut_of([0] * 6, Held([0] * 9), [3, 6], seen=4) == 6
    assert cut_of([0] * 6, Held([0] * 9), [5], seen=4) == 5


def test_what_retention_has_taken_is_not_asked_for() -> None:
    assert cut_of([0] * 8, Held([*[0] * 6, *[1] * 4], low=5), [2, 4, 8]) == 6


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], int]:
    """Return what was read, what later leaders have made of it, the ends of ranges, and where the two diverge."""
    steps = st.lists(st.integers(0, 1), max_size=8)
    shared = _climb(draw(steps), 0)
    read = shared + _climb(draw(steps), max([0, *shared]))
    now = shared + _climb(draw(steps), max([0, *read]) + 1)
    ends = draw(st.sets(st.sampled_from(range(len(read))))) if read else set[int]()
    return read, now, sorted({len(read), *ends} - {0}), len(shared)


def _climb(steps: list[int], start: int) -> list[int]:
    return [start + sum(steps[: at + 1]) for at in range(len(steps))]


@given(histories(), st.booleans())
def test_where_later_leaders_wrote_on_nothing_is_read_twice_and_nothing_left_out(
    history: tuple[list[int], list[int], list[int], int], led_by_the_newest: bool
) -> None:
    read, now, ends, parted = history
    assert cut_of(read, Held(list(now)), ends, led=max(read, default=0) if led_by_the_newest else 0) == parted
