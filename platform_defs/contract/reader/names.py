"""The parts that every named thing of a contract has: a name that Postgres accepts, a type, custom properties."""

import re
from collections.abc import Callable, Container
from typing import Any

from open_data_contract_standard.model import SchemaProperty

from platform_defs.contract.document.node import Node, one_of
from platform_defs.contract.document.section import Section
from platform_defs.contract.keys.contract_keys import CUSTOM_ENTRY
from platform_defs.contract.keys.schema_keys import FLAT, ITEMS
from platform_defs.contract.model.column_types import FIXED, ColumnType, column_type, kind_of
from platform_defs.contract.model.reserved import column_mistake
from platform_defs.errors import BadInput

_NAME = r"[a-z_][a-z0-9_]*"
is_name = re.compile(_NAME).fullmatch
_LONGEST = 63  # bytes: NAMEDATALEN - 1; Postgres cuts longer names without an error
_LETTERS = "lower-case letters, digits and _, and {} not begin with a digit"
_PLAIN = f"must consist of {_LETTERS.format('must')}"
_QUALIFIED = f"must be written schema.table; both parts use {_LETTERS.format('do')}"
_PHYSICAL_TYPE_NEEDED = {
    "number": "is ambiguous: add physicalType: decimal(precision,scale) or physicalType: double",
    "object": f"is not one column: {FLAT}",
    "array": "needs its items, such as items: {logicalType: string}; an array of objects or of arrays is not one "
    "column: keep it in a column of physicalType: json",
    "map": "is not one column: keep it in a column of physicalType: json",
}
_TYPES = (*FIXED, "decimal(18,2)")  # to suggest from
_POSTGRES_NAMES = {of.postgres: of.name for of in FIXED.values()} | {
    "int8": "integer",
    "bool": "boolean",
    "float8": "double",
    "timestamptz": "timestamp",
}
_MEANT = {  # types of Postgres and of other systems that a column cannot have, and what to write
    **dict.fromkeys(
        ("varchar", "varchar2", "nvarchar", "character varying"),
        "string, with logicalTypeOptions: {{maxLength: {}}} if its length is limited",
    ),
    "char": "string, with logicalTypeOptions: {{minLength: {0}, maxLength: {0}}}",
    **dict.fromkeys(("str", "citext", "clob", "enum", "interval"), "string"),
    **dict.fromkeys(
        ("int", "int4", "int32", "int64", "long", "serial", "bigserial", "smallint", "tinyint"),
        "integer, which has 64 bits",
    ),
    **dict.fromkeys(
        ("float", "float4", "float32", "float64", "real"), "double, or decimal(precision,scale) for exact numbers"
    ),
    **dict.fromkeys(("numeric", "decimal", "money"), "decimal(precision,scale), such as decimal(18,2)"),
    **dict.fromkeys(("datetime", "date-time", "datetime2", "datetimeoffset", "instant"), "timestamp"),
    **dict.fromkeys(("binary", "varbinary", "blob"), "bytes"),
    **dict.fromkeys(("guid", "uniqueidentifier"), "uuid"),
    **dict.fromkeys(("dict", "record", "struct", "variant"), "json"),
    "list": "array<type>, such as array<string>",
}


def checked_name(
    name: Node[Any], mistake: Callable[[str], str | None] = lambda _: None, *, qualified: bool = False
) -> str:
    """Return the name if Postgres accepts it unquoted and whole, and `mistake` returns no reason why not; else raise
    BadInput. `qualified`: schema.table.
    """
    shape = rf"{_NAME}\.{_NAME}" if qualified else _NAME
    if not name.value:
        raise name.refused(f"{name.place[-1]} is missing")
    if not isinstance(name.value, str) or not re.fullmatch(shape, name.value):
        raise name.refused(f"{name.value!r} {_QUALIFIED if qualified else _PLAIN}")
    if any(len(part) > _LONGEST for part in name.value.split(".")):
        raise name.refused(f"a name can have at most {_LONGEST} bytes (a Postgres limit): {name.value}")
    if wrong := mistake(name.value):
        raise name.refused(wrong)
    return name.value


