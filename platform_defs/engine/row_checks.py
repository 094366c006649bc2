"""The contract's row rules over a decoded block: survivors go on, a breaker becomes one fault.

Rules run as Arrow computations over whole columns; Python touches only the rows that break one. A null value breaks
`required` and nothing else.
"""

import dataclasses
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute

from platform_defs.engine.contract import Contract, Fault, RowRule
from platform_defs.engine.decode import Decoded
from platform_defs.engine.excerpt import excerpt

pc: Any = pyarrow.compute  # its functions are made at import, where no type checker sees them
_WANTED = {
    "required": "a value",
    "enum": "one of {}",
    "pattern": "a match of {}",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "min_length": "at least {} characters",
    "max_length": "at most {} characters",
}


def check_rows(contract: Contract, decoded: Decoded) -> Decoded:
    """`decoded` less the rows that break a rule, their faults (stage `check`) added in order of index.

    One fault a message: the first rule that it breaks, in the order of `contract.row_rules`.
    """
    rows, keep, faults = decoded.rows, bytearray(b"\1") * decoded.rows.num_rows, list[Fault]()
    for rule in contract.row_rules:
        column = rows.column(rule.field)
        mask = broken(rule, column)
        if mask.true_count:
            first = [position for position in pc.indices_nonzero(mask).to_pylist() if keep[position]]
            at = pa.array(first, pa.int64())
            pairs = zip(column.take(at).to_pylist(), decoded.indexes.take(at).to_pylist(), strict=True)
            faults += [_fault(rule, value, index) for value, index in pairs]
            for position in first:
                keep[position] = 0
    if not faults:
        return decoded
    survivors = pa.array(memoryview(keep)).cast(pa.bool_())
    return dataclasses.replace(
        decoded,
        rows=rows.filter(survivors),
        indexes=decoded.indexes.filter(survivors),
        faults=sorted([*decoded.faults, *faults], key=lambda fault: fault.index),
    )


def broken(rule: RowRule, column: pa.Array) -> pa.BooleanArray:
    """True where a value breaks the rule, false elsewhere, never null.

    A pattern must match the whole value, as in JSON Schema with ^ and $ written out; its dialect is RE2's, in which
    `$` is the end of the text (Python's also matches before a last newline) and there are no look-arounds.
    Lengths count characters (Unicode code points), not bytes.
    """
    if rule.kind == "required":
        return column.is_null()
    return pc.fill_null(_breaks(rule, column), False)


def _breaks(rule: RowRule, column: pa.Array) -> pa.BooleanArray:
    match rule.kind:
        case "enum":
            allowed = pc.is_in(column, value_set=pa.array(rule.argument, column.type))
            return pc.and_(pc.invert(allowed), column.is_valid())
        case "pattern":
            return pc.invert(pc.match_substring_regex(column, anchored(rule.argument)))
        case "minimum":
            return pc.less(column, pa.scalar(rule.argument, column.type))
        case "maximum":
            return pc.greater(column, pa.scalar(rule.argument, column.type))
        case "min_length":
            return pc.less(pc.utf8_length(column), rule.argument)
        case "max_length":
            return pc.greater(pc.utf8_length(column), rule.argument)
        case _:
            raise AssertionError(f"row rule of unknown kind {rule.kind!r}")


def anchored(pattern: str) -> str:
    r"""`pattern` as it is run: over the whole value. \z, because a `$` of the contract's own may be anything."""
    return rf"\A(?:{pattern})\z"


def wanted(rule: RowRule) -> str:
    """What the rule asks for, to follow "the contract wants": at least 0.01."""
    argument = ", ".join(map(str, rule.argument)) if isinstance(rule.argument, tuple) else rule.argument
    return _WANTED[rule.kind].format(argument)


def _fault(rule: RowRule, value: Any, index: int) -> Fault:
    spelt = "missing" if value is None else excerpt(str(value) if not isinstance(value, Decimal) else f"{value:f}")
    return Fault(index, "check", rule.name, f"{rule.field} is {spelt}; the contract wants {wanted(rule)}", rule.field)
