"""A contract's rules for a column of values, equal to validator.py's for one value: True if a value is valid.

Arrow checks enums and limits. google-re2 checks patterns, as in validator.py, for all values at once if that is
equivalent.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute

from platform_defs.contract.model.contract import Field, RowRule
from platform_defs.verify.validators.patterns import whole_matches

pc = cast("Any", pyarrow.compute)  # in its stubs, what compares takes arrays of unknown types

Column: TypeAlias = Any  # an Arrow array
Rule: TypeAlias = Callable[[Column], Column]  # a column → booleans without null


class NotInColumns(Exception):
    """Only validator.py supports the type or the rule."""


def column_rules(field: Field) -> Iterator[Rule]:
    """Yield the rules of a field. Raises NotInColumns."""
    if field.required:
        yield pc.is_valid
    for rule in field.rules:
        if rule.kind != "required":
            yield _or_null(_kept(rule, field.type.arrow))


def _or_null(kept: Rule) -> Rule:
    return lambda column: pc.fill_null(kept(column), fill_value=True)


def _kept(rule: RowRule, of: pa.DataType) -> Rule:
    wanted = rule.argument
    match rule.kind:
        case "enum":
            allowed = _typed(wanted, of)
            return lambda column: pc.or_kleene(pc.is_null(column), pc.is_in(column, value_set=allowed))
        case "pattern":
            return whole_matches(wanted)
        case "minimum":
            least = _typed([wanted], of)[0]
            return lambda column: pc.greater_equal(column, least)
        case "maximum":
            most = _typed([wanted], of)[0]
            return lambda column: pc.less_equal(column, most)
        case "min_length":
            return lambda column: pc.greater_equal(pc.utf8_length(column), wanted)
        case "max_length":
            return lambda column: pc.less_equal(pc.utf8_length(column), wanted)
        case _:
            raise NotInColumns


def _typed(values: Any, of: pa.DataType) -> Column:
    try:
        found: Column = pa.array(list(values), of)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise NotInColumns from error
    if found.to_pylist() != list(values):
        raise NotInColumns
    return found
