"""Offsets: where a pipeline is, what the broker holds, and the pure decision of what to read next.

No connection is opened here. `judge` compares what the ledger and the broker say, and raises Halt where reading
would lose or repeat messages; `next_ranges` makes OffsetRanges of them; engine/planning.py puts the two together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

from platform_defs import halts
from platform_defs.errors import Halt, Retryable
from platform_defs.halts import PartitionSpan


@dataclass(frozen=True, order=True)
class OffsetRange:
    """Part of a partition, as Spark's KafkaOffsetRange: `from_offset` is included, `until_offset` is not."""

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    leader_epoch: int | None = field(default=None, compare=False)  # of the last message before it (KIP-320)
    new_leader: bool = field(default=False, compare=False)  # elected since that message: ask it whether its log has it

    def __len__(self) -> int:
        return self.until_offset - self.from_offset

    def __str__(self) -> str:
        return str(self.span)

    @property
    def span(self) -> PartitionSpan:
        """The range without its topic."""
        return PartitionSpan(self.partition, self.from_offset, self.until_offset)


@dataclass(frozen=True)
class Position:
    """Where a pipeline is in a partition: the next offset to read, never the last one read."""

    partition: int
    cluster_id: str
    topic_id: str
    next_offset: int
    leader_epoch: int | None = None
    seen_end: int | None = None  # the end to be reached before partitions added later are read (`old_before_new`)


@dataclass(frozen=True)
class PartitionView:
    """What the broker holds of a partition: the low watermark and the last stable offset (READ_COMMITTED end)."""

    low: int
    end: int
    leader_epoch: int | None = None  # grows whenever the partition gets a leader: without that no log is ever cut
    high: int | None = None  # the high watermark where it is known: beyond `end` lie transactions that are still open

    def unread(self, next_offset: int | None) -> int:
        """Offsets from `next_offset`, or without one from the low watermark, up to the last stable offset."""
        return max(0, self.end - (self.low if next_offset is None else next_offset))

    @property
    def written(self) -> int:
        """The end of all that was written, whether its transaction has ended or not."""
        return self.end if self.high is None else max(self.high, self.end)


@dataclass(frozen=True)
class TopicView:
    """A topic as the broker described it in one moment."""

    topic: str
    cluster_id: str
    topic_id: str
    partitions: Mapping[int, PartitionView]
    compacted: bool = False


@dataclass(frozen=True)
class PendingBatch:
    """A batch whose offsets are fixed. It is read again, unchanged, until it commits or is dropped on purpose."""

    batch_id: int
    cluster_id: str
    topic_id: str
    ranges: tuple[OffsetRange, ...]
    dead_letters_accepted: bool = False  # by a person, with `tidegate ack`: however many there are

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "PendingBatch":
        ranges = tuple(OffsetRange(**item) for item in stored["ranges"])
        accepted = stored.get("dead_letters_accepted", False)
        return cls(stored["batch_id"], stored["cluster_id"], stored["topic_id"], ranges, accepted)


def nth_offset(ranges: Sequence[OffsetRange], number: int) -> OffsetRange:
    """The offset at place `number` (from 0) of `ranges`, in their order, as a range of its own. Raises IndexError."""
    for item in ranges:
        if number < len(item):
            offset = item.from_offset + number
            return OffsetRange(item.topic, item.partition, offset, offset + 1)
        number -= len(item)
    raise IndexError(number)


def whole_spans(ranges: Sequence[OffsetRange]) -> list[PartitionSpan]:
    """What `ranges` are of each partition, from the first offset to the last. Raises Retryable where one is missing in
    between, or in two ranges: nothing is to be committed then.
    """
    spans: dict[int, PartitionSpan] = {}
    for item in sorted(ranges):
        before = spans.get(item.partition, PartitionSpan(item.partition, item.from_offset, item.from_offset))
        if before.until_offset != item.from_offset:
            raise Retryable(
                f"the planned ranges of partition {item.partition} do not continue at {before.until_offset}"
            )
        spans[item.partition] = replace(before, until_offset=item.until_offset)
    return list(spans.values())


def lag(positions: Sequence[Position], view: TopicView) -> dict[int, int]:
    """Unread offsets by partition, up to the last stable offset; a partition without a position counts from its low."""
    known = {item.partition: item.next_offset for item in positions}
    return {p: held.unread(known.get(p)) for p, held in sorted(view.partitions.items())}


def first_positions(positions: Sequence[Position], view: TopicView) -> list[Position]:
    """Positions for the partitions that have none.

    A pipeline's first batch starts at the low watermark. A partition added later starts at 0, so that nothing written
    to it before we looked is lost.
    """
    known = {item.partition for item in positions}
    new = sorted(set(view.partitions) - known)
    return [Position(p, view.cluster_id, view.topic_id, 0 if known else view.partitions[p].low) for p in new]


def note_ends(positions: Sequence[Position], view: TopicView) -> list[Position]:
    """`positions` as they are once partitions are added: an upsert reads each up to where it ends now before it reads
    those, open transactions included: the same one may write a key's newer value to a new partition.

    While others are still drained for partitions added earlier, those that wait for it keep waiting.
    """
    draining = _draining(positions, view)
    return [
        (
            item
            if draining and item.seen_end is None
            else replace(item, seen_end=max(item.seen_end or 0, view.partitions[item.partition].written))
        )
        for item in positions
    ]


def old_before_new(positions: Sequence[Position], view: TopicView) -> list[Position]:
    """The positions to read from in an upsert: keys move when partitions are added, so the old ones are drained first.

    Drained is what has reached the end that it had when the new ones were first seen (`seen_end`), not the current end:
    under steady traffic that is never reached. The new ones, which have no such end yet, wait for that.
    """
    draining = _draining(positions, view)
    return [item for item in positions if not draining or item.seen_end is not None]


