"""Arrow for a type checker: the one place that fills the gaps in pyarrow-stubs.

The stubs lack `arange` and `concat_batches`, give `cast` and `filter` types that no kernel takes, and let every value
be None. `kernels`: the functions of pyarrow.compute, unchecked.
"""

from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute

if TYPE_CHECKING:
    Column = pa.Array[Any]
    ArrowField = pa.Field[Any]
else:
    Column, ArrowField = pa.Array, pa.Field

kernels: Any = pyarrow.compute
_pa: Any = pa


def integers(column: Column) -> list[int]:
    """Return the values of a column of integers that has no nulls."""
    return cast("list[int]", column.to_pylist())


def all_bytes(values: pa.BinaryArray) -> list[bytes]:
    """Return the values; none is null."""
    return cast("list[bytes]", values.to_pylist())


def counted(length: int) -> pa.Int64Array:
    """Return 0, 1, 2 and so on: `length` of them."""
    return _pa.arange(0, length)


def places(mask: pa.BooleanArray) -> pa.Int64Array:
    """Return the places at which the mask is true, ascending."""
    return kernels.indices_nonzero(mask).cast(pa.int64())


def columns_of(batch: pa.RecordBatch) -> list[Column]:
    """Return the batch's columns, in order."""
    return cast("list[Column]", batch.columns)


def schema_of(first: pa.Schema, more: list[ArrowField]) -> pa.Schema:
    """Return a schema with the fields of `first`, then `more`."""
    return _pa.schema([*first, *more])


def record_batch(columns: list[Column], schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns as a batch of this schema. Raises ArrowInvalid or TypeError if they do not fit it."""
    return _pa.RecordBatch.from_arrays(columns, schema=schema)


def one_after_another(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches of one schema as a single one."""
    return _pa.concat_batches(batches)


def repeated(value: object, kind: pa.DataType, length: int) -> Column:
    """Return a column of the same value, `length` times."""
    return _pa.repeat(_pa.scalar(value, kind), length)


def one_value(data: bytes) -> Column:
    """Return a column (large binary) of one value, without a copy."""
    ends = pa.array([0, len(data)], pa.int64()).buffers()[1]
    return _pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, pa.py_buffer(data)])


def nulls(kind: pa.DataType, length: int) -> Column:
    return _pa.nulls(length, kind)


def int64s(values: Any) -> pa.Int64Array:
    """Return a numpy array of int64 as a column."""
    return _pa.array(values, pa.int64())
