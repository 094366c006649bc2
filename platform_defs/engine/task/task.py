"""The work of a Spark task: read a range, decode and check it a block at a time, COPY the rows to staging.

Arrow from the broker to the table: no message becomes a Python row unless it is a dead letter. The workers' inputs are
all in TaskWork; each function opens what it needs there and tags what it writes with a UUID of its own, since Spark's
attempt numbers restart when a stage is retried.
"""

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa

from platform_defs.contract.model.column_types import ATTEMPT
from platform_defs.contract.model.contract import Contract, Fault
from platform_defs.contract.model.offered_columns import OFFERED
from platform_defs.contract.model.system_columns import decoded_columns, staged_columns
from platform_defs.contract.redaction import redacted
from platform_defs.engine.interfaces import crash_points
from platform_defs.engine.interfaces.gaps import Gaps, ascend
from platform_defs.engine.interfaces.schema_finder import NamedSchema, Schemas, counted
from platform_defs.engine.interfaces.source_and_staging import (
    Coverage,
    MessagePlace,
    Recording,
    Refusal,
    Source,
    StagingArea,
)
from platform_defs.engine.task.decoding import BlockDecoder, DecodedBlock
from platform_defs.engine.task.message_keys import KeyColumn
from platform_defs.engine.task.metadata_columns import with_offered
from platform_defs.errors import InternalError, MessageMisplaced, RowRefused, quoting
from platform_defs.formats.blocks.array_columns import with_items
from platform_defs.formats.blocks.arrow import (
    ArrowField,
    Column,
    columns_of,
    integers,
    one_after_another,
    places,
    record_batch,
    repeated,
    schema_of,
)
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.blocks.block import Block, in_parts
from platform_defs.offsets import OffsetRange

RESULT = "attempt string, rows bigint, messages bigint"
_MAX_TEXT = 256 << 20  # bytes, about: far from the 2 GiB at which Arrow's strings end
_LONGEST = 48  # of a number or timestamp, with its quotes and comma


@dataclass(frozen=True)
class TaskWork:
    """All that the tasks of one job need. Travels to the workers."""

    contract: Contract
    ranges: tuple[OffsetRange, ...]
    source: Source
    area: StagingArea
    excluded: Mapping[MessagePlace, Refusal] = field(default_factory=dict[MessagePlace, Refusal])
    cluster_id: str | None = None  # the cluster on which the ranges were planned; any, if nothing is kept
    set_aside: Refusal | None = None  # why no message of the batch becomes a row, if a person decided so
    schemas: Schemas | None = None  # of messages that name theirs
    offered: tuple[str, ...] = ()  # columns of OFFERED that the transform names
    nonce: str = field(default_factory=lambda: uuid4().hex)  # seals the errors of its tasks (task_errors.py)

    @property
    def keyed(self) -> bool:
        return self.contract.row_table.disposition == "upsert"

    @property
    def decoded_schema(self) -> pa.Schema:
        """The message's fields, then `_key`, `_deleted` (upsert only) or `offered`, then `_partition`, `_offset`."""
        own: list[ArrowField] = [pa.field(name, OFFERED[name]) for name in self.offered]
        own += [pa.field(name, kind.arrow) for name, kind in decoded_columns(self.contract)]
        return schema_of(self.contract.message_schema, own)

    @property
    def staged_schema(self) -> pa.Schema:
        """The row table's columns, then the engine's own, then `_attempt`."""
        own: list[ArrowField] = [pa.field(name, kind.arrow) for name, kind in staged_columns(self.contract)]
        return schema_of(self.contract.row_table.staged_schema, own)


