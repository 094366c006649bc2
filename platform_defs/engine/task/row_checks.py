"""The contract's row rules over a decoded block: a row that breaks a rule becomes one fault.

Rules run as Arrow computations over whole columns; Python touches only the rows that break one. A null value breaks
`required` and nothing else.
"""

import dataclasses
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from platform_defs.contract.model.contract import Fault, Field, RowRule
from platform_defs.contract.model.row_rules import broken, wanted
from platform_defs.formats.blocks.arrow import columns_of, integers, places
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.blocks.decoded import Decoded
from platform_defs.formats.blocks.excerpt import excerpt


def check_rows(fields: Sequence[Field], decoded: Decoded) -> Decoded:
    """Return `decoded` without the rows that break a rule of these fields, with their faults (stage `check`) in order
    of index. One fault per message: the first rule that it breaks, in the order of the fields.
    """
    rows, keep, faults = decoded.rows, bytearray(b"\1") * decoded.rows.num_rows, list[Fault]()
    columns = dict(zip(rows.schema.names, columns_of(rows), strict=True))
    field_places = {item.name: item.place for item in fields}
    for rule in (rule for item in fields for rule in item.rules):
        column = columns[rule.field]
        mask = broken(rule, column)
        if mask.true_count:
            first = [position for position in integers(places(mask)) if keep[position]]
            at = pa.array(first, pa.int64())
            pairs = zip(column.take(at).to_pylist(), integers(decoded.indexes.take(at)), strict=True)
            faults += [_fault(rule, field_places[rule.field], value, index) for value, index in pairs]
            for position in first:
                keep[position] = 0
    if not faults:
        return decoded
    survivors: pa.BooleanArray = pc.cast(pa.array(memoryview(keep)), pa.bool_())
    return dataclasses.replace(
        decoded,
        rows=rows.filter(survivors),
        indexes=pc.filter(decoded.indexes, survivors),
        faults=sorted([*decoded.faults, *faults], key=lambda fault: fault.index),
    )


def _fault(rule: RowRule, place: str, value: Any, index: int) -> Fault:
    text = "missing" if value is None else excerpt(str(value) if not isinstance(value, Decimal) else f"{value:f}")
    return Fault(index, "check", rule.name, f"{place} is {text}; the contract requires {wanted(rule)}", rule.field)
