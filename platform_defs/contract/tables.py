"""The tables of a contract: the row table, its batch rules, and the accumulates over it."""

import re
from typing import Any, Literal, cast, get_args

from open_data_contract_standard.model import DataQuality, SchemaObject, SchemaProperty

from platform_defs.contract.column_types import JSON, ColumnType
from platform_defs.contract.model import Aggregate, BatchRule, Column, Disposition, Severity, Table
from platform_defs.contract.names import checked_name, column_name, column_type_of, custom_values
from platform_defs.contract.reserved import rule_mistake, table_mistake
from platform_defs.contract.text import ContractText, Place, one_of

_AGGREGATE = re.compile(r"(\w+)\(\s*(\*|\w+)\s*\)")
_FUNCTIONS = ("sum", "count", "min", "max")
_RULES_BELONG = "a table's column has no row rules; write them at the message's field"


def read_tables(text: ContractText, objects: list[tuple[int, SchemaObject]]) -> tuple[Table, ...]:
    """The tables, the row table first. BadInput for none or several row tables, or an aggregate that is not exact."""
    tables = [_table(text, item, ("schema", n)) for n, item in objects]
    rows = [table for table in tables if table.disposition != "accumulate"]
    if len(rows) != 1:
        names = ", ".join(table.name for table in rows) or "none"
        raise text.refused(f"a pipeline has one row table (disposition append or upsert), not {names}", "schema")
    for table, (n, item) in zip(tables, objects, strict=True):
        if table.disposition == "accumulate":
            _check_accumulate(text, table, rows[0], item, ("schema", n))
    return (rows[0], *(table for table in tables if table is not rows[0]))


def _table(text: ContractText, item: SchemaObject, place: Place) -> Table:
    disposition = _disposition(text, item, place)
    name = checked_name(text, item.physicalName, "physicalName", place, qualified=True)
    if wrong := table_mistake(name):
        raise text.refused(wrong, *place, "physicalName")
    if not item.properties:
        raise text.refused("a table has at least one column under properties", *place)
    columns, aggregates, group_by = list[Column](), list[Aggregate](), list[str]()
    for n, one in enumerate(item.properties):
        at = (*place, "properties", n)
        column = _column(text, one, at, {column.name for column in columns})
        columns.append(column)
        if disposition == "accumulate":
            aggregate = _aggregate(text, one, column, at)
            aggregates += [aggregate] if aggregate else []
            group_by += [] if aggregate else [column.name]
        elif one.primaryKey or one.transformLogic:
            key = "primaryKey" if one.primaryKey else "transformLogic"
            raise text.refused(f"{key} is for accumulate tables; other rows have their offset or message key", *at, key)
    return Table(
        name=name,
        disposition=disposition,
        columns=tuple(columns),
        batch_rules=_batch_rules(text, item, disposition, name, columns, place),
        group_by=tuple(group_by),
        aggregates=tuple(aggregates),
        description=item.description or "",
    )


def _disposition(text: ContractText, item: SchemaObject, place: Place) -> Disposition:
    found = custom_values(text, item.customProperties, ("disposition",), place)
    if "disposition" not in found:
        hint = "a table says how rows are written: customProperties: [{property: disposition, value: append}]"
        raise text.refused(hint, *place)
    value, at = found["disposition"]
    if value not in get_args(Disposition):
        raise text.refused(f"unknown disposition {value!r}; {one_of(get_args(Disposition), str(value))}", *at)
    return value


def _column(text: ContractText, item: SchemaProperty, place: Place, taken: set[str]) -> Column:
    name = column_name(text, item, place, taken)
    for key in ("logicalTypeOptions", "quality", "examples"):
        if getattr(item, key) is not None:
            raise text.refused(_RULES_BELONG, *place, key)
    if item.physicalName not in (None, name):
        hint = f"in a table it can only repeat the name, {name}; a message's field has one, the key in the message"
        raise text.refused(f"physicalName {item.physicalName!r} is not supported: {hint}", *place, "physicalName")
    kind = column_type_of(text, item, place)
    return Column(name, kind, bool(item.required), item.description or "", item.classification or "")


def _aggregate(text: ContractText, item: SchemaProperty, column: Column, place: Place) -> Aggregate | None:
    """None for a column to group by."""
    if bool(item.primaryKey) == bool(item.transformLogic):
        hint = "a column of an accumulate table has either primaryKey: true (group by) or transformLogic: sum(column)"
        raise text.refused(hint, *place)
    if item.primaryKey:
        return None
    at = (*place, "transformLogic")
    match = _AGGREGATE.fullmatch((item.transformLogic or "").strip())
    if not match:
        raise text.refused(f"{item.transformLogic!r} is not an aggregate such as sum(amount) or count(*)", *at)
    function, source = match[1].lower(), None if match[2] == "*" else match[2]
    if function not in _FUNCTIONS:
        hint = one_of(_FUNCTIONS, function)
        raise text.refused(f"{function} depends on how batches are cut, or is not known; {hint}", *at)
    if source is None and function != "count":
        raise text.refused(f"{function}(*) has no meaning; name a column", *at)
    return Aggregate(column.name, cast('Literal["sum", "count", "min", "max"]', function), source)


