"""An upsert in windows: whatever the messages and the windows, no row that is right is reported, and each fault in the
row of a key that has new messages is.
"""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.verify.compare.newest import Newest
from platform_defs.verify.compare.report import Findings
from platform_defs.verify.compare.upserts import UpsertComparison
from platform_defs.verify.incremental import TouchedKeys
from platform_defs.verify.source.partitions import Partition
from platform_defs.verify.source.spans import ManySpans
from platform_defs.verify.source.windows import Window

Message = tuple[str, int | None]  # a key, and its value; None is a tombstone
Row = tuple[int, int, int]  # batch, offset, value
BATCHES = st.lists(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.integers(0, 3)), max_size=4), max_size=6)
OWN = [("_key", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64()), ("_batch_id", pa.int64())]
SCHEMA = pa.schema([("v", pa.int64()), *OWN])


def table_of(batches: Sequence[Sequence[Message]]) -> dict[str, Row]:
    """Return the table after these batches, numbered from 1, are published."""
    table, offset = dict[str, Row](), 0
    for number, batch in enumerate(batches, 1):
        for key, value in batch:
            table.pop(key, None)
            if value is not None:
                table[key] = number, offset, value
            offset += 1
    return table


def check(batches: Sequence[Sequence[Message]], table: dict[str, Row], after: int, at_once: int) -> Findings:
    """Return what verify --new finds in the table after batch `after`, in windows of `at_once` batches."""
    findings, waiting = Findings("p"), dict[str, Newest]()

    def rows(keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
        there = [(table[key][2], key, 0, table[key][1], table[key][0]) for key in keys if key in table]
        columns = [pa.array([row[n] for row in there], kind) for n, kind in enumerate(SCHEMA.types)]
        yield pa.record_batch(columns, schema=SCHEMA)

    for start in range(after, max(len(batches), after + 1), at_once):
        until = min(start + at_once, len(batches))
        offset = sum(map(len, batches[:start]))
        messages = [item for batch in batches[start:until] for item in batch]
        newest = {
            key: Newest(0, offset + n, None if value is None else (value,)) for n, (key, value) in enumerate(messages)
        }
        part = Partition(0, "id", offset, offset + len(messages), [], ManySpans(), [])
        versions = cast("Any", SimpleNamespace(columns=[("v", pa.int64())]))
        comparison = UpsertComparison(versions, cast("Any", None), cast("Any", None), findings, newest, known={0: part})
        window = Window(start, until, {}, last=until == len(batches))
        TouchedKeys(comparison, window, waiting, findings).compare(rows)
    assert not waiting
    return findings


@given(BATCHES, st.data(), st.integers(1, 3))
def test_a_table_that_is_right_is_never_said_to_be_wrong(
    batches: list[list[Message]], data: st.DataObject, at_once: int
) -> None:
    after = data.draw(st.integers(0, len(batches)))
    findings = check(batches, table_of(batches), after, at_once)
    assert findings.ok, findings.samples


@given(BATCHES.filter(any), st.data(), st.integers(1, 3))
def test_a_fault_in_the_row_of_a_key_with_new_messages_is_found(
    batches: list[list[Message]], data: st.DataObject, at_once: int
) -> None:
    after = data.draw(st.integers(0, max(n for n, batch in enumerate(batches) if batch)))
    key = data.draw(st.sampled_from(sorted({key for batch in batches[after:] for key, _ in batch})))
    table = table_of(batches)
    right, before = table.get(key), table_of(batches[:after]).get(key)
    if right is None:
        last = max(n for n, batch in enumerate(batches, 1) if key in dict(batch))
        table[key] = before or (last, 0, 9)  # not deleted; or from nowhere
    else:
        number, offset, value = right
        wrong = [None, (number, offset, value + 1), *([before] if before else [])]
        chosen = data.draw(st.sampled_from(wrong))
        table.pop(key)
        table |= {} if chosen is None else {key: chosen}
    assert not check(batches, table, after, at_once).ok
