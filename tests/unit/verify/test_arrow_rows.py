"""Rows of a table, read with the contract's types."""

import pyarrow as pa
import pytest

from platform_defs.errors import BadInput
from platform_defs.verify.source.arrow_rows import as_typed


def test_a_value_that_does_not_fit_is_not_quoted() -> None:
    """It may be classified; Arrow's message quotes it."""
    batch = pa.record_batch({"visitor": ["alice@example.com"]})
    with pytest.raises(BadInput, match=r"s.rows.visitor.*does not fit the contract's type \(int64\)") as refused:
        as_typed(batch, pa.schema([("visitor", pa.int64())]), "s.rows")
    assert "alice" not in str(refused.value)
