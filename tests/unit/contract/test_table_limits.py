"""Tables that Postgres could not create, or that could not store a row, are refused when the contract is read."""

from dataclasses import replace
from pathlib import Path

import pytest

from platform_defs.contract.model.column_types import DATE, INTEGER, STRING
from platform_defs.contract.model.contract import Column, Contract, Disposition
from platform_defs.contract.reader.odcs import load
from platform_defs.contract.reader.tables import over_limit
from platform_defs.errors import BadInput
from tests.unit.contract.contract_mistakes import GOOD
from tests.unit.contract.test_contract_file import write

MOST: dict[Disposition, int] = {"append": 1_597, "upsert": 1_595, "accumulate": 1_600}


def wide(contract: Contract, disposition: Disposition, columns: list[Column], group_by: int = 0) -> Contract:
    """Return the contract with this one table."""
    names = tuple(column.name for column in columns[:group_by])
    table = replace(contract.row_table, disposition=disposition, columns=tuple(columns), group_by=names, batch_rules=())
    return replace(contract, tables=(table,))


def test_the_columns_that_tidegate_adds_count(tmp_path: Path, subtests: pytest.Subtests) -> None:
    contract = load(write(tmp_path, GOOD))
    for disposition, most in MOST.items():
        with subtests.test(disposition):
            columns = [Column(f"c{n}", INTEGER, required=False) for n in range(most + 1)]
            fits, over = wide(contract, disposition, columns[:-1]), wide(contract, disposition, columns)
            assert over_limit(fits, fits.row_table) is None
            assert f"has {most + 1:,} columns" in str(over_limit(over, over.row_table))


def test_required_columns_of_a_fixed_width_must_fit_into_a_row(tmp_path: Path) -> None:
    contract = load(write(tmp_path, GOOD))
    own = 8 + 4 + 8  # _batch_id, _partition, _offset
    most = (8_136 - own) // 8
    for kind, required, fits in (
        (INTEGER, most, True),
        (INTEGER, most + 1, False),
        (DATE, most + 1, True),
        (STRING, most + 1, True),
    ):
        columns = [Column(f"c{n}", kind, required=n < required) for n in range(1_100)]
        made = wide(contract, "append", columns)
        assert (over_limit(made, made.row_table) is None) is fits, (kind.name, required)


def test_a_group_has_at_most_the_columns_of_an_index(tmp_path: Path) -> None:
    names = [f"g{n}" for n in range(33)]
    fields = "".join(f"      - {{name: {name}, logicalType: string, required: true}}\n" for name in names)
    keys = fields.replace("}\n", ", primaryKey: true}\n")
    orders, totals = (
        "      - name: order_id\n",
        "      - {name: order_id, logicalType: string, required: true, primaryKey",
    )
    rows = "      - {name: order_id, logicalType: string, required: true}\n"
    text = GOOD.replace(orders, fields + orders, 1).replace(rows, fields + rows, 1)
    grouped = text.replace(totals, keys.partition("\n")[2] + totals, 1)
    with pytest.raises(BadInput, match=r"grouped by 33 columns; .* at most 32") as refused:
        load(write(tmp_path, grouped))
    assert refused.value.field == "totals.properties"
    load(write(tmp_path, grouped.replace(f"{keys.splitlines()[1]}\n", "", 1)))