def read_ranges(work: TaskWork, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Steps 2 and 3 for each range whose number arrives: rows as `decoded_schema`; the rest is recorded."""
    decoder = BlockDecoder(work.contract, work.schemas)
    with work.area.recording() as recording:
        for batch in numbers:
            for number in integers(columns_of(batch)[0]):
                yield from read_range(work, work.ranges[number], recording, decoder)


def read_range(
    work: TaskWork, wanted: OffsetRange, recording: Recording, decoder: BlockDecoder
) -> Generator[pa.RecordBatch, None, Coverage]:
    """Yield the rows of one range; at its proven end, store the dead letters and the coverage in one transaction.
    Return the coverage, once all rows have been taken.
    """
    attempt, tally = uuid4(), _Tally(wanted)
    with recording.transaction():
        blocks = work.source.read(wanted, work.cluster_id)
        decode = partial(_decode, work, wanted.partition, decoder=decoder)
        for block, (rows, faults, found) in chain.from_iterable(in_parts(one, decode) for one in blocks):
            rows, faults, found = _set_aside(work, block, rows, faults, found)
            recording.dead_letters(wanted.partition, attempt, block, redacted(work.contract, faults))
            tally.add(block, rows.num_rows, len(faults), found)
            crash_points.reach("in_decode")
            if rows.num_rows:
                yield rows
        coverage = tally.coverage(attempt)
        recording.cover(coverage, tally.gaps)
    return coverage


def stage_rows(
    work: TaskWork, batches: Iterator[pa.RecordBatch], *, counts_messages: bool = True
) -> Iterator[pa.RecordBatch]:
    """Step 5: COPY `batches`, each row tagged with this attempt. Yield (attempt, rows, messages) for the driver: the
    number of rows, and of the messages they come from (0 unless `counts_messages`).
    """
    attempt, schema, messages = uuid4(), work.staged_schema, MessageCount()
    first = next(batches, None)
    rows = 0
    if first is not None:
        batches = chain([first], batches)
        pieces = chain.from_iterable(map(in_pieces, map(messages.counted, batches) if counts_messages else batches))
        rows = work.area.copy((_tagged(piece, attempt, schema) for piece in pieces), schema)
    counts = [pa.array([count], pa.int64()) for count in (rows, messages.count)]
    yield pa.record_batch([pa.array([str(attempt)]), *counts], names=["attempt", "rows", "messages"])


class MessageCount:
    """Counts the messages that rows come from. The rows of one message come one after the other: no operator that a
    transform may use reorders them (`ALLOWED` in engine/job/transform_rules.py), nor does a broadcast lookup.
    """

    def __init__(self) -> None:
        self.count, self._last = 0, (-1, -1)  # of the last row: partition and offset

    def counted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if size := batch.num_rows:
            columns: list[Column] = [batch.column("_partition"), batch.column("_offset")]
            others = [pc.not_equal(column.slice(1), column.slice(0, size - 1)) for column in columns]
            self.count += pc.sum(pc.or_(*others)).as_py() or 0
            self.count += tuple(column[0].as_py() for column in columns) != self._last
            self._last = tuple(column[size - 1].as_py() for column in columns)
        return batch


def read_and_stage(work: TaskWork, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Steps 2, 3 and 5 in one function, for a pipeline without a transform."""
    yield from stage_rows(work, read_ranges(work, numbers), counts_messages=False)


def read_only(work: TaskWork, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Steps 2 and 3 for ranges that Spark's plan never pulled: coverage and dead letters, no rows."""
    for _ in read_ranges(work, numbers):
        pass
    yield from ()


def _tagged(batch: pa.RecordBatch, attempt: UUID, schema: pa.Schema) -> pa.RecordBatch:
    """Return `batch` in the staged order and types. Raises RowRefused."""
    crash_points.reach("in_copy")
    tags = repeated(attempt.bytes, ATTEMPT.arrow, batch.num_rows)
    return record_batch([*fitting(batch, schema), tags], schema)


def fitting(batch: pa.RecordBatch, schema: pa.Schema) -> list[Column]:
    """Return the columns that `schema` names, all but its last one, in its types. Raises RowRefused for a value that
    does not fit; COPY would store its bits.
    """
    columns: list[Column] = [batch.column(name) for name in schema.names[:-1]]
    kinds: list[pa.DataType] = schema.types
    return [_staged(name, column, kind) for name, column, kind in zip(schema.names, columns, kinds, strict=False)]


def _staged(name: str, column: Column, kind: pa.DataType) -> Column:
    """Return the column as COPY gets it."""
    try:
        if pa.types.is_list(column.type):
            return array_texts(column)
        return column if column.type == kind else column.cast(kind)
    except pa.ArrowInvalid as error:
        raise quoting(
            lambda why: RowRefused(f"a value does not fit its column, {name}: {why}", error_class="NotCopied"),
            str(error),
            "a classified value is out of range",
        ) from error


def array_texts(column: Column) -> Column:
    """Return a list column as strings such as {"a","b"}; null if the array is. COPY writes these texts to staging, and
    publish casts them.

    https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO. Every element is quoted, and NULL is not: a transform
    may make an array with one.
    """
    escaped = pc.replace_substring(pc.replace_substring(_spelled(pc.list_flatten(column)), "\\", r"\\"), '"', r"\"")
    elements = pc.fill_null(pc.binary_join_element_wise('"', escaped, '"', ""), "NULL")
    inside = pc.binary_join(with_items(column, elements), ",")
    return pc.binary_join_element_wise("{", inside, "}", "")


def in_pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the batch in parts, such that one column of texts suffices for the arrays of each."""
    if batch.num_rows < 2 or sum(map(_most_text, columns_of(batch))) <= _MAX_TEXT:
        yield batch
        return
    half = batch.num_rows // 2
    yield from in_pieces(batch.slice(0, half))
    yield from in_pieces(batch.slice(half))


def _most_text(column: Any) -> int:
    """Return the bytes that the column's texts may have; 0 for one that is no array."""
    if not pa.types.is_list(column.type):
        return 0
    offsets = column.offsets
    return _LONGEST * (offsets[-1].as_py() - offsets[0].as_py()) + 2 * column.nbytes


def _spelled(elements: Any) -> Any:
    """Return each element as Postgres reads its type."""
    if pa.types.is_binary(elements.type):
        return pa.array([None if value is None else rf"\x{value.hex()}" for value in elements.to_pylist()], pa.string())
    return elements if pa.types.is_string(elements.type) else elements.cast(pa.string())


def _decode(
    work: TaskWork, partition: int, block: Block, decoder: BlockDecoder
) -> tuple[pa.RecordBatch, Sequence[Fault], DecodedBlock]:
    """Return rows as `decoded_schema`, the faults of the block, and what was decoded."""
    taken, faults = _excluded(work, partition, block)
    tombstones: list[int] = []
    named: KeyColumn | None = None
    if work.keyed:
        named = decoder.keys(partition, block)
        faults += [fault for fault in named.faults if fault.index not in taken]
        taken |= {fault.index for fault in faults}
        tombstones = [i for i in integers(places(block.values.is_null())) if i not in taken]
        taken |= set(tombstones)
    kept = [i for i in range(len(block.values)) if i not in taken] if taken else []
    chosen = pa.array(kept, pa.int64()) if taken else None
    keys = named and named.texts
    read = decoder.rows(partition, block, chosen, named)
    decoded = read.decoded
    indexes, found = decoded.indexes, decoded.faults
    if chosen is not None:
        indexes: pa.Int64Array = pc.take(chosen, indexes)
        found = [replace(fault, index=kept[fault.index]) for fault in found]
    if work.offered:
        decoded = replace(decoded, rows=with_offered(decoded.rows, block, indexes, work.offered))
    rows = _with_provenance(decoded.rows, indexes, partition, block, keys, work.decoded_schema, deleted=False)
    if tombstones:
        schema = work.contract.message_schema
        empty = record_batch([repeated(None, kind, len(tombstones)) for kind in schema.types], schema)
        gone = pa.array(tombstones, pa.int64())
        deleted = _with_provenance(empty, gone, partition, block, keys, work.decoded_schema, deleted=True)
        rows = one_after_another([rows, deleted])
    return rows, [*faults, *found], read


def _set_aside(
    work: TaskWork, block: Block, rows: pa.RecordBatch, faults: Sequence[Fault], found: DecodedBlock
) -> tuple[pa.RecordBatch, Sequence[Fault], DecodedBlock]:
    """Return the results of `_decode`. For a batch that a person set aside: no rows, and a fault for each message
    without one.
    """
    if work.set_aside is None:
        return rows, faults, found
    faulty = {fault.index for fault in faults}
    others = [work.set_aside.of_message(i) for i in range(len(block.values)) if i not in faulty]
    return rows.slice(0, 0), [*faults, *others], replace(found, skipped=0)


def _with_provenance(
    rows: pa.RecordBatch,
    indexes: pa.Int64Array,
    partition: int,
    block: Block,
    keys: Column | None,
    schema: pa.Schema,
    *,
    deleted: bool,
) -> pa.RecordBatch:
    """Return `rows` with the engine's own columns: the place of each message and, for an upsert, its key."""
    own: list[Column] = []
    if keys is not None:
        own = [keys.take(indexes), repeated(deleted, pa.bool_(), rows.num_rows)]
    at = block.offsets
    offsets: Column = pc.add(indexes, at.start) if isinstance(at, range) else at.take(indexes)
    own += [repeated(partition, pa.int32(), rows.num_rows), offsets]
    return record_batch([*columns_of(rows), *own], schema)


def _excluded(work: TaskWork, partition: int, block: Block) -> tuple[set[int], list[Fault]]:
    """Return the messages that an earlier try at this batch found to be refused by the transform or the table."""
    if not work.excluded:
        return set(), []
    offsets = block.offsets if isinstance(block.offsets, range) else integers(block.offsets)
    hits = [(i, work.excluded[partition, o]) for i, o in enumerate(offsets) if (partition, o) in work.excluded]
    return {i for i, _ in hits}, [refusal.of_message(i) for i, refusal in hits]


class _Tally:
    """Counts of one attempt at a range, and the offsets that never arrived."""

    def __init__(self, wanted: OffsetRange) -> None:
        self.wanted, self.position = wanted, wanted.from_offset
        self.messages = self.rows = self.dead = self.unknown = self.skipped = 0
        self.gaps = Gaps()
        self.schemas = Counter[NamedSchema]()
        self.leader_epoch: int | None = None

    def add(self, block: Block, rows: int, dead: int, found: DecodedBlock) -> None:
        self.messages += len(block.values)
        self.rows += rows
        self.dead += dead
        self.unknown += found.decoded.unknown_fields
        self.skipped += found.skipped
        self.schemas.update(found.schemas)
        self._note_gaps(block.offsets)
        self.leader_epoch = block.leader_epoch

    def _note_gaps(self, offsets: range | pa.Int64Array) -> None:
        if isinstance(offsets, range):
            self._expect(offsets.start, offsets.stop)
        elif len(offsets):
            low, high = (integers(offsets.slice(at, 1))[0] for at in (0, len(offsets) - 1))
            if not ascend(offsets):
                raise MessageMisplaced.between(
                    self.wanted.topic, self.wanted, f"offsets from {low} to {high}, which are not in ascending order"
                )
            self._expect(low, high + 1)
            self.gaps.add_between(offsets)

    def _expect(self, start: int, stop: int) -> None:
        """Note that the first and the last offset of [start, stop) arrived. Raises MessageMisplaced unless that is the
        next part of the range.
        """
        if start < self.position or stop > self.wanted.until_offset:
            raise MessageMisplaced.between(
                self.wanted.topic,
                self.wanted,
                f"offsets [{start}, {stop}), but {self.position} is the next expected offset",
            )
        if start > self.position:
            self.gaps.add(self.position, start)
        self.position = stop

    def coverage(self, attempt: UUID) -> Coverage:
        """Return the proof. Raises InternalError if a message has become nothing, or more than one thing."""
        self._expect(self.wanted.until_offset, self.wanted.until_offset)
        if self.messages != self.rows + self.dead + self.skipped:
            became = f"{self.rows} rows, {self.dead} dead letters and {self.skipped} skipped records"
            raise InternalError.of("decoding", f"{self.messages} messages of {self.wanted} became {became}")
        counts = (self.messages, self.rows, self.dead, self.unknown)
        gaps, epoch = self.gaps.digest, self.leader_epoch
        return Coverage(self.wanted, attempt, *counts, gaps, epoch, counted(self.schemas), self.skipped)
