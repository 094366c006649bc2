"""The ranges of pruned batches: adjacent ones are merged into one.

`tidegate verify` checks for each read offset that the ledger has it, and if the broker ever delivered it. It subtracts
lost history by batch: only ranges with the same lost history are merged.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

MAX_SPANS = 10_000  # gaps in one row, so that adding to it stays quick: a transactional topic has one each transaction


@dataclass(frozen=True)
class PrunedRange:
    """Offsets [from_offset, until_offset) of a partition of a log, read by batches `first_batch` to `last_batch`."""

    topic: str
    topic_id: str
    partition: int
    from_offset: int
    until_offset: int
    messages: int
    spans: int  # its number of gaps; they stay in Postgres, since there may be as many as messages
    first_batch: int
    last_batch: int
    added_after: int  # the last batch whose gaps it has; those of later ones must be added

    @property
    def place(self) -> tuple[str, str, int]:
        """Its partition and log."""
        return self.topic, self.topic_id, self.partition


def put_together(
    there: Iterable[PrunedRange], pruned: Iterable[PrunedRange], lost_after: Sequence[int]
) -> list[PrunedRange]:
    """Return the ranges to write for `pruned`, which come in the order of their batches.

    A range that continues one of `there` gets its first offset and first batch.

    `lost_after`, ascending: the batches up to which history has been recorded as lost.
    """
    newest = {item.place: item for item in there}
    found: dict[tuple[str, str, int, int, int], PrunedRange] = {}
    for item in pruned:
        before = newest.get(item.place)
        joined = item if before is None or not _continues(before, item, lost_after) else _joined(before, item)
        newest[item.place] = joined
        found[*joined.place, joined.first_batch, joined.from_offset] = joined
    return list(found.values())


def _continues(before: PrunedRange, item: PrunedRange, lost_after: Sequence[int]) -> bool:
    same = bisect_left(lost_after, before.last_batch) == bisect_left(lost_after, item.last_batch)
    return same and before.until_offset == item.from_offset and before.spans + item.spans <= MAX_SPANS


def _joined(before: PrunedRange, item: PrunedRange) -> PrunedRange:
    return replace(
        before,
        until_offset=item.until_offset,
        messages=before.messages + item.messages,
        spans=before.spans + item.spans,
        last_batch=item.last_batch,
    )
