"""The rows that verify passes to a transform for messages that an older contract validated."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Column, Contract, Field, Table
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.verify.compare.chunk_validator import row_table
from platform_defs.verify.compare.expected import Expected, NotMade
from platform_defs.verify.source.contract_versions import ContractVersions
from platform_defs.verify.source.partitions import Pinned

Fields = dict[str, tuple[str, str]]  # by name: its type, and its key in the message


def contract(fields: Fields) -> Contract:
    made = tuple(
        Field(name, column_type(of), False, (), physical_path=(key,) if key != name else ())
        for name, (of, key) in fields.items()
    )
    table = Table("s.rows", "append", tuple(Column(item.name, item.type, False) for item in made))
    return Contract("p", "1", "d", "", "t", "json", made, (table,))


def handed(before: Fields, now: Fields, *row: Any) -> dict[str, Any]:
    """Return the row that the transform gets for a message that the contract before read as `row`."""
    old, new = contract(before), contract(now)
    versions = ContractVersions(new, {"old": old, None: old}, {c.name: c.type for c in new.row_table.columns})
    pipeline = Pipeline(new, lambda frame: frame)
    started, pinned = lambda: pytest.fail("Spark was asked for"), Pinned("old")
    expected = Expected(pipeline, started, versions, pinned, other_transform=False, hides=False)
    schema = pa.schema([(item.name, item.type.arrow) for item in old.fields])
    messages = row_table(schema, [row]).append_column("_partition", pa.array([3], pa.int32()))
    (found,) = expected._as_read_now(messages.append_column("_offset", pa.array([7]))).to_pylist()
    assert (found.pop("_partition"), found.pop("_offset")) == (3, 7)
    return found


def test_a_field_that_the_older_contract_did_not_have_is_null() -> None:
    now = {"a": ("string", "a"), "b": ("integer", "b")}
    assert handed({"a": ("string", "a"), "c": ("string", "c")}, now, "x", "y") == {"a": "x", "b": None}


def test_a_field_is_found_by_its_key_and_then_by_its_name() -> None:
    before = {"a": ("string", "x"), "c": ("string", "c")}
    now = {"b": ("string", "x"), "a": ("string", "y"), "c": ("string", "z")}
    assert handed(before, now, "of x", "of c") == {"b": "of x", "a": None, "c": "of c"}


def test_a_value_gets_the_type_that_the_field_has_now_or_none_of_the_rows_is_made() -> None:
    before = {"a": ("decimal(5,2)", "a")}
    assert handed(before, {"a": ("decimal(9,2)", "a")}, Decimal("1.25")) == {"a": Decimal("1.25")}
    with pytest.raises(NotMade):
        handed({"a": ("string", "a")}, {"a": ("integer", "a")}, "x")
