"""json columns, compared as Postgres compares jsonb: both sides are brought into one spelling first."""

from collections.abc import Sequence
from typing import Any, TypeVar

import pyarrow as pa

from platform_defs.contract.model import Table
from platform_defs.verification.documents import canonical

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def json_columns(table: Table) -> list[str]:
    """The names of the table's columns of type json."""
    return [column.name for column in table.columns if column.type.name == "json"]


def canonical_columns(rows: Rows, names: Sequence[str]) -> Rows:
    """`rows` with the columns `names` (JSON texts) in canonical form."""
    changed: Any = rows  # what tables and record batches share is not typed in full
    for name in names:
        texts = pa.array([canonical(text) for text in changed[name].to_pylist()], pa.string())
        changed = changed.set_column(changed.schema.get_field_index(name), changed.schema.field(name), texts)
    return changed