def _check_accumulate(text: ContractText, table: Table, rows: Table, item: SchemaObject, place: Place) -> None:
    if rows.disposition != "append":
        raise text.refused(f"accumulate needs an append row table; {rows.name} is {rows.disposition}", *place)
    if not table.group_by or not table.aggregates:
        hint = "an accumulate table has a column with primaryKey: true and one with transformLogic"
        raise text.refused(hint, *place)
    sources = {column.name: column for column in rows.columns}
    aggregates = {aggregate.column: aggregate for aggregate in table.aggregates}
    for n, (column, one) in enumerate(zip(table.columns, item.properties or (), strict=True)):
        at = (*place, "properties", n)
        if one.transformSourceObjects not in (None, [rows.name]):
            raise text.refused(f"its source is the row table: [{rows.name}]", *at, "transformSourceObjects")
        aggregate = aggregates.get(column.name)
        read = aggregate.source if aggregate else column.name
        key = "transformLogic" if aggregate else "primaryKey"
        if read is not None and read not in sources:
            raise text.refused(f"{rows.name} has no column {read!r}; {one_of(sources, read)}", *at, key)
        wrong = _result_mistake(aggregate, column, sources.get(read or "")) if aggregate else None
        if not aggregate:
            wrong = _group_mistake(column, sources[column.name])
        if wrong:
            raise text.refused(wrong, *at, key)


def _group_mistake(column: Column, source: Column) -> str | None:
    if column.type != source.type:
        return f"{column.name} is {source.type.name} in the row table, {column.type.name} here"
    if column.type == JSON:
        return f"{column.name} is json: rows cannot be grouped by it; group by a field inside it instead"
    if column.type.name == "double":
        return "doubles are not exact: do not group by one"
    if not (source.required and column.required):  # NULL equals nothing: such groups would never be merged
        return f"group by a column that is required: true, here and in the row table: {column.name}"
    return None


def _result_mistake(aggregate: Aggregate, column: Column, source: Column | None) -> str | None:
    """Why the column's type cannot hold the aggregate exactly."""
    result = column.type
    if source is not None and source.type == JSON:
        return f"{source.name} is json: it cannot be aggregated; aggregate a field inside it instead"
    if aggregate.function == "count":
        return None if result.name == "integer" else f"a count is an integer, not {result.name}"
    if source is None:
        return None
    if source.type.name == "double":
        return f"{source.name} is a double: its {aggregate.function} would not be exact; use decimal(precision,scale)"
    if aggregate.function == "sum":
        return _sum_mistake(result, source)
    if source.type.name == "boolean":
        return f"booleans have no {aggregate.function}"
    return None if result == source.type else f"the {aggregate.function} of {source.type.name} is {source.type.name}"


def _sum_mistake(result: ColumnType, source: Column) -> str | None:
    digits, wanted = _digits(result), _digits(source.type)
    if wanted is None:
        return f"{source.name} is a {source.type.name}: only integers and decimals have a sum"
    if digits is None:
        return f"a sum is a decimal or an integer, not {result.name}"
    if digits[0] < wanted[0] or digits[1] < wanted[1]:
        return f"{result.name} is narrower than the {source.type.name} that it sums"
    return None


def _digits(of: ColumnType) -> tuple[int, int] | None:
    """How many digits before and after the point; None for what is no exact number."""
    if of.name == "integer":
        return 18, 0
    if of.decimal is not None:
        precision, scale = of.decimal
        return precision - scale, scale
    return None


def _batch_rules(
    text: ContractText, item: SchemaObject, disposition: str, table: str, columns: list[Column], place: Place
) -> tuple[BatchRule, ...]:
    rules = list[BatchRule]()
    for n, entry in enumerate(item.quality or ()):
        at = (*place, "quality", n)
        if disposition == "accumulate":
            raise text.refused("batch rules judge the batch's rows: write them at the row table", *at)
        rules.append(_batch_rule(text, entry, table, [column.name for column in columns], at))
    return tuple(rules)


def _batch_rule(text: ContractText, entry: DataQuality, table: str, columns: list[str], place: Place) -> BatchRule:
    if entry.type != "custom" or entry.engine != "greatExpectations":
        raise text.refused("a batch rule is written with type: custom and engine: greatExpectations", *place)
    name = checked_name(text, entry.name, "name", place)
    if wrong := rule_mistake(name):
        raise text.refused(wrong, *place, "name")
    severity = entry.severity
    if severity not in get_args(Severity):
        raise text.refused(f"unknown severity {severity!r}; {one_of(get_args(Severity), severity)}", *place, "severity")
    at = (*place, "implementation")
    written = entry.implementation
    if not isinstance(written, dict) or set(written) - {"expectation", "arguments"} or "expectation" not in written:
        raise text.refused("implementation is {expectation: Expect..., arguments: {...}}", *at)
    expectation = str(written["expectation"])
    if not re.fullmatch(r"Expect[A-Z][A-Za-z]+", expectation):
        hint = "a Great Expectations class is named like ExpectColumnSumToBeBetween"
        raise text.refused(f"{expectation!r}: {hint}", *at, "expectation")
    arguments = written.get("arguments") or {}
    if not isinstance(arguments, dict):
        raise text.refused("arguments is a mapping, such as {column: amount, min_value: 0}", *at, "arguments")
    for key in ("column", "column_A", "column_B", "column_list", "column_set"):
        named = arguments.get(key, [])
        for one in named if isinstance(named, list) else [named]:
            if one not in columns:
                raise text.refused(f"{table} has no column {one!r}; {one_of(columns, str(one))}", *at, "arguments", key)
    return BatchRule(name, table, expectation, _plain(arguments), cast("Severity", severity), entry.description or "")


def _plain(node: Any) -> Any:
    """Without ruamel's classes: it is pickled, and shown as JSON."""
    if isinstance(node, dict):
        return {str(key): _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value) for value in node]
    for kind in (bool, int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return node
