"""Whether messages that were not delivered can be looked for in the log, and which of them are there."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from platform_defs.offsets import OffsetRange, TopicView
from platform_defs.producing.message import ID
from platform_defs.producing.unsent import LogEnds
from platform_defs.words import plural
from resources.kafka.source import KafkaSource
from resources.postgres.unsent import UnsentId, UnsentLog

Code = Literal[
    "topic_missing", "other_cluster", "topic_recreated", "retention_passed", "log_truncated", "no_id", "newer_in_log"
]
Place = tuple[int, int]  # partition and offset
SHOWN_EVERY = 5.0  # seconds between two lines of progress


@dataclass(frozen=True)
class Refusal:
    """Why messages are not sent again, in a clause for people. `may_be_lifted`: by the option that it names."""

    code: Code
    why: str
    may_be_lifted: bool = True


@dataclass(frozen=True)
class Found:
    """What the log holds behind the ends: where each id that was looked for is; by key, the time of the newest message
    that has it (ms).
    """

    places: Mapping[bytes, Place]
    newest: Mapping[bytes, int]


def refusal(log: UnsentLog, now: TopicView) -> Refusal | None:
    """Why the messages that were meant for `log` cannot be looked for in the topic as it is now; None where they can.

    The order matters: another cluster's topic is not compared further.
    """
    before = log.before
    if before.cluster_id != now.cluster_id:
        why = f"they were meant for cluster {before.cluster_id}, and this is {now.cluster_id}"
        return Refusal("other_cluster", why, may_be_lifted=False)
    if before.topic_id != now.topic_id:
        return Refusal("topic_recreated", f"topic {before.topic} was deleted and created again since then")
    if passed := sorted(p for p, held in now.partitions.items() if held.low > _end(before, p)):
        why = f"retention has deleted messages of {before.topic} that came after them (partition {passed[0]})"
        return Refusal("retention_passed", why)
    if cut := sorted(p for p, held in now.partitions.items() if held.written < _end(before, p)):
        return Refusal("log_truncated", f"the log of {before.topic} was cut back (partition {cut[0]})")
    if log.blind:
        return Refusal("no_id", "they were sent without the header tidegate-id, so they cannot be looked for")
    return None


def ranges(logs: Iterable[LogEnds], now: TopicView) -> list[OffsetRange]:
    """What has to be read to find messages of `logs`: of each partition, from the lowest end to its end now."""
    ends = [log for log in logs if log.topic_id == now.topic_id]
    starts = {p: min((_end(log, p) for log in ends), default=0) for p in now.partitions}
    return [
        OffsetRange(now.topic, p, from_offset, held.written)
        for p, held in sorted(now.partitions.items())
        if (from_offset := max(held.low, starts[p])) < held.written
    ]


def search(
    source: KafkaSource,
    now: TopicView,
    wanted: Sequence[UnsentId],
    show: Callable[[str], None],
    keys: frozenset[bytes] = frozenset(),
) -> Found:
    """Look for `wanted` in the log up to its end as `now` has it, and for newer messages of `keys`.

    Only what is committed counts, so an open transaction is waited for. Memory: what is wanted, and a block. Raises
    BrokerAway, OffsetsUnavailable.
    """
    looking = {item.tidegate_id for item in wanted}
    places, newest = dict[bytes, Place](), dict[bytes, int]()
    parts = ranges((item.log.before for item in wanted), now)
    total, read, shown_at = sum(map(len, parts)), 0, time.monotonic()
    show(f"looking through {total:,} offsets of {now.topic} for {plural(len(looking), 'message')}")
    for part in parts:
        for block in source.read(part, now.cluster_id):
            here = ((part.partition, offset) for offset in _offsets(block.offsets))
            for index, (named, place) in enumerate(zip(block.headers(ID).to_pylist(), here, strict=True)):
                if named in looking:
                    places.setdefault(named, place)
                if keys and (key := _key(block, index)) in keys:
                    newest[key] = max(newest.get(key, 0), block.message(index).timestamp()[1])
            read += len(block.values)
            if time.monotonic() - shown_at > SHOWN_EVERY:
                show(f"{read:,} of {total:,} offsets of {now.topic} looked through")
                shown_at = time.monotonic()
    return Found(places, newest)


def _key(block: Any, index: int) -> bytes:
    return block.message(index).key()


def _offsets(offsets: Any) -> Iterable[int]:
    """As Python's, of a range or of an Arrow array."""
    return offsets if isinstance(offsets, range) else offsets.to_pylist()


def _end(before: LogEnds, partition: int) -> int:
    """Where a partition ended; one that was added since had nothing."""
    return before.end_offsets[partition] if partition < len(before.end_offsets) else 0
