"""Rows encoded for COPY are passed on in parts."""

import pyarrow as pa

from platform_defs.engine.staging.binary_copy import encoded

SCHEMA = pa.schema([("text", pa.string()), ("number", pa.int64())])


def rows(*texts: str) -> pa.RecordBatch:
    return pa.record_batch([pa.array(texts), pa.array(range(len(texts)))], schema=SCHEMA)


def test_a_large_batch_is_encoded_in_parts_of_the_same_bytes() -> None:
    """Otherwise a task would keep two more copies, encoded. ADBC took 16 MB at a time."""
    batch = rows(*("x" * 1_000_000 for _ in range(20)), "last")
    parts = list(encoded([batch], SCHEMA))
    assert max(map(len, parts)) < 17 << 20
    one_by_one = encoded([batch.slice(n, 1) for n in range(batch.num_rows)], SCHEMA)
    assert b"".join(parts) == b"".join(one_by_one)


def test_a_row_that_is_larger_than_a_part_stays_whole() -> None:
    large = "x" * (20 << 20)
    parts = list(encoded([rows("small", large, "small")], SCHEMA))
    assert sum(large.encode() in part for part in parts) == 1
