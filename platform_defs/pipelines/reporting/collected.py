"""Batches that are reported to Dagster together: a run that stays commits several a second, and Dagster keeps each
event.

The ledger has each batch. If the run dies before it reports what is collected here, the next run does.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from platform_defs.engine.ports.schema_ports import summed
from platform_defs.ledger.published import Published, RowChanges


def groups(batches: Iterable[Published]) -> list[list[Published]]:
    """Return the batches in order, in the fewest groups that can be reported together: each batch begins where the one
    before it ended in every partition that both read, and has the same contract and registry.
    """
    found: list[list[Published]] = []
    at: dict[int, int] = {}
    for batch in batches:
        starts = _first(batch)
        goes_on = found and _group_key(found[-1][-1]) == _group_key(batch)
        if not goes_on or any(at.get(partition, start) != start for partition, start in starts.items()):
            found.append([])
            at = {}
        found[-1].append(batch)
        at |= _next(batch)
    return found


def together(batches: Sequence[Published]) -> Published:
    """Return a group as one batch with the last one's id: sums, and all of their ranges."""
    last, timings = batches[-1], Counter[str]()
    for batch in batches:
        timings.update(batch.timings)
    return replace(
        last,
        ranges=tuple(item for batch in batches for item in batch.ranges),
        messages=sum(batch.messages for batch in batches),
        rows=sum(batch.rows for batch in batches),
        dead_letters=sum(batch.dead_letters for batch in batches),
        unknown_fields=sum(batch.unknown_fields for batch in batches),
        checks=tuple(check for batch in batches for check in batch.checks),
        timings={step: round(seconds, 3) for step, seconds in timings.items()},
        schemas=summed(count for batch in batches for count in batch.schemas),
        skipped_records=sum(batch.skipped_records for batch in batches),
        filtered=filtered(batches),
        changes=changes(batches),
    )


def filtered(batches: Sequence[Published]) -> int | None:
    """Return how many messages were filtered in all of them; None if one of them is unknown."""
    counts = [batch.filtered for batch in batches if batch.filtered is not None]
    return sum(counts) if len(counts) == len(batches) else None


def changes(batches: Sequence[Published]) -> RowChanges | None:
    """Return what all of them have changed in the table of an upsert; None if one of them is unknown."""
    counts = [batch.changes for batch in batches if batch.changes is not None]
    return sum(counts, RowChanges(0, 0)) if len(counts) == len(batches) else None


def _group_key(batch: Published) -> tuple[str, str | None, str]:
    return batch.contract_version, batch.contract_digest, batch.registry


def _first(batch: Published) -> dict[int, int]:
    found: dict[int, int] = {}
    for item in batch.ranges:
        found[item.partition] = min(item.from_offset, found.get(item.partition, item.from_offset))
    return found


def _next(batch: Published) -> dict[int, int]:
    found: dict[int, int] = {}
    for item in batch.ranges:
        found[item.partition] = max(item.until_offset, found.get(item.partition, 0))
    return found
