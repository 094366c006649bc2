"""The limits of Postgres that a contract alone can exceed, with the columns that Tidegate adds to its tables.

https://www.postgresql.org/docs/current/limits.html
"""

from collections.abc import Sequence

from open_data_contract_standard.model import SchemaObject

from platform_defs.contract.document.node import Node
from platform_defs.contract.model.contract import Contract, Table
from platform_defs.contract.model.system_columns import staged_columns, target_columns

MAX_COLUMNS = 1_600  # of a table
MAX_INDEX_COLUMNS = 32
MAX_ROW = 8_136  # bytes on a page of 8 KiB, without the row's header
_FEWER = "Remove columns, or keep several fields in one column of physicalType: json"
# The bytes of a value that is always in its row, by type; a value of any other type takes at least 1.
_FIXED = {"boolean": 1, "date": 4, "int": 4, "uuid": 16, **dict.fromkeys(("integer", "double", "timestamp", "time"), 8)}


def refuse_over_limits(contract: Contract, objects: Sequence[Node[SchemaObject]]) -> None:
    """Raise BadInput for a table that Postgres cannot create, or that could not store a single row."""
    tables = {table.name: table for table in contract.tables}
    for item in objects:
        if wrong := over_limit(contract, tables[item.child("physicalName").value]):
            raise item.child("properties").refused(wrong)


def over_limit(contract: Contract, table: Table) -> str | None:
    """Return which limit the table exceeds; None if it exceeds none."""
    staged = staged_columns(contract) if table.disposition != "accumulate" else ()
    own = max(target_columns(table), staged, key=len)
    if len(table.columns) + len(own) > MAX_COLUMNS:
        names = ", ".join(name for name, _ in own)
        added = f", and Tidegate adds {len(own)} in it or in staging ({names})" if own else ""
        return (
            f"{table.name} has {len(table.columns):,} columns{added}; a Postgres table has at most {MAX_COLUMNS:,}. "
            f"{_FEWER}"
        )
    if len(table.group_by) > MAX_INDEX_COLUMNS:
        return (
            f"{table.name} is grouped by {len(table.group_by)} columns; the Postgres index by which its rows are found "
            f"has at most {MAX_INDEX_COLUMNS}. Group by fewer columns"
        )
    kinds = [
        *(column.type for column in table.columns if column.required),
        *(kind for _, kind in target_columns(table)),
    ]
    needed = sum(_FIXED.get(kind.name, 1) for kind in kinds)
    if needed > MAX_ROW:
        return (
            f"the required columns of {table.name} take at least {needed:,} bytes; a Postgres row has at most "
            f"{MAX_ROW:,}, besides what can be stored outside it. {_FEWER}"
        )
    return None
