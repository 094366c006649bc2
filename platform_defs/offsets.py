"""Offsets: a pipeline's positions, the broker's log, and the pure decision of what to read next.

No connection is opened here. `check_positions` compares the ledger's and the broker's state, and raises Halt if
reading would lose or repeat messages; `next_ranges` makes OffsetRanges from them; engine/plan/planning.py combines the
two.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

from platform_defs.contract.model.dead_letter_window import NONE_YET, Recent
from platform_defs.errors import BrokerAway, Halt, Retryable, halts
from platform_defs.errors.halts import PartitionSpan

READING = "tidegate.reading"  # the logger on which verify names each range before and after it is read


@dataclass(frozen=True, order=True)
class OffsetRange:
    """Part of a partition, as Spark's KafkaOffsetRange: `from_offset` is included, `until_offset` is not."""

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    leader_epoch: int | None = field(default=None, compare=False)  # in which the log was seen to reach `from_offset`
    new_leader: bool = field(default=False, compare=False)  # elected since then: ask it whether its log reaches there
    end_epoch: int | None = field(default=None, compare=False)  # in which the log was seen to reach `until_offset`

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
    """The position of a pipeline in a partition: the next offset to read, never the last one read.

    `leader_epoch` is that of a leader whose log reached `next_offset` (KIP-320). It is not the last message's: control
    records and gaps of later epochs may be between.
    """

    partition: int
    cluster_id: str
    topic_id: str
    next_offset: int
    leader_epoch: int | None = None
    seen_end: int | None = None  # the end to be reached before partitions added later are read (`old_before_new`)
    topic: str | None = None  # of the position; None: the requested topic


@dataclass(frozen=True)
class PartitionView:
    """The broker's state of a partition: the low watermark and the last stable offset (READ_COMMITTED end)."""

    low: int
    end: int
    leader_epoch: int | None = None  # of the leader of `end`; grows with each new one, and only a new one cuts a log
    high: int | None = None  # the high watermark if known: transactions beyond `end` are still open

    def unread(self, next_offset: int | None) -> int:
        """Return how many offsets from `next_offset`, or else all, the log still has up to the last stable offset."""
        return max(0, self.end - max(self.low, next_offset or 0))

    def deleted(self, next_offset: int | None) -> int:
        """Return how many offsets from `next_offset` on were deleted: those below the low watermark."""
        return 0 if next_offset is None else max(0, self.low - next_offset)

    @property
    def written(self) -> int:
        """The end of all that was written, including open transactions."""
        return self.end if self.high is None else max(self.high, self.end)


@dataclass(frozen=True)
class TopicView:
    """A topic as the broker described it at one moment."""

    topic: str
    cluster_id: str
    topic_id: str
    partitions: Mapping[int, PartitionView]
    compacted: bool = False
    tombstone_seconds: float | None = None  # for which a compacted topic keeps tombstones, at least


@dataclass(frozen=True)
class Suspect:
    """A message that seems to make its batch fail: its place, its error, and since when (Unix time, by the database's
    clock; None until it is in the ledger).
    """

    partition: int
    offset: int
    error: str
    since: float | None = None

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


@dataclass(frozen=True)
class Rest:
    """The rest of a batch that was split, a range for each partition: the next batches, of about so many messages."""

    messages: int
    ranges: tuple[OffsetRange, ...]


@dataclass(frozen=True)
class PendingBatch:
    """A batch whose offsets are fixed. It is read again, unchanged, until it commits or is dropped on purpose."""

    batch_id: int
    cluster_id: str
    topic_id: str
    ranges: tuple[OffsetRange, ...]
    dead_letters_accepted: bool = False  # by a person, with `tidegate resolve`: however many there are
    checks_accepted: tuple[str, ...] = ()  # by a person: blocking checks that may fail, by name
    set_aside: str | None = None  # by a person: why every message of it becomes a dead letter
    suspects: tuple[Suspect, ...] = ()  # found by the last try that got so far
    recent: Recent = field(default=NONE_YET, compare=False)  # the messages before it; kept in a column of its own
    without_schemas: bool = False  # by a person: messages whose schema the registry does not give become dead letters
    rest: Rest | None = None  # of a batch that a person has split: read once this part has committed

    @property
    def every_range(self) -> tuple[OffsetRange, ...]:
        """Its ranges, and those of its rest: all that was planned and not yet committed."""
        return (*self.ranges, *(self.rest.ranges if self.rest else ()))

    @property
    def end_epochs(self) -> dict[int, int | None]:
        """By partition, the epoch of the leader that reported the end of the batch."""
        return {item.partition: item.end_epoch for item in self.ranges}

    def to_json(self) -> dict[str, Any]:
        document = asdict(self)
        del document["recent"]
        return document

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], recent: Recent = NONE_YET) -> "PendingBatch":
        return cls(
            stored["batch_id"],
            stored["cluster_id"],
            stored["topic_id"],
            tuple(OffsetRange(**item) for item in stored["ranges"]),
            stored.get("dead_letters_accepted", False),
            tuple(stored.get("checks_accepted", ())),
            stored.get("set_aside"),
            tuple(Suspect(**item) for item in stored.get("suspects", ())),
            recent,
            stored.get("without_schemas", False),
            (rest := stored.get("rest"))
            and Rest(rest["messages"], tuple(OffsetRange(**one) for one in rest["ranges"])),
        )

    @property
    def resolved_by_user(self) -> bool:
        """True if a person has decided to keep its dead letters, however many there are."""
        return self.dead_letters_accepted or self.set_aside is not None

    def position(self, item: OffsetRange) -> Position:
        """Return the position from which `item` of this batch is read."""
        log = self.cluster_id, self.topic_id
        return Position(item.partition, *log, item.from_offset, item.leader_epoch, topic=item.topic)


