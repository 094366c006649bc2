"""The obsolete part of a pipeline's ledger: counted (`execute=False`), or also removed, in the same steps.

    older than the contract's retention                      removed
    checks that passed, lineage events                       at once; checks are summed up
    batches, their ranges, failed checks, schemas named      once the log has none of their messages
    dead letters that a user settled                         once the log does not have their messages
    messages of producers that were settled (unsent)         at once; summed up

An open dead letter and its batch are never removed. A removed batch leaves the offsets that it read
(`put_together`): `verify` has the same result afterwards, and `replay` refuses the same starts.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from platform_defs.contract.model.contract import Contract
from platform_defs.engine.interfaces import crash_points
from platform_defs.errors import LedgerMissing, TidegateError
from platform_defs.errors.words import plural
from platform_defs.ledger.migrations import reading
from platform_defs.offsets import TopicView
from platform_defs.postgres.connection import connect
from platform_defs.prune.ledger import PruneLedger, SettledLetter

Describe = Callable[[str], TopicView]
MAX_SPANS = 10_000  # gaps in one row, so that adding to it stays quick: a transactional topic has one each transaction
PLURALS = {"batch": "batches"}
_BATCHES = ("batch", "batches")
KEPT = {  # the reasons for keeping something older than the retention, in words
    "held": (_BATCHES, "whose messages the topic still has"),
    "unknown": (_BATCHES, "whose messages the topic may still have"),
    "dead_letters": (_BATCHES, "with dead letters"),
    "unreported": (_BATCHES, "not yet reported to Dagster"),
    "newest": (_BATCHES, "among the newest, or the last for a partition or schema"),
    "replay": (_BATCHES, "because a replay is being built (tidegate replay shows it, puts it in place or discards it)"),
    "settled_letters": (("resolved dead letter", "resolved dead letters"), "whose messages the topic may still have"),
}


@dataclass(frozen=True)
class Pruned:
    """The counts of what was removed, or would be, and of what is kept although older than the retention, by reason."""

    pipeline: str
    retention_seconds: float
    executed: bool
    batches: int = 0
    checks: int = 0
    lineage_events: int = 0
    lineage_never_sent: int = 0  # of lineage_events
    dead_letters: int = 0
    unsent: int = 0
    kept: Mapping[str, int] = field(default_factory=dict[str, int])
    log_unknown: str | None = None  # why the topic's remaining messages are not known

    @property
    def counts(self) -> dict[str, int]:
        """The counts of what is removed, by noun."""
        return {
            "batch": self.batches,
            "passed check": self.checks,
            "lineage event": self.lineage_events,
            "resolved dead letter": self.dead_letters,
            "sent or discarded message": self.unsent,
        }

    @property
    def any(self) -> bool:
        """True if there is anything to remove."""
        return any(self.counts.values())

    def sentence(self) -> str:
        """Return a sentence about what was removed, and what was kept and why."""
        gone = [plural(count, name, PLURALS.get(name, f"{name}s")) for name, count in self.counts.items() if count]
        message = f"{'removed' if self.executed else 'would remove'} {', '.join(gone) or 'nothing'}"
        if self.lineage_never_sent:
            message += f" ({self.lineage_never_sent:,} of the lineage events were never sent)"
        kept = [f"{plural(count, *KEPT[why][0])} {KEPT[why][1]}" for why, count in self.kept.items()]
        message += f"; kept: {'; '.join(kept)}" if kept else ""
        return f"{message}. {self.log_unknown}" if self.log_unknown else f"{message}."


def prune(url: str, contract: Contract, describe: Describe, *, execute: bool) -> Pruned:
    """Prune a pipeline; nothing if there is no ledger yet. Raises LedgerOutdated, LedgerTooNew and LedgerAway; earlier
    removals stay.
    """
    nothing = Pruned(contract.pipeline, contract.limits.retention_seconds, execute)
    try:
        with reading(connect(url, "tidegate prune")) as connection:
            ledger = PruneLedger(connection, contract.pipeline, nothing.retention_seconds)
            ledger, why = _with_lows(ledger, describe)
            found = _details(ledger, replace(nothing, log_unknown=why))
            if ledger.topic_id is not None:  # without a position it is not known what was read
                found = _letters(ledger, _batches(ledger, found))
            return replace(found, unsent=_unsent(ledger, execute=execute))
    except LedgerMissing:
        return nothing


def _with_lows(ledger: PruneLedger, describe: Describe) -> tuple[PruneLedger, str | None]:
    """Return the ledger with the low watermarks of the pipeline's log; or the reason why they are not known."""
    if (log := ledger.log()) is None:
        return ledger, None
    ledger = replace(ledger, topic_id=log["topic_id"])
    try:
        view = describe(log["topic"])
    except TidegateError as error:
        return ledger, str(error)
    if (view.topic_id, view.cluster_id) != (log["topic_id"], log["cluster_id"]):
        same = view.cluster_id == log["cluster_id"]
        what = "a different topic of that name" if same else "a topic of another cluster"
        then = f"The next run will halt; `tidegate resolve {ledger.pipeline}` then shows how to resolve it"
        return ledger, f"{log['topic']} is {what} now. {then}"
    lows = {number: held.low for number, held in view.partitions.items()}
    return replace(ledger, lows=lows, known=True), None


