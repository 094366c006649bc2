"""Batches that are reported to Dagster together: a run that stays commits several a second, and Dagster keeps each
event.

The ledger has each batch. If the run dies before it reports what is collected here, the next run does.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter

from platform_defs.engine.interfaces.schema_finder import summed
from platform_defs.ledger.published import Published, RowChanges
from platform_defs.offsets import whole_spans

KEY = attrgetter("contract_version", "contract_digest", "registry")  # alike in all batches of a group


def groups(batches: Iterable[Published]) -> list[list[Published]]:
    """Return the batches in order, in the fewest groups that can be reported together: each batch begins where the one
    before it ended in every partition that both read, and has the same contract and registry.
    """
    found: list[list[Published]] = []
    at: dict[int, int] = {}
    for batch in batches:
        spans = whole_spans(batch.ranges)
        goes_on = found and KEY(found[-1][-1]) == KEY(batch)
        if not goes_on or any(at.get(span.partition, span.from_offset) != span.from_offset for span in spans):
            found.append([])
            at = {}
        found[-1].append(batch)
        at |= {span.partition: span.until_offset for span in spans}
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
