"""Messages of one topic, read without a consumer group: nothing is committed, and nothing is written anywhere."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice

from platform_defs.engine.task.decoding import BlockDecoder
from platform_defs.errors import BadInput, BrokerAway, TidegateError
from platform_defs.errors.words import noun_for
from platform_defs.formats.blocks.arrow import integers
from platform_defs.kafka.broker import offsets_at
from platform_defs.kafka.client.rights import Right
from platform_defs.kafka.descriptions import KafkaPartitions
from platform_defs.kafka.observed import Partition, check_partitions
from platform_defs.kafka.source import READING, KafkaSource
from platform_defs.messages.chosen_topic import ChosenTopic
from platform_defs.messages.peek_filter import PeekFilter
from platform_defs.messages.peeked_message import PeekedMessage
from platform_defs.offsets import OffsetRange, PartitionView
from platform_defs.stack.endpoints import ledger_if_any, registry_if_any

POLL = 0.5  # seconds between two queries for new messages
PARTITIONS_KNOWN = 30.0  # seconds after which a follower queries added partitions
MAX_NAMED = 8  # partitions in one sentence
PART = 200_000  # offsets that are read at once, from all partitions together
FEW = 1_000  # messages of a partition; for up to this many, little more is fetched
_FETCH_LITTLE: Mapping[str, int] = {"queued.min.messages": 1, "max.partition.fetch.bytes": 65_536}
Note = Callable[[str], None]


@dataclass(frozen=True)
class Start:
    """The start of reading; at most one field is given. Without any: the first message of each partition."""

    offset: int | None = None
    at_ms: int | None = None  # since the epoch: at the first message of this time or later
    last: int | None = None  # so many messages before the end of each partition


@dataclass
class Peek:
    """A reader of messages that `selected` matches. `options` are librdkafka's; `note` gets sentences for the user.

    Messages of open or aborted transactions are not read. Messages of one partition are in the order of their offsets,
    those of several in the order of their timestamps within a turn (`turns`).
    """

    options: Mapping[str, str] = field(repr=False)  # they may contain a password
    selected: PeekFilter
    start: Start
    note: Note
    partitions: Sequence[int] = ()  # none: all
    limit: int | None = None  # messages to return
    read: int = 0  # messages read
    returned: int = 0
    position: dict[int, int] = field(default_factory=dict[int, int])  # by partition, the next offset to read

    @property
    def topic(self) -> str:
        return self.selected.chosen.topic

    def messages(self) -> Iterator[PeekedMessage]:
        """Yield messages up to the current ends of the partitions.

        Raises BadInput for a topic, partition or offset that does not exist; BrokerAway.
        """
        held = self._held(self._described())
        self.position = self._starts(held, follows=False)
        yield from self._up_to({number: held[number] for number in self.position})

    def follow(self) -> Iterator[PeekedMessage]:
        """Yield `messages`, then new messages as they come, of added partitions too; without a start, new ones alone.

        Ends at the limit. Continues after Kafka was unavailable.
        """
        there, described_at = self._described(), time.monotonic()
        self.position = self._starts(self._held(there), follows=True)
        is_away = False
        while self.returned != self.limit:
            try:
                if time.monotonic() - described_at > PARTITIONS_KNOWN:
                    there, described_at = self._described(), time.monotonic()
                held = self._held(there)
                self._compare(held)
                yield from self._up_to(held)
                is_away = False
            except BrokerAway as error:
                if not is_away:
                    self.note(f"Trying again: {error}")
                is_away, described_at = True, 0.0
            if self.returned != self.limit:
                time.sleep(POLL)

    def _up_to(self, held: Mapping[int, PartitionView]) -> Iterator[PeekedMessage]:
        """Yield messages from the position to the ends. A turn is read before its first message is yielded, and counts
        as read after its last one.
        """
        ranges = [
            OffsetRange(self.topic, number, max(view.low, self.position.get(number, view.low)), view.end)
            for number, view in sorted(held.items())
        ]
        for parts in turns(ranges, None if self.selected.selects else self._left):
            matching = [self._matching(part) for part in parts]
            found = merge(*matching, key=lambda one: (one.timestamp_ms or 0, one.offset))
            for message in islice(found, self._left):
                self.returned += 1
                yield message
            if self._left == 0:
                return
            self.position |= {part.partition: part.until_offset for part in parts}

    def _matching(self, wanted: OffsetRange) -> list[PeekedMessage]:
        """Return matching messages of the range, by offset, up to the limit. The range is read to its end, so that its
        consumer reads the next one.
        """
        found, most = list[PeekedMessage](), self._left
        for block in self._source.read(wanted):
            self.read += len(block.values)
            if most is None or len(found) < most:
                left = None if most is None else most - len(found)
                found += self.selected.matching(wanted.partition, block, left)
        return found

    @property
    def _left(self) -> int | None:
        """The number of messages left to return; None: no limit."""
        return None if self.limit is None else self.limit - self.returned

    @property
    def _source(self) -> KafkaSource:
        wanted = self.limit or self.start.last
        few = not self.selected.selects and wanted is not None and wanted <= FEW
        return KafkaSource(self.options, own={**READING, **(_FETCH_LITTLE if few else {})})

    def _described(self) -> Sequence[Partition]:
        """Return the partitions to read. Raises TopicMissing, BadInput for one that does not exist, BrokerAway."""
        there = self._kafka.topics([self.topic], self._right).partitions
        wanted = check_partitions(self.topic, [item.number for item in there], self.partitions)
        return [item for item in there if item.number in wanted]

    def _held(self, partitions: Sequence[Partition]) -> dict[int, PartitionView]:
        """Return the offsets of each partition. Raises BrokerAway if one has no leader."""
        found = self._kafka.bounds(partitions, self._right)
        held = {number: view for number, view in found.items() if not isinstance(view, TidegateError)}
        if without := sorted(found.keys() - held.keys()):
            raise BrokerAway(no_leader(self.topic, without, sorted(found)))
        return held

    @property
    def _right(self) -> Right:
        """The right that is needed, as an error names it; Read includes Describe."""
        return Right("topic", self.topic, ("Read",))

    @property
    def _kafka(self) -> KafkaPartitions:
        return KafkaPartitions(self.options)

    def _starts(self, held: Mapping[int, PartitionView], *, follows: bool) -> dict[int, int]:
        """Return the first offset to read of each partition."""
        start = self.start
        if start.last is not None:
            return {number: self._before_end(number, view, start.last) for number, view in held.items()}
        if start.at_ms is not None:
            found = offsets_at(self.options, self.topic, start.at_ms)
            return {number: max(view.low, min(found[number], view.end)) for number, view in held.items()}
        if start.offset is not None:
            starts, others = starts_at(self.topic, held, start.offset, chosen=bool(self.partitions), follows=follows)
            if others:
                self.note(others)
            rest = {number: max(view.low, min(start.offset, view.end)) for number, view in held.items()}
            return rest | starts if follows else starts
        return {number: view.end if follows else view.low for number, view in held.items()}

    def _before_end(self, partition: int, held: PartitionView, count: int) -> int:
        """Return the offset of the message with `count - 1` messages after it. Compaction and control records leave
        gaps between offsets, so messages are counted, in parts that double in length.
        """
        begin, span, seen = held.end, count, 0
        while begin > held.low:
            end, begin = begin, max(held.low, begin - span)
            blocks = self._source.read(OffsetRange(self.topic, partition, begin, end))
            each = [block.offsets for block in blocks]
            offsets = [at for one in each for at in (one if isinstance(one, range) else integers(one))]
            if seen + len(offsets) >= count:
                return offsets[len(offsets) - (count - seen)]
            seen, span = seen + len(offsets), 2 * span
        return held.low

    def _compare(self, held: Mapping[int, PartitionView]) -> None:
        """Note offsets that were deleted before they were read. Raises BadInput if a partition ends before the
        position: its topic was created again, or its log was truncated.
        """
        for number, view in held.items():
            if (at := self.position.get(number, view.low)) < view.low:
                self.note(
                    f"{self.topic}[{number}]: offsets {at} to {view.low - 1} were deleted before they could be read"
                )
            if view.end < at:
                raise BadInput(
                    f"{self.topic}[{number}] ends at offset {view.end}, but was read up to {at}: the "
                    "topic was recreated, or its log was truncated"
                )


def filter_of(
    chosen: ChosenTopic, options: Mapping[str, str], key: str | None, where: str | None, note: Note
) -> PeekFilter:
    """Return the filter that decodes by the topic's contract: its schemas come from the ledger, if one is available,
    and from the registry. `note` gets a sentence for the user.
    """
    contract = chosen.contract
    if contract is None:
        return PeekFilter(chosen, None, key, where)
    if not contract.wire.framed:
        return PeekFilter(chosen, BlockDecoder(contract, None), key, where)
    from platform_defs.registry.schemas import readonly_schemas  # the registry's client takes its time to load

    topic_id = KafkaPartitions(options).topic_ids([chosen.topic]).get(chosen.topic)
    schemas = readonly_schemas(contract, registry_if_any(), ledger_if_any(), topic_id, note)
    return PeekFilter(chosen, BlockDecoder(contract, schemas), key, where)


def starts_at(
    topic: str, held: Mapping[int, PartitionView], offset: int, *, chosen: bool, follows: bool
) -> tuple[dict[int, int], str | None]:
    """Return the partitions that have the offset, with it; and a sentence about the others.

    `chosen`: the user named the partitions. `follows`: the end of a partition is valid too. Raises BadInput if a chosen
    partition does not have the offset, or none has it.
    """
    outside = [number for number, view in held.items() if not view.low <= offset < view.end + follows]
    if not outside:
        return dict.fromkeys(held, offset), None
    ranges = "; ".join(_range(number, held[number]) for number in outside[:MAX_NAMED])
    more = f"; and {len(outside) - MAX_NAMED} more" if len(outside) > MAX_NAMED else ""
    sentence = f"offset {offset} is not in every partition of {topic}: {ranges}{more}"
    if chosen or len(outside) == len(held):
        raise BadInput(sentence.replace("is not in every partition of", "is not in"), field="--offset")
    return {number: offset for number in held if number not in outside}, sentence


def _range(number: int, view: PartitionView) -> str:
    holds = f"offsets {view.low} to {view.end - 1}" if view.end > view.low else "no message"
    still = f" ({view.end} to {view.written - 1} belong to an open transaction)" if view.written > view.end else ""
    return f"partition {number} holds {holds}{still}"


def no_leader(topic: str, without: Sequence[int], there: Sequence[int]) -> str:
    """Return a sentence that names the partitions that cannot be read now, and the options that read the others."""
    named = ", ".join(map(str, without[:MAX_NAMED])) + (" and others" if len(without) > MAX_NAMED else "")
    message = f"{noun_for(len(without), 'partition')} {named} of {topic} cannot be read, because no leader answers"
    others = [number for number in there if number not in without]
    options = " ".join(f"--partition {number}" for number in others[:MAX_NAMED])
    return f"{message}. To read others: {options}" if others else message


def turns(ranges: Sequence[OffsetRange], first: int | None) -> Iterator[list[OffsetRange]]:
    """Yield parts of the ranges, one part of each range at a time, until all are read.

    The first parts have `first` offsets; each next part is twice as large, up to PART offsets in all.
    """
    left = [one for one in ranges if len(one)]
    size = first or PART
    while left:
        most = max(1, min(size, PART // len(left)))
        ends = [(one, min(one.until_offset, one.from_offset + most)) for one in left]
        yield [OffsetRange(one.topic, one.partition, one.from_offset, end) for one, end in ends]
        left = [
            OffsetRange(one.topic, one.partition, end, one.until_offset) for one, end in ends if end < one.until_offset
        ]
        size *= 2
