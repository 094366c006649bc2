"""The tables of a contract: the row table, its batch rules, and the accumulates over it.

With the columns that Tidegate adds, a table must keep Postgres' limits:
https://www.postgresql.org/docs/current/limits.html
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from open_data_contract_standard.model import SchemaObject, SchemaProperty

from platform_defs.contract.document.node import Node, one_of
from platform_defs.contract.keys.schema_keys import COLUMN, COLUMN_PROPERTIES, TABLE, TABLE_PROPERTIES
from platform_defs.contract.model.column_types import BOOLEAN, BYTES, DOUBLE, INTEGER, JSON, TIME, UUID
from platform_defs.contract.model.contract import Aggregate, Column, Contract, Disposition, Table
from platform_defs.contract.model.reserved import table_mistake
from platform_defs.contract.model.system_columns import staged_columns, target_columns
from platform_defs.contract.reader.batch_rules import read_batch_rules
from platform_defs.contract.reader.names import checked_name, column_name, column_type_of, custom_values

_AGGREGATE = re.compile(r"(\w+)\(\s*(\*|\w+)\s*\)")
_UNGROUPED = (UUID, TIME, BYTES)
_FUNCTIONS = ("sum", "count", "min", "max")


def read_tables(schema: Node[Any], objects: list[Node[SchemaObject]]) -> tuple[Table, ...]:
    """Return the tables, the row table first. Raises BadInput for none or several row tables, or an aggregate that is
    not exact. After mistakes that were kept, the tables are not compared with each other.
    """
    tables = list[Table]()
    for item in objects:
        with item.keeping_mistakes():
            tables.append(_table(item))
    if schema.text.mistakes:
        return tuple(tables)
    rows = [table for table in tables if table.disposition != "accumulate"]
    if len(rows) != 1:
        names = ", ".join(table.name for table in rows) or "none"
        raise schema.refused(
            f"a pipeline must have exactly one row table (disposition append or upsert); found {names}"
        )
    for table, item in zip(tables, objects, strict=True):
        if table.disposition == "accumulate":
            _check_accumulate(item, table, rows[0])
    return (rows[0], *(table for table in tables if table is not rows[0]))


def refuse_empty_groups(tables: Sequence[Table], objects: Sequence[Node[SchemaObject]]) -> None:
    """Raise BadInput for a required aggregate that is NULL for a group whose rows have no value. Postgres refuses such
    a group, and whether a batch has one depends on where batches are cut.
    """
    optional = {column.name for column in tables[0].columns if not column.required}
    nodes = {item.child("physicalName").value: item for item in objects}
    for table in tables[1:]:
        sources = {item.column: item for item in table.aggregates if item.function != "count"}
        for column, one in zip(table.columns, nodes[table.name].children("properties"), strict=True):
            made = sources.get(column.name)
            if column.required and made is not None and made.source in optional:
                raise one.child("required").refused(
                    f"the {made.function} of {made.source} is NULL for a group in which no row has a value: remove "
                    f"required here, or make {made.source} of {tables[0].name} required: true"
                )


def _table(item: Node[SchemaObject]) -> Table:
    TABLE.refuse_others(item)
    node = custom_values(item, TABLE_PROPERTIES).get("disposition")
    if node is None:
        hint = "disposition is missing: add customProperties: [{property: disposition, value: append}]"
        raise item.refused(hint, item.child("customProperties"))
    disposition: Disposition = TABLE_PROPERTIES["disposition"].read(node)
    name = checked_name(item.child("physicalName"), table_mistake, qualified=True)
    if not item.value.properties:
        raise item.refused("a table must have at least one column under properties", item.child("properties"))
    columns, aggregates = dict[str, Column](), dict[str, Aggregate]()
    for one in item.children("properties"):
        with one.keeping_mistakes():
            column = _column(one, columns)
            columns[column.name] = column
            for key in ("primaryKey", "transformLogic") if disposition != "accumulate" else ():
                if one.child(key).value:
                    why = "is only for accumulate tables; other rows are identified by their offset or message key"
                    raise one.child(key).refused(f"{key} {why}")
            if disposition == "accumulate" and (aggregate := _aggregate(one, column)):
                aggregates[column.name] = aggregate
    if len(columns) < len(item.value.properties):
        item.stop_at_mistakes()
    _refuse_circle(item, columns)
    return Table(
        name=name,
        disposition=disposition,
        columns=tuple(columns.values()),
        batch_rules=read_batch_rules(item, disposition, name, list(columns)),
        group_by=tuple(column for column in columns if disposition == "accumulate" and column not in aggregates),
        aggregates=tuple(aggregates.values()),
        description=item.value.description or "",
    )


def _column(item: Node[SchemaProperty], taken: Mapping[str, Column]) -> Column:
    COLUMN.refuse_others(item)
    name, written = column_name(item, taken), item.value
    if written.physicalName not in (None, name):
        hint = f"in a table, it can only repeat the name, {name}; for a message, it is the name of the field"
        raise item.child("physicalName").refused(f"physicalName {written.physicalName!r} is not supported: {hint}")
    of = column_type_of(item)
    renamed = custom_values(item, COLUMN_PROPERTIES).get("renamedFrom")
    if renamed and checked_name(renamed) == name:
        raise renamed.refused(
            f"renamedFrom must be the column's name before it was {name}, so it cannot be {name} itself"
        )
    return Column(
        name=name,
        type=of,
        required=bool(written.required),
        description=written.description or "",
        classification=written.classification or "",
        renamed_from=renamed.value if renamed else "",
    )


def _refuse_circle(table: Node[SchemaObject], columns: Mapping[str, Column]) -> None:
    """Raise BadInput for columns that have each other's former names: no order of renaming them works."""
    for name, one in zip(columns, table.children("properties"), strict=True):
        before, seen = columns[name].renamed_from, {name}
        while before in columns and before not in seen:
            seen.add(before)
            before = columns[before].renamed_from
        if before == name:
            node: Node[str] = custom_values(one, COLUMN_PROPERTIES)["renamedFrom"]
            raise node.refused(
                f"columns that take each other's names cannot be renamed at once ({', '.join(sorted(seen))}). Give "
                f"{columns[name].renamed_from} a temporary name in this version, and its final name in the next"
            )