def nth_offset(ranges: Sequence[OffsetRange], number: int) -> OffsetRange:
    """Return the offset at place `number` (from 0) of `ranges`, in their order, as a range of its own. Raises
    IndexError.
    """
    for item in ranges:
        if number < len(item):
            offset = item.from_offset + number
            return OffsetRange(item.topic, item.partition, offset, offset + 1)
        number -= len(item)
    raise IndexError(number)


def whole_spans(ranges: Sequence[OffsetRange]) -> list[PartitionSpan]:
    """Return the span of `ranges` in each partition, from the first offset to the last. Raises Retryable if an offset
    is missing in between, or in two ranges: then nothing may be committed.
    """
    spans: dict[int, PartitionSpan] = {}
    for item in sorted(ranges):
        before = spans.get(item.partition, PartitionSpan(item.partition, item.from_offset, item.from_offset))
        if before.until_offset != item.from_offset:
            raise Retryable(
                f"the planned ranges of partition {item.partition} have a gap or an overlap at {before.until_offset}"
            )
        spans[item.partition] = replace(before, until_offset=item.until_offset)
    return list(spans.values())


def lag(positions: Sequence[Position], view: TopicView) -> dict[int, int]:
    """Return unread offsets by partition, up to the last stable offset; a partition without a position counts from its
    low.
    """
    known = {item.partition: item.next_offset for item in positions}
    return {p: held.unread(known.get(p)) for p, held in sorted(view.partitions.items())}


def outdated(read: Sequence[Position], view: TopicView) -> str | None:
    """Return why `view` is a stale answer; None if it is not. Within one topic id Kafka removes no partition, and no
    leader epoch goes back (KIP-320).
    """
    same_log = [at for at in read if (at.cluster_id, at.topic_id) == (view.cluster_id, view.topic_id)]
    for at in same_log:
        held = view.partitions.get(at.partition)
        if held is None:
            return f"it has no partition {at.partition} of {view.topic}, which was read"
        if at.leader_epoch is not None and held.leader_epoch is not None and held.leader_epoch < at.leader_epoch:
            read_of = f"messages of leader epoch {at.leader_epoch} were read"
            return f"it has leader epoch {held.leader_epoch} for partition {at.partition}, but {read_of}"
    return None


def check_positions(pipeline: str, positions: Sequence[Position], view: TopicView) -> None:
    """Raise Halt if continuing from `positions` would lose or repeat messages; do nothing otherwise.

    Raises BrokerAway if `view` is stale: it does not show the current log.
    """
    _is_the_log(pipeline, positions, view)
    lows = {number: held.low for number, held in view.partitions.items()}
    passed = tuple(
        PartitionSpan(at.partition, at.next_offset, lows[at.partition])
        for at in positions
        if lows[at.partition] > at.next_offset
    )
    if passed:
        seen = f"messages of {view.topic} were deleted before they were read: {spell(passed)}."
        raise Halt(pipeline, halts.RetentionPassed(passed), seen)
    _is_not_cut(pipeline, positions, view)


def halt_for_log(
    pipeline: str, positions: Sequence[Position], pending: PendingBatch | None, view: TopicView
) -> Halt | None:
    """Return the halt that the log causes by itself, whatever else has halted the pipeline: `positions` or the ranges
    of `pending` can no longer be read. None if they can. Raises BrokerAway if `view` is stale.
    """
    try:
        check_positions(pipeline, positions, view)
        if pending is not None:
            still_readable(pipeline, pending, view)
    except Halt as halt:
        return halt
    return None


def still_there(pipeline: str, read: Sequence[Position], view: TopicView) -> None:
    """Raise Halt if the log is not the one that was `read`, or ends below; BrokerAway if `view` is stale.

    The messages that were read are not needed any more: the log may begin anywhere.
    """
    _is_the_log(pipeline, read, view)
    _is_not_cut(pipeline, read, view)