def column_name(item: Node[SchemaProperty], taken: Container[str]) -> str:
    """Return the property's name, checked, not reserved, not yet taken."""
    node = item.child("name")
    name = checked_name(node, column_mistake)
    if name in taken:
        raise node.refused(f"{name!r} is defined twice")
    return name


def snake_case(name: str) -> str | None:
    """Return the column that a key such as `deviceId` or `user.address` suggests; None if it suggests none."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+", "_", name).strip("_").lower()
    return words if is_name(words) and len(words) <= _LONGEST else None


def column_type_of(item: Node[SchemaProperty]) -> ColumnType:
    """Return the type of physicalType, or else of logicalType. Raises BadInput for an unknown type, or two that
    disagree.
    """
    if item.value.items is not None:
        return _array_of(item)
    node = item.child("logicalType" if item.value.physicalType is None else "physicalType")
    if node.value is None:
        missing = item.child("logicalType"), item.child("physicalType")
        raise item.refused("a type is missing: add logicalType or physicalType", *missing)
    if item.value.physicalType is None and (hint := _PHYSICAL_TYPE_NEEDED.get(node.value)):
        raise node.refused(f"logicalType {node.value} {hint}", item.child("physicalType"), item.child("items"))
    try:
        # A contract may name a type as Postgres does.
        found = column_type(_POSTGRES_NAMES.get(node.value) or re.sub(r"^numeric\(", "decimal(", node.value))
    except BadInput as wrong:
        guess = one_of(_TYPES, node.value)
        unknown = f"{wrong}; {guess}" if guess.startswith("did") else str(wrong)
        name, _, argument = node.value.lower().removesuffix(")").partition("(")  # of Postgres, or of other systems
        if name in _MEANT and not (argument and name in ("decimal", "numeric")):
            unknown = f"type {node.value!r} is not supported; write {_MEANT[name].format(argument or 'N')}"
        raise node.refused(unknown) from None
    logical = item.value.logicalType
    if logical is not None and logical not in found.logical_types:
        right = " or ".join(found.logical_types)
        raise item.child("logicalType").refused(
            f"physicalType {node.value} requires logicalType {right}, not {logical}"
        )
    return found


def _array_of(item: Node[SchemaProperty]) -> ColumnType:
    items, given = item.child("items"), item.value
    if given.logicalType != "array" or kind_of(given.physicalType or "array") not in ("array", "json"):
        raise items.refused("items requires logicalType: array", item.child("logicalType"))
    if given.physicalType == "json":
        raise items.refused(
            f"a json column keeps any value whole; leave out items, or leave out physicalType: json: {FLAT}"
        )
    ITEMS.refuse_others(items)
    of = column_type_of(items)
    try:
        found = column_type(f"array<{of.name}>")
    except BadInput as wrong:
        raise items.refused(str(wrong)) from None
    if given.physicalType not in (None, "array", found.name):
        raise item.child("physicalType").refused(
            f"physicalType {given.physicalType} does not match items, which say {found.name}"
        )
    return found


def custom_values(owner: Node[Any], section: Section) -> dict[str, Node[Any]]:
    """Return the owner's customProperties by name: the node of each value. Raises BadInput for an unknown or duplicate
    one.
    """
    found = dict[str, Node[Any]]()
    for item in owner.children("customProperties"):
        CUSTOM_ENTRY.refuse_others(item)
        name: str = item.value.property or ""
        if name in section.removed:
            continue
        if name not in section.known:
            message = f"unknown custom property {name!r}; {one_of(section.names(), name)}"
            raise item.child("property").refused(message)
        if name in found:
            raise item.child("property").refused(f"{name!r} is defined twice")
        found[name] = item.child("value")
    return found
