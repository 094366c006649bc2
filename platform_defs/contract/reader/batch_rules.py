"""The batch rules of the row table, written for Great Expectations."""

from difflib import get_close_matches
from typing import Any

from open_data_contract_standard.model import SchemaObject

from platform_defs.contract.document.node import Node, as_list, as_mapping, one_of
from platform_defs.contract.keys.schema_keys import BATCH_RULE
from platform_defs.contract.model.contract import BatchRule, Disposition, Severity
from platform_defs.contract.model.reserved import rule_mistake
from platform_defs.contract.reader.names import checked_name

_COLUMN_ARGUMENTS = ("column", "column_A", "column_B", "column_list", "column_set")


def read_batch_rules(
    item: Node[SchemaObject], disposition: Disposition, table: str, columns: list[str]
) -> tuple[BatchRule, ...]:
    """Return the rules under the table's `quality`. Raises BadInput for a rule that cannot be evaluated, or not at this
    table.
    """
    entries = item.children("quality")
    if entries and disposition == "accumulate":
        raise entries[0].refused("batch rules check the batch's rows: define them on the row table")
    rules = list[BatchRule]()
    for entry in entries:
        with entry.keeping_mistakes():
            rules.append(_batch_rule(entry, table, columns))
    return tuple(rules)


def _batch_rule(entry: Node[Any], table: str, columns: list[str]) -> BatchRule:
    written = entry.value
    if written.type != "custom" or written.engine != "greatExpectations":
        missing = entry.child("type"), entry.child("engine")
        raise entry.refused("a batch rule must have type: custom and engine: greatExpectations", *missing)
    BATCH_RULE.refuse_others(entry)
    name = checked_name(entry.child("name"), rule_mistake)
    severity: Severity = BATCH_RULE["severity"].read(entry.child("severity"))
    expectation, arguments = _implementation(entry.child("implementation"))
    for key in _COLUMN_ARGUMENTS:
        node = arguments.child(key)
        for one in as_list(node.value) or [node.value]:
            if one is not None and one not in columns:
                raise node.refused(f"{table} has no column {one!r}; {one_of(columns, str(one))}")
    return BatchRule(name, table, expectation, arguments.value or {}, severity, written.description or "")


def _implementation(node: Node[Any]) -> tuple[str, Node[dict[str, Any] | None]]:
    """Return the expectation's name and its arguments."""
    written = as_mapping(node.value)
    if written is None or set(written) - {"expectation", "arguments"} or "expectation" not in written:
        raise node.refused("implementation is {expectation: Expect..., arguments: {...}}")
    expectation, arguments = node.child("expectation"), node.child("arguments")
    if expectation.value not in EXPECTATIONS:
        name = str(expectation.value)
        close = get_close_matches(name, EXPECTATIONS, 1)
        hint = f"did you mean {close[0]}?" if close else "docs/reference/contract.md lists them"
        raise expectation.refused(
            f"{name!r} is not an expectation that a contract may use. Only expectations that check the batch's "
            f"rows and run no custom SQL are supported; {hint}"
        )
    if not isinstance(arguments.value, dict | None):
        raise arguments.refused("arguments must be a mapping, such as {column: amount, min_value: 0}")
    return str(expectation.value), arguments


# Every expectation of Great Expectations that reads only the batch's rows. UnexpectedRowsExpectation and
# ExpectQueryResultsToMatchComparison run SQL from the contract with the pipeline's rights: a user who may change a
# contract could read or change every table. ExpectTableRowCountToEqualOtherTable counts another table. Add an
# expectation of a later version only after a review.
EXPECTATIONS = (
    *("ExpectColumnDistinctValuesToBeInSet", "ExpectColumnDistinctValuesToContainSet"),
    *("ExpectColumnDistinctValuesToEqualSet", "ExpectColumnMaxToBeBetween", "ExpectColumnMeanToBeBetween"),
    *("ExpectColumnMedianToBeBetween", "ExpectColumnMinToBeBetween", "ExpectColumnMostCommonValueToBeInSet"),
    *("ExpectColumnPairValuesAToBeGreaterThanB", "ExpectColumnPairValuesToBeEqual", "ExpectColumnPairValuesToBeInSet"),
    *("ExpectColumnProportionOfNonNullValuesToBeBetween", "ExpectColumnProportionOfUniqueValuesToBeBetween"),
    *("ExpectColumnQuantileValuesToBeBetween", "ExpectColumnStdevToBeBetween", "ExpectColumnSumToBeBetween"),
    *("ExpectColumnToExist", "ExpectColumnUniqueValueCountToBeBetween", "ExpectColumnValueLengthsToBeBetween"),
    *("ExpectColumnValueLengthsToEqual", "ExpectColumnValueZScoresToBeLessThan", "ExpectColumnValuesToBeBetween"),
    *("ExpectColumnValuesToBeInSet", "ExpectColumnValuesToBeInTypeList", "ExpectColumnValuesToBeNull"),
    *("ExpectColumnValuesToBeOfType", "ExpectColumnValuesToBeUnique", "ExpectColumnValuesToMatchLikePattern"),
    *("ExpectColumnValuesToMatchLikePatternList", "ExpectColumnValuesToMatchRegex"),
    *("ExpectColumnValuesToMatchRegexList", "ExpectColumnValuesToNotBeInSet", "ExpectColumnValuesToNotBeNull"),
    *("ExpectColumnValuesToNotMatchLikePattern", "ExpectColumnValuesToNotMatchLikePatternList"),
    *("ExpectColumnValuesToNotMatchRegex", "ExpectColumnValuesToNotMatchRegexList", "ExpectCompoundColumnsToBeUnique"),
    *("ExpectMulticolumnSumToEqual", "ExpectSelectColumnValuesToBeUniqueWithinRecord"),
    *("ExpectTableColumnCountToBeBetween", "ExpectTableColumnCountToEqual", "ExpectTableColumnsToMatchOrderedList"),
    *("ExpectTableColumnsToMatchSet", "ExpectTableRowCountToBeBetween", "ExpectTableRowCountToEqual"),
)