def next_ranges(
    positions: Sequence[Position], view: TopicView, *, batch_messages: int, tasks: int
) -> tuple[OffsetRange, ...]:
    """Return the next batch: at most `batch_messages` offsets, shared among the partitions by their lag, in split
    ranges.

    A large batch is split into about `tasks` ranges of equal size; a small one stays whole, since a task costs more
    than a few thousand messages. Empty if everything is read. Call `check_positions` before.
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
RANGES_WORTH_A_TASK = 64


def split(whole: OffsetRange, largest: int) -> list[OffsetRange]:
    """Return `whole` in consecutive parts of nearly equal size, none larger than `largest` offsets.

    Only the first part keeps the leader epoch: it belongs to the offset at which `whole` starts.
    """
    parts = -(-len(whole) // largest)
    cuts = [whole.from_offset + len(whole) * i // parts for i in range(parts + 1)]
    return [
        OffsetRange(whole.topic, whole.partition, start, until, whole.leader_epoch if i == 0 else None)
        for i, (start, until) in enumerate(pairwise(cuts))
    ]


def tasks_for(ranges: Sequence[OffsetRange]) -> int:
    """Return how many tasks read these ranges. Small ranges share a task, which costs as much CPU as thousands of
    messages; but each range takes 10 ms to begin, which tasks spend at the same time.
    """
    messages = sum(map(len, ranges))
    return min(len(ranges), max(-(-messages // MESSAGES_WORTH_A_TASK), -(-len(ranges) // RANGES_WORTH_A_TASK)))


def mark_new_leaders(ranges: Sequence[OffsetRange], view: TopicView) -> tuple[OffsetRange, ...]:
    """Return `ranges`, with the epoch of the leader that reported their ends, and marked if it is a new one.

    All of such a leader's log was written in its epoch or before, and a leader that cuts that log has a later one. So
    this epoch, kept with the position, shows a cut below it, whatever is there: messages, control records or gaps. If
    the log is truncated between the plan and the end of the read, and a message shows it, the batch is planned again
    before anything is published (`read_up_to`, engine/commit/publish.py). Otherwise the next batch halts.
    """
    now = {item.partition: view.partitions[item.partition].leader_epoch for item in ranges}
    return tuple(
        replace(
            item,
            new_leader=item.leader_epoch not in (None, now[item.partition]),
            end_epoch=now[item.partition],
        )
        for item in ranges
    )


def still_readable(pipeline: str, pending: PendingBatch, view: TopicView) -> None:
    """Raise Halt unless the log is still the one that `pending` was planned on and still has its ranges, and those of
    its rest.

    Called when a pending batch is taken up again.
    """
    first = {item.partition: item for item in sorted(pending.every_range, reverse=True)}
    check_positions(pipeline, [pending.position(item) for item in first.values()], view)
    ends = {number: held.end for number, held in view.partitions.items()}
    planned = {item.partition: item.until_offset for item in sorted(pending.every_range)}
    cut = tuple(PartitionSpan(p, ends[p], until) for p, until in planned.items() if ends[p] < until)
    if cut:
        raise Halt(pipeline, halts.LogCut(cut), f"{view.topic} now ends below a planned batch: {spell(cut)}.")


def _is_the_log(pipeline: str, read: Sequence[Position], view: TopicView) -> None:
    _same_topic(pipeline, read, view)
    _same_log(pipeline, read, view)
    if why := outdated(read, view):
        raise BrokerAway(f"Kafka's metadata of {view.topic} is stale: {why}.")


def _is_not_cut(pipeline: str, read: Sequence[Position], view: TopicView) -> None:
    ends = {number: held.end for number, held in view.partitions.items()}
    cut = tuple(
        PartitionSpan(at.partition, ends[at.partition], at.next_offset)
        for at in read
        if ends[at.partition] < at.next_offset
    )
    if cut:
        raise Halt(pipeline, halts.LogCut(cut), f"{view.topic} now ends below what was already read: {spell(cut)}.")


def _same_topic(pipeline: str, read: Sequence[Position], view: TopicView) -> None:
    was = next((at.topic for at in read if at.topic not in (None, view.topic)), None)
    if was is not None:
        seen = f"it has read topic {was}, but its contract now names {view.topic}."
        raise Halt(pipeline, halts.TopicChanged(was, view.topic), seen)


def _same_log(pipeline: str, positions: Sequence[Position], view: TopicView) -> None:
    for item in positions:
        if item.cluster_id != view.cluster_id:
            seen = f"it has read from cluster {item.cluster_id}, but these brokers belong to cluster {view.cluster_id}."
            raise Halt(pipeline, halts.ClusterSwitched(item.cluster_id, view.cluster_id), seen)
        if item.topic_id != view.topic_id:
            seen = f"{view.topic} was deleted and created again (its id was {item.topic_id}, now {view.topic_id})."
            raise Halt(pipeline, halts.TopicRecreated(item.topic_id, view.topic_id), seen)


def spell(ranges: Iterable[PartitionSpan | OffsetRange]) -> str:
    """Return ranges as text: partition 0 [5, 9), partition 1 [0, 3)."""
    return ", ".join(map(str, ranges))
