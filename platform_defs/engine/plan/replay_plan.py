"""The limits of a replay: its first batch, its tables next to the live ones, and the reasons to refuse it.

A replay rebuilds a pipeline's tables from a batch on, with the current contract and transform, in the same eight steps
as any other batch. No connection is opened here; platform_defs/replay/replay.py executes it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from importlib.metadata import version
from typing import Any

from platform_defs.contract.model.contract import CheckResult, Contract, Table
from platform_defs.contract.model.digest import definition, digest_of
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.model.reserved import REPLAY as SUFFIX
from platform_defs.engine.interfaces.broker_and_auditor import Broker, LineageEvents
from platform_defs.engine.interfaces.staged import Staged
from platform_defs.errors import BadInput
from platform_defs.errors.halts import PartitionSpan
from platform_defs.errors.words import plural
from platform_defs.offsets import TopicView, spell
from platform_defs.times import EXAMPLE, parse_time

BESIDE = "__replay"  # of the schema for its tables


@dataclass(frozen=True)
class ReplayStart:
    """The start of a replay: one of the three, or the very beginning if none is given."""

    batch: int | None = None
    offsets: Mapping[int, int] | None = None  # by partition
    timestamp: datetime | None = None

    @classmethod
    def parse(cls, text: str) -> "ReplayStart":
        """Parse earliest, a batch id (12), offsets (0:100,1:250), or a time (2026-11-21T10:00:00Z). Raises BadInput."""
        if text == "earliest":
            return cls()
        if text.isdecimal():
            return cls(batch=int(text))
        parts = [part.split(":") for part in text.split(",")]
        if all(len(part) == 2 and all(number.isdecimal() for number in part) for part in parts):
            return cls(offsets={int(partition): int(offset) for partition, offset in parts})
        if (at := parse_time(text, "--from")) is None:
            raise BadInput(
                f"{text!r} is not a valid start. Use earliest, a batch id (12), offsets by partition (0:100,1:250) "
                f"or a time ({EXAMPLE})",
                field="--from",
            )
        return cls(timestamp=at)


@dataclass(frozen=True)
class PartitionHistory:
    """A partition of the pipeline: its position, and the part of the log that the replayed batches read."""

    partition: int
    next_offset: int
    from_offset: int  # of the first replayed range; next_offset if there is none
    added_late: bool  # the pipeline knew other partitions before this one
    messages: int  # that the replayed batches read


@dataclass(frozen=True)
class History:
    """The ledger's record of the batches that a replay would replace."""

    first_batch: int  # of the pipeline, among those that no replay has replaced
    from_batch: int  # of the replay
    lost_until: int  # the last batch whose log is permanently gone; 0 if none
    partitions: tuple[PartitionHistory, ...]
    other_logs: tuple[str, ...] = ()  # that these batches read in addition to the current one: topic (topic id)

    @property
    def whole(self) -> bool:
        return self.from_batch == self.first_batch

    @property
    def messages(self) -> int:
        return sum(item.messages for item in self.partitions)


@dataclass(frozen=True)
class DecidedBatch:
    """A batch that failed blocking checks, with a person's decision about it (`tidegate resolve`)."""

    batch_id: int
    marks: Mapping[str, Any]  # fields of offsets.PendingBatch
    spans: Mapping[int, tuple[int, int]]  # by partition, the offsets that it read


def next_part(
    decided: Sequence[DecidedBatch], positions: Mapping[int, int], ends: Mapping[int, int]
) -> tuple[Mapping[int, int], Mapping[str, Any]]:
    """Return the offsets at which the next batch of a replay must end, by partition, and the decision about it.

    Each batch in `decided` (sorted by id) is replayed separately with the same decision, which applies to no other
    messages.
    """
    ahead = {  # by partition, the first of these batches that is not read yet
        number: next((one for one in decided if number in one.spans and one.spans[number][1] > at), None)
        for number, at in positions.items()
    }
    free = {number: one.spans[number][0] if one else ends[number] for number, one in ahead.items()}
    free = {number: max(positions[number], min(until, ends[number])) for number, until in free.items()}
    if free != positions:
        return free, {}
    if not (reached := [one for one in ahead.values() if one]):
        return ends, {}
    batch = min(reached, key=lambda one: one.batch_id)
    own = {number: batch.spans[number][1] for number, one in ahead.items() if one is batch}
    return {**positions, **own}, batch.marks


def refuse_undecided(decided: Sequence[DecidedBatch], history: History, decide_again: Collection[int]) -> None:
    """Raise BadInput unless a person decided about each batch in `decide_again`, and the replay reads its messages."""
    starts = {item.partition: item.from_offset for item in history.partitions}
    there = {
        one.batch_id
        for one in decided
        if any(number in starts and until > starts[number] for number, (_, until) in one.spans.items())
    }
    if unknown := sorted({*decide_again} - there):
        known = (
            f"Decided batches: {', '.join(map(str, sorted(there)))}"
            if there
            else ("This replay reads no decided batch")
        )
        raise BadInput(
            f"batch {unknown[0]} has no decision from tidegate resolve --batch, or this replay does not read it. "
            f"{known}",
            field="--decide-again",
        )


