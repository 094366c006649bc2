"""The search for undelivered messages in the log."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from platform_defs.errors.words import plural
from platform_defs.formats.blocks.arrow import integers
from platform_defs.kafka.source import KafkaSource
from platform_defs.offsets import OffsetRange, TopicView
from platform_defs.producers.message import ID, sent_before
from platform_defs.producers.undelivered import LogEnds
from platform_defs.producers.unsent.ledger import UnsentId, UnsentLog

Code = Literal[
    "topic_missing",
    "other_cluster",
    "topic_recreated",
    "retention_passed",
    "log_truncated",
    "no_id",
    "newer_in_log",
    "newer_gone",
    "tombstone_gone",
]
Place = tuple[int, int]  # partition and offset
SHOWN_EVERY = 5.0  # seconds between two lines of progress


@dataclass(frozen=True)
class Refusal:
    """The reason why messages are not sent again, as a clause. `may_be_lifted`: an option overrides it."""

    code: Code
    why: str
    may_be_lifted: bool = True


def refusal(log: UnsentLog, now: TopicView) -> Refusal | None:
    """Return why messages meant for `log` cannot be searched for in the current topic; None if they can.

    The order matters: another cluster's topic is not compared further.
    """
    before = log.before
    if before.cluster_id != now.cluster_id:
        why = f"they were meant for cluster {before.cluster_id}, but this is {now.cluster_id}"
        return Refusal("other_cluster", why, may_be_lifted=False)
    if before.topic_id != now.topic_id:
        return Refusal("topic_recreated", f"topic {before.topic} was deleted and created again since then")
    if passed := sorted(p for p, held in now.partitions.items() if held.low > _end(before, p)):
        why = f"retention has deleted messages of {before.topic} that came after them (partition {passed[0]})"
        return Refusal("retention_passed", why)
    if cut := sorted(p for p, held in now.partitions.items() if held.written < _end(before, p)):
        return Refusal("log_truncated", f"the log of {before.topic} was truncated (partition {cut[0]})")
    if log.blind:
        return Refusal("no_id", "they were sent without the header tidegate-id, so they cannot be found in the log")
    return None


def ranges(logs: Iterable[LogEnds], now: TopicView) -> list[OffsetRange]:
    """Return the ranges to read to find messages of `logs`, and newer ones of their keys: of each partition, from the
    lowest end to its current end; all of it if one was meant for a topic that was created again since.
    """
    every = [*logs]
    starts = {p: min(_end(log, p) if log.topic_id == now.topic_id else 0 for log in every) for p in now.partitions}
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
    keys: Mapping[UUID, bytes],
) -> tuple[Mapping[bytes, Place], set[UUID]]:
    """Search for `wanted` in the log up to its end in `now`, and for newer messages of the `keys` of some of them.
    Return the place of each id that was found, and the messages (by `unsent_id`) that would overwrite one of their key
    that may be newer.

    Only committed messages count, so an open transaction is waited for. Memory: `wanted`, and a block. Raises
    BrokerAway, OffsetsUnavailable.
    """
    looking = {item.tidegate_id for item in wanted}
    places, of_key, overwriting = dict[bytes, Place](), defaultdict[bytes, list[UnsentId]](list), set[UUID]()
    for item in wanted:
        if item.unsent_id in keys:
            of_key[keys[item.unsent_id]].append(item)
    parts = ranges((item.log.before for item in wanted), now)
    total, read, shown_at = sum(map(len, parts)), 0, time.monotonic()
    show(f"searching {plural(total, 'offset')} of {now.topic} for {plural(len(looking), 'message')}")
    for part in parts:
        for block in source.read(part, now.cluster_id):
            offsets = block.offsets if isinstance(block.offsets, range) else integers(block.offsets)
            here = ((part.partition, offset) for offset in offsets)
            for index, (named, place) in enumerate(zip(block.headers(ID).to_pylist(), here, strict=True)):
                if named in looking:
                    places.setdefault(named, place)
                key = block.message(index).key() if of_key else None
                if key is not None and (older := of_key.get(key)):
                    overtaken = {item.unsent_id for item in older if _may_be_newer(named, place, item, now.topic_id)}
                    overwriting |= overtaken
                    older[:] = [item for item in older if item.unsent_id not in overtaken]
            read += len(block.values)
            if time.monotonic() - shown_at > SHOWN_EVERY:
                show(f"searched {read:,} of {plural(total, 'offset')} of {now.topic}")
                shown_at = time.monotonic()
    return places, overwriting


def _may_be_newer(named: bytes | None, place: Place, item: UnsentId, topic_id: str) -> bool:
    """Return False if the message at `place`, which has the item's key, is known to be older than the item: it is
    before the log's ends of the item's first try, or the same producer sent it earlier. Times are not compared: each is
    from its own machine's clock.
    """
    partition, offset = place
    if item.log.before.topic_id == topic_id and offset < _end(item.log.before, partition):
        return False
    return named is None or (named != item.tidegate_id and not sent_before(named, item.tidegate_id))


def _end(before: LogEnds, partition: int) -> int:
    """Return the end of a partition; 0 for one that was added since."""
    return before.end_offsets[partition] if partition < len(before.end_offsets) else 0
