"""The ranges of offsets that `tidegate peek` reads."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from platform_defs.errors import BadInput
from platform_defs.errors.words import noun_for
from platform_defs.offsets import OffsetRange, PartitionView

MAX_NAMED = 8  # partitions in one sentence
PART = 200_000  # offsets that are read at once, from all partitions together


@dataclass(frozen=True)
class Start:
    """The start of reading; at most one field is given. Without any: the first message of each partition."""

    offset: int | None = None
    at_ms: int | None = None  # since the epoch: at the first message of this time or later
    last: int | None = None  # so many messages before the end of each partition


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
