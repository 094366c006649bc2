"""The check of the log right before a run publishes: the ends that it read to, and their leaders."""

from dataclasses import replace
from uuid import uuid4

import pytest

from platform_defs.engine.commit.publish import read_up_to
from platform_defs.engine.interfaces.source_and_staging import Coverage
from platform_defs.engine.interfaces.staged import Staged
from platform_defs.engine.job.stage import one_attempt_each
from platform_defs.errors import LogTruncated, StagingLost
from platform_defs.offsets import OffsetRange, PendingBatch


def staged(*epochs: tuple[int | None, int | None]) -> Staged:
    """Return ranges of one partition; `epochs`: of the message before each, and of the last one in it."""
    ranges = tuple(OffsetRange("t", 0, 10 * n, 10 * n + 10, before) for n, (before, _) in enumerate(epochs))
    pending = PendingBatch(1, "cluster", "log", ranges)
    coverage = (Coverage(r, uuid4(), 10, 10, 0, 0, "", last) for r, (_, last) in zip(ranges, epochs, strict=True))
    return Staged(pending, 1, {}, tuple(coverage))


@pytest.mark.parametrize(
    ("epochs", "newest"),
    [
        ([(3, 3), (None, 4)], 4),
        ([(3, 5), (None, None)], 5),  # the last range ends with a gap
        ([(3, None)], 3),
        ([(None, None)], None),
    ],
)
def test_the_last_look_knows_the_newest_leader_that_was_read_from(
    epochs: list[tuple[int | None, int | None]], newest: int | None
) -> None:
    (at,) = read_up_to(staged(*epochs))
    assert (at.topic, at.topic_id, at.next_offset, at.leader_epoch) == ("t", "log", 10 * len(epochs), newest)


def test_messages_of_an_earlier_leader_behind_those_of_a_later_one_are_of_another_log() -> None:
    """The topic was created again within the range, whatever its metadata shows."""
    with pytest.raises(StagingLost, match="from different logs"):
        read_up_to(staged((None, 3), (None, None), (None, 0)))


def test_messages_of_a_leader_before_the_one_that_showed_the_position_are_read() -> None:
    """The messages were in a transaction that was still open when that leader was elected."""
    (at,) = read_up_to(staged((5, 4)))
    assert at.leader_epoch == 5


def planned(end_epoch: int | None, *last: int | None) -> Staged:
    """Return ranges whose batch saw its end in `end_epoch`; `last`: the leader epochs of their last messages. The
    ranges of coverage are as staging keeps them: without epochs.
    """
    read = staged(*((None, epoch) for epoch in last))
    ranges = tuple(replace(item, end_epoch=end_epoch) for item in read.pending.ranges)
    return replace(read, pending=replace(read.pending, ranges=ranges))


@pytest.mark.parametrize("last", [(3, 4), (4, 4), (4, 3), (4, None)])
def test_messages_of_a_later_leader_than_the_plan_saw_are_of_a_log_that_was_truncated(
    last: tuple[int | None, ...],
) -> None:
    with pytest.raises(LogTruncated, match=r"planned at leader epoch 3 but contains messages of leader epoch 4"):
        read_up_to(planned(3, *last))


@pytest.mark.parametrize(("end_epoch", "last"), [(4, (3, 4)), (4, (3, 3)), (4, (None, None)), (None, (3, 4))])
def test_messages_of_leaders_up_to_the_one_that_the_plan_saw_are_published(
    end_epoch: int | None, last: tuple[int | None, ...]
) -> None:
    """A clean election after the plan changes nothing below its end."""
    (at,) = read_up_to(planned(end_epoch, *last))
    assert at.leader_epoch == 4  # even if no message is from that leader


def test_attempts_that_read_the_same_range_of_two_logs_disagree() -> None:
    """The rows may be from one log, and the coverage from the other."""
    (before,) = staged((None, 3)).coverage
    after = replace(before, attempt=uuid4(), leader_epoch=4)
    with pytest.raises(StagingLost, match="disagree"):
        one_attempt_each([before.range], [before, after])