def _aggregate(item: Node[SchemaProperty], column: Column) -> Aggregate | None:
    """Return the aggregate of a column; None for a column to group by."""
    node: Node[str | None] = item.child("transformLogic")
    if bool(item.value.primaryKey) == bool(node.value):
        hint = (
            "a column of an accumulate table must have either primaryKey: true (group by) or transformLogic, such "
            "as sum(column)"
        )
        raise item.refused(hint, item.child("primaryKey"), node)
    if item.value.primaryKey:
        return None
    match = _AGGREGATE.fullmatch((node.value or "").strip())
    if not match:
        raise node.refused(f"{node.value!r} is not an aggregate such as sum(amount) or count(*)")
    function, source = match[1].lower(), None if match[2] == "*" else match[2]
    if function not in _FUNCTIONS:
        hint = one_of(_FUNCTIONS, function)
        raise node.refused(f"{function} is not supported: an aggregate must not depend on batch boundaries; {hint}")
    if source is None and function != "count":
        raise node.refused(f"{function}(*) has no meaning; name a column")
    return Aggregate(column.name, function, source)


def _check_accumulate(item: Node[SchemaObject], table: Table, rows: Table) -> None:
    if rows.disposition != "append":
        raise item.refused(f"accumulate requires an append row table, but {rows.name} is {rows.disposition}")
    if not table.group_by or not table.aggregates:
        raise item.refused(
            "an accumulate table needs at least one column with primaryKey: true and one with transformLogic"
        )
    aggregates = {aggregate.column: aggregate for aggregate in table.aggregates}
    for column, one in zip(table.columns, item.children("properties"), strict=True):
        if one.value.transformSourceObjects not in (None, [rows.name]):
            raise one.child("transformSourceObjects").refused(f"the source must be [{rows.name}], the row table")
        _check_source(one, column, aggregates.get(column.name), rows)


def _check_source(item: Node[SchemaProperty], column: Column, aggregate: Aggregate | None, rows: Table) -> None:
    """Raise BadInput if the aggregated or grouped column of the row table does not exist, or does not fit."""
    sources = {source.name: source for source in rows.columns}
    read = aggregate.source if aggregate else column.name
    node = item.child("transformLogic" if aggregate else "primaryKey")
    if read is not None and read not in sources:
        raise node.refused(f"{rows.name} has no column {read!r}; {one_of(sources, read)}")
    source = sources.get(read or "")
    wrong = _result_mistake(aggregate, column, source) if aggregate else _group_mistake(column, sources[column.name])
    if wrong:
        raise node.refused(wrong)


def _group_mistake(column: Column, source: Column) -> str | None:
    if column.type != source.type:
        return f"{column.name} is {source.type.name} in the row table, {column.type.name} here"
    if column.type == JSON:
        return f"{column.name} is json, which cannot be grouped by; group by a field inside it instead"
    if column.type in _UNGROUPED or column.type.item:
        return f"{column.name} is {column.type.name}, which cannot be grouped by; group by a string instead"
    if column.type == DOUBLE:
        return "doubles are not exact, so they cannot be grouped by"
    if not (source.required and column.required):  # NULL equals nothing: such groups would never be merged
        return f"a column to group by must be required: true, here and in the row table: {column.name}"
    return None


def _result_mistake(aggregate: Aggregate, column: Column, source: Column | None) -> str | None:
    """Return why the column's type cannot store the aggregate exactly; None if it can."""
    result = column.type
    if source is not None and source.type == JSON:
        return f"{source.name} is json, which cannot be aggregated; aggregate a field inside it instead"
    if source is not None and (source.type in _UNGROUPED or source.type.item) and aggregate.function != "count":
        return f"{source.name} is {source.type.name}: it has no {aggregate.function}"
    if aggregate.function == "count":
        return None if result == INTEGER else f"a count must be an integer, not {result.name}"
    if source is None:
        return None
    if source.type == DOUBLE:
        return f"{source.name} is a double: its {aggregate.function} would not be exact; use decimal(precision,scale)"
    if aggregate.function == "sum":
        if source.type.digits is None:
            return f"{source.name} is a {source.type.name}: only integers and decimals have a sum"
        if result.digits is None:
            return f"a sum must be a decimal or an integer, not {result.name}"
        narrower = any(ours < wanted for ours, wanted in zip(result.digits, source.type.digits, strict=True))
        return f"{result.name} is narrower than the {source.type.name} that it sums" if narrower else None
    if source.type == BOOLEAN:
        return f"booleans have no {aggregate.function}"
    if result == source.type:
        return None
    right, wrong = source.type.name, f"{column.name} is {result.name}"
    return f"{wrong}, but the {aggregate.function} of {source.name} is {right}; declare {column.name} as {right}"


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