def _draining(positions: Sequence[Position], view: TopicView) -> bool:
    """Whether a partition is yet to reach its noted end, or the end of the log where that was cut meanwhile."""
    ends = {item.partition: min(item.seen_end or 0, view.partitions[item.partition].written) for item in positions}
    return any(item.next_offset < ends[item.partition] for item in positions)


def judge(pipeline: str, positions: Sequence[Position], view: TopicView) -> None:
    """Raise Halt where continuing from `positions` would lose or repeat messages; do nothing otherwise."""
    _same_log(pipeline, positions, view)
    missing = [item.partition for item in positions if item.partition not in view.partitions]
    if missing:
        spelled = ", ".join(map(str, missing))
        seen = f"the broker no longer has partition {spelled} of {view.topic}, which was read."
        raise Halt(pipeline, halts.PartitionMissing(tuple(missing)), seen)
    present = [(item, view.partitions[item.partition]) for item in positions]
    passed = tuple(
        PartitionSpan(at.partition, at.next_offset, held.low) for at, held in present if held.low > at.next_offset
    )
    if passed:
        seen = f"messages of {view.topic} were deleted before they were read: {spell(passed)}."
        raise Halt(pipeline, halts.RetentionPassed(passed), seen)
    cut = tuple(
        PartitionSpan(at.partition, held.end, at.next_offset) for at, held in present if held.end < at.next_offset
    )
    if cut:
        seen = f"{view.topic} now ends below what was already read: {spell(cut)}."
        raise Halt(pipeline, halts.LogCut(cut), seen)


def next_ranges(
    positions: Sequence[Position], view: TopicView, *, batch_messages: int, tasks: int
) -> tuple[OffsetRange, ...]:
    """The next batch: at most `batch_messages` offsets, shared among the partitions by their lag, in split ranges.

    A range is split so that about `tasks` of equal size come out of a large batch; a small one stays whole, since a
    task costs more than a few thousand messages. Empty when everything is read. `judge` has been asked before.
    """
    behind = {p: n for p, n in lag(positions, view).items() if n}
    at = {item.partition: item for item in positions}
    total = sum(behind[p] for p in behind if p in at)
    ranges: list[OffsetRange] = []
    for partition in (p for p in behind if p in at):
        share = behind[partition] if total <= batch_messages else max(1, batch_messages * behind[partition] // total)
        start = at[partition]
        whole = OffsetRange(view.topic, partition, start.next_offset, start.next_offset + share, start.leader_epoch)
        ranges += split(whole, max(MESSAGES_WORTH_A_TASK, -(-min(total, batch_messages) // tasks)))
    return tuple(ranges)


MESSAGES_WORTH_A_TASK = 20_000


def split(whole: OffsetRange, largest: int) -> list[OffsetRange]:
    """`whole` in consecutive parts of nearly equal size, none larger than `largest` offsets.

    Only the first part keeps the leader epoch: it is the epoch of the message just before it.
    """
    parts = -(-len(whole) // largest)
    cuts = [whole.from_offset + len(whole) * i // parts for i in range(parts + 1)]
    return [
        OffsetRange(whole.topic, whole.partition, start, until, whole.leader_epoch if i == 0 else None)
        for i, (start, until) in enumerate(pairwise(cuts))
    ]


def tasks_for(ranges: Sequence[OffsetRange]) -> int:
    """How many tasks read these ranges. Small ones share a task, which costs as much CPU as thousands of messages."""
    return min(len(ranges), -(-sum(map(len, ranges)) // MESSAGES_WORTH_A_TASK))


def mark_new_leaders(ranges: Sequence[OffsetRange], view: TopicView) -> tuple[OffsetRange, ...]:
    """`ranges`, marked where the partition got a leader since the message before them was written."""
    return tuple(
        replace(item, new_leader=item.leader_epoch not in (None, view.partitions[item.partition].leader_epoch))
        for item in ranges
    )


def still_readable(pipeline: str, pending: PendingBatch, view: TopicView) -> None:
    """Raise Halt unless the log still is the one that `pending` was planned on and still holds its ranges.

    Asked when a pending batch is taken up again, and once more right before publish: a consumer whose topic is deleted
    and created again in mid-range continues with the new one's messages, and no error says so.
    """
    log = pending.cluster_id, pending.topic_id
    judge(pipeline, [Position(s.partition, *log, s.from_offset) for s in whole_spans(pending.ranges)], view)
    ends = {number: held.end for number, held in view.partitions.items()}
    cut = tuple(
        PartitionSpan(item.partition, ends[item.partition], item.until_offset)
        for item in pending.ranges
        if ends[item.partition] < item.until_offset
    )
    if cut:
        raise Halt(pipeline, halts.LogCut(cut), f"{view.topic} now ends below a planned batch: {spell(cut)}.")


def _same_log(pipeline: str, positions: Sequence[Position], view: TopicView) -> None:
    for item in positions:
        if item.cluster_id != view.cluster_id:
            seen = f"it has read from cluster {item.cluster_id}, and these brokers belong to cluster {view.cluster_id}."
            raise Halt(pipeline, halts.ClusterSwitched(item.cluster_id, view.cluster_id), seen)
        if item.topic_id != view.topic_id:
            seen = f"{view.topic} was deleted and created again (its id was {item.topic_id}, now {view.topic_id})."
            raise Halt(pipeline, halts.TopicRecreated(item.topic_id, view.topic_id), seen)


def spell(ranges: Iterable[PartitionSpan | OffsetRange]) -> str:
    """Ranges as people write them: partition 0 [5, 9), partition 1 [0, 3)."""
    return ", ".join(map(str, ranges))
