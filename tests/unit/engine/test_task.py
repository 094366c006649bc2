"""A task's record of the range that it read."""

import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.engine.interfaces.source_and_staging import Coverage
from platform_defs.engine.task.decoding import DecodedBlock
from platform_defs.engine.task.task import MessageCount, _Tally
from platform_defs.errors import InternalError, MessageMisplaced
from platform_defs.formats.blocks.arrow import int64s
from platform_defs.formats.blocks.block import message_blocks
from platform_defs.formats.blocks.decoded import Decoded
from platform_defs.ledger.published import SchemaCount
from platform_defs.offsets import OffsetRange


@dataclass(frozen=True)
class Delivered:
    """A message with nothing but its offset."""

    at: int

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return b"{}"

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 0, 0

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return None

    def leader_epoch(self) -> int | None:
        return self.at


NOTHING = DecodedBlock(
    Decoded(pa.record_batch({}), pa.array([], pa.int64()), [], 0), {(1, "7", "value"): 1, (1, "12", "value"): 2}
)


def tallied(until: int, *blocks: Sequence[int]) -> _Tally:
    """Return the tally of [90, until), after messages at these offsets were delivered, block by block."""
    tally = _Tally(OffsetRange("topic", 0, 90, until))
    for offsets in blocks:
        for block in message_blocks([Delivered(at) for at in offsets]):
            tally.add(block, len(offsets), 0, NOTHING)
    tally.coverage(uuid4())
    return tally


def covered(until: int, *blocks: Sequence[int]) -> Coverage:
    return tallied(until, *blocks).coverage(uuid4())


def test_offsets_that_were_never_delivered_are_gaps() -> None:
    assert tallied(100, range(90, 100)).gaps.text == "{}"
    assert tallied(100, [90, 91, 95, 99]).gaps.text == "{[92,95),[96,99)}"
    assert tallied(101, range(90, 95), range(95, 100)).gaps.text == "{[100,101)}"
    assert tallied(102, [92, 95], [97]).gaps.text == "{[90,92),[93,95),[96,97),[98,102)}"
    assert tallied(100, []).gaps.text == "{[90,100)}"


def test_attempts_that_missed_the_same_offsets_agree_however_blocks_were_cut() -> None:
    once, again, otherwise = covered(100, [92, 95, 99]), covered(100, [92], [95, 99]), covered(100, [92, 96, 99])
    assert once.gap_digest == again.gap_digest != otherwise.gap_digest
    assert covered(100, range(90, 100)).gap_digest == ""


def test_half_a_million_gaps_are_kept_in_columns() -> None:
    tally = _Tally(OffsetRange("topic", 0, 0, 1_000_000))
    tracemalloc.start()
    for start in range(0, 1_000_000, 20_000):
        tally._note_gaps(int64s(np.arange(start, start + 20_000, 2)))
    (_, peak), _ = tracemalloc.get_traced_memory(), tracemalloc.stop()
    assert peak < 1_000_000  # bytes of Python's memory; as tuples they take 70 MB
    assert len(tally.gaps.parts) <= 100


def test_the_leader_epoch_of_the_last_message_is_kept() -> None:
    assert covered(101, range(90, 95), range(95, 98)).leader_epoch == 97
    assert covered(100, []).leader_epoch is None


@pytest.mark.parametrize(
    "blocks",
    [
        [range(89, 95)],  # before the range
        [range(95, 101)],  # past it
        [range(90, 95), range(94, 100)],  # again
        [range(95, 100), range(90, 95)],  # in another order
        [[90, 93, 92, 95]],
    ],
)
def test_what_is_not_of_the_range_or_comes_twice_is_no_proof(blocks: Sequence[Sequence[int]]) -> None:
    with pytest.raises(MessageMisplaced, match=r"while reading topic partition 0 \[90, 100\), the Kafka client"):
        covered(100, *blocks)


def test_a_message_that_becomes_nothing_is_no_proof() -> None:
    (block,) = message_blocks([Delivered(at) for at in range(90, 95)])
    skipping = replace(NOTHING, skipped=2)
    tally = _Tally(OffsetRange("topic", 0, 90, 100))
    tally.add(block, 2, 1, skipping)
    assert tally.coverage(uuid4()).skipped_records == 2
    tally.skipped -= 1
    with pytest.raises(InternalError, match=r"5 messages of .* became 2 rows, 1 dead letters and 1 skipped records"):
        tally.coverage(uuid4())


def test_messages_are_counted_by_the_schema_that_they_name() -> None:
    assert covered(100, range(90, 95), range(95, 100)).schemas == (SchemaCount(1, "12", 4), SchemaCount(1, "7", 2))
    assert covered(90).schemas == ()


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), unique=True, max_size=8).map(sorted),
    st.lists(st.integers(1, 4), min_size=8, max_size=8),
    st.lists(st.integers(0, 5), max_size=20),
)
def test_messages_are_counted_once_however_many_rows_they_make_and_wherever_batches_are_cut(
    messages: list[tuple[int, int]], rows_of_each: list[int], sizes: list[int]
) -> None:
    rows = [place for place, count in zip(messages, rows_of_each, strict=False) for _ in range(count)]
    columns = [pa.array([row[0] for row in rows], pa.int32()), pa.array([row[1] for row in rows], pa.int64())]
    left, count = pa.RecordBatch.from_arrays(columns, names=["_partition", "_offset"]), MessageCount()
    for size in sizes:
        count.counted(left.slice(0, size))
        left = left.slice(size)
    count.counted(left)
    assert count.count == len(messages)