def refuse_impossible_replay(contract: Contract, history: History, view: TopicView) -> None:
    """Raise BadInput, with the reason, if the rebuilt tables would differ from what the log contains."""
    partial = [table for table in contract.tables if table.disposition != "append"]
    later = "" if partial else " A replay may start after them, at a later batch."
    first = history.from_batch
    if first <= history.lost_until:
        raise BadInput(
            f"the log that the batches up to {history.lost_until} read is gone (tidegate.lost_history): their rows "
            f"cannot be rebuilt.{later}",
            field=contract.pipeline,
        )
    if history.other_logs:
        raise BadInput(
            f"batches from {first} on read {', '.join(history.other_logs)}, which is not the current topic: their rows "
            f"cannot be rebuilt.{later}",
            field=contract.pipeline,
        )
    if partial and not history.whole:
        names = " and ".join(f"{table.name} ({table.disposition})" for table in partial)
        raise BadInput(
            f"{names} cannot be replayed from batch {history.from_batch}: earlier row values are not kept; only a full "
            "rebuild is possible: --from earliest",
            field=contract.pipeline,
        )
    if contract.row_table.disposition == "upsert" and any(item.added_late for item in history.partitions):
        raise BadInput(
            f"partitions were added to {contract.topic} since {contract.pipeline} started. Messages of one key in "
            "old and new partitions were applied in the order in which they were read, which a replay cannot "
            "reproduce",
            field=contract.pipeline,
        )
    lows = {number: held.low for number, held in view.partitions.items()}
    gone = [
        PartitionSpan(item.partition, item.from_offset, lows[item.partition])
        for item in history.partitions
        if lows.get(item.partition, 0) > item.from_offset and item.from_offset < item.next_offset
    ]
    if gone:
        raise BadInput(
            f"{contract.topic} no longer has {spell(gone)} (retention); their rows cannot be rebuilt.{later}",
            field=contract.pipeline,
        )


def refuse_other_messages(contract: Contract, history: History, read: Mapping[int, int]) -> None:
    """Raise BadInput if the log returned other messages than the first time. `read`: messages by partition, now."""
    if contract.row_table.disposition == "upsert":  # compacted; what compaction removed is found row by row
        return
    for item in history.partitions:
        if read.get(item.partition, 0) != item.messages:
            raise BadInput(
                f"{PartitionSpan(item.partition, item.from_offset, item.next_offset)} of {contract.topic} had "
                f"{plural(item.messages, 'message')} and now has {read.get(item.partition, 0)} (was the topic "
                "compacted for a while, or truncated?). Tables rebuilt from the log would lack the missing "
                "messages; nothing was changed",
                field=contract.pipeline,
            )


def beside(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline that builds the same tables next to the live ones. It delivers exactly once whatever the live
    one does, a whole batch at a time.

    It keeps any number of dead letters: they are shown before the tables are swapped in. (If the transform fails on
    every message, it halts like any other.)
    """
    contract = pipeline.contract
    limits = replace(contract.limits, dead_letter_share=1.0)
    tables = tuple(_moved(table) for table in contract.tables)
    built = replace(contract, pipeline=contract.pipeline + SUFFIX, tables=tables, limits=limits)
    return replace(pipeline, contract=replace(built, publication="staged"))


def _moved(table: Table) -> Table:
    schema, _, name = table.name.partition(".")
    if len(schema) > 63 - len(BESIDE):  # Postgres' longest name
        schema = schema[: 54 - len(BESIDE)] + "_" + sha256(schema.encode()).hexdigest()[:8]
    new = f"{schema}{BESIDE}.{name}"
    return replace(table, name=new, batch_rules=tuple(replace(rule, table=new) for rule in table.batch_rules))


def fingerprint(pipeline: Pipeline, from_batch: int, shapes: Sequence[str], decide_again: Sequence[int] = ()) -> str:
    """Return a digest of all that decides the result of a replay: a replay whose digest has changed starts again.

    It covers the start, the batches that are decided about again, the contract, the transform and its imports from the
    project, the shapes of the live tables, and the versions of Tidegate and Spark. It does not cover the location of
    the files, nor libraries and data that a transform fetches from elsewhere.
    """
    contract, name, *sources = definition(pipeline)
    versions = version("tidegate"), version("pyspark")
    return digest_of((from_batch, *decide_again, contract, name, *shapes, *versions, *sources))


@dataclass(frozen=True)
class UpTo:
    """A broker (Broker) whose topic ends at the live pipeline's positions and has no other partitions."""

    broker: Broker
    ends: Mapping[int, int]

    def describe(self, topic: str, partitions: Collection[int] | None = None, *, configured: bool = True) -> TopicView:
        view = self.broker.describe(topic, partitions, configured=configured)
        known = {number: held for number, held in view.partitions.items() if number in self.ends}
        cut = {n: replace(held, end=min(held.end, self.ends[n]), high=None) for n, held in known.items()}
        return replace(view, partitions=cut)


@dataclass(frozen=True)
class InTheNameOf:
    """Lineage events (LineageEvents) of the live pipeline, whose batches these will be."""

    events: LineageEvents
    contract: Contract

    def of_batch(
        self,
        contract: Contract,  # noqa: ARG002  # the building pipeline's, in whose name no event is sent
        staged: Staged,
        checks: Sequence[CheckResult],
    ) -> Mapping[str, object]:
        return self.events.of_batch(self.contract, staged, checks)