def _details(ledger: PruneLedger, found: Pruned) -> Pruned:
    """Prune passed checks and lineage events."""
    after = ledger.pruned_until()
    while (page := ledger.details(after)) is not None:
        if found.executed:
            with ledger.page() as same_log:
                if not same_log:
                    return found
                ledger.remove_details(after, page["until_batch"])
        after = page["until_batch"]
        found = replace(
            found,
            checks=found.checks + page["checks"],
            lineage_events=found.lineage_events + page["events"],
            lineage_never_sent=found.lineage_never_sent + page["never_sent"],
        )
    return found


def _batches(ledger: PruneLedger, found: Pruned) -> Pruned:
    after, removed, kept = 0, 0, Counter[str](found.kept)
    while page := ledger.batches(after):
        if found.executed and None in page.values():
            with ledger.page() as same_log:
                if not same_log:
                    break
                page = ledger.batches(after)  # again, now that it is locked
                batches = [batch_id for batch_id, kept_by in page.items() if kept_by is None]
                there = [PrunedRange(**row) for row in ledger.newest_ranges()]
                pruned = [PrunedRange(**row) for row in ledger.ranges(batches)]
                ranges = put_together(there, pruned, ledger.lost_after())
                ledger.write_ranges(batches, [asdict(item) for item in ranges])
                ledger.remove_batches(batches)
                crash_points.reach("prune_removed")
            crash_points.reach("prune_committed")
        kept.update(filter(None, page.values()))
        removed += sum(kept_by is None for kept_by in page.values())
        after = max(page, default=2**63 - 1)
    return replace(found, batches=removed, kept=dict(kept))


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
    """Return the ranges to write for `pruned`, which come in the order of their batches: adjacent ones merged into one.

    `tidegate verify` checks for each read offset that the ledger has it, and if the broker ever delivered it. It
    subtracts lost history by batch: only ranges with the same lost history are merged. A range that continues one of
    `there` gets its first offset and first batch.

    `lost_after`, ascending: the batches up to which history has been recorded as lost.
    """
    newest = {item.place: item for item in there}
    found: dict[tuple[str, str, int, int, int], PrunedRange] = {}
    for item in pruned:
        before = newest.get(item.place)
        joined = item
        if before is not None and before.until_offset == item.from_offset:
            same = bisect_left(lost_after, before.last_batch) == bisect_left(lost_after, item.last_batch)
            if same and before.spans + item.spans <= MAX_SPANS:
                joined = replace(
                    before,
                    until_offset=item.until_offset,
                    messages=before.messages + item.messages,
                    spans=before.spans + item.spans,
                    last_batch=item.last_batch,
                )
        newest[item.place] = joined
        found[*joined.place, joined.first_batch, joined.from_offset] = joined
    return list(found.values())


def _letters(ledger: PruneLedger, found: Pruned) -> Pruned:
    after: SettledLetter | None = None
    removed, kept = 0, 0
    while page := ledger.settled(after):
        gone = [item for item in page if item.gone]
        if found.executed and gone:
            with ledger.page() as same_log:
                if not same_log:
                    break
                ledger.remove_letters(gone)
        after, removed, kept = page[-1], removed + len(gone), kept + len(page) - len(gone)
    return replace(found, dead_letters=removed, kept={**found.kept, **({"settled_letters": kept} if kept else {})})


def _unsent(ledger: PruneLedger, *, execute: bool) -> int:
    """Prune messages of producers, which do not depend on a run of the pipeline. Return the count."""
    if not execute:
        return ledger.settled_unsent()
    removed = 0
    while count := ledger.remove_unsent():
        removed += count
    return removed
