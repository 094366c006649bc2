"""What every named thing of a contract has in common: a name that Postgres takes, a type, custom properties."""

import re
from collections.abc import Iterable
from typing import Any

from open_data_contract_standard.model import CustomProperty, SchemaProperty

from platform_defs.contract.column_types import JSON, ColumnType, column_type
from platform_defs.contract.reserved import column_mistake
from platform_defs.contract.text import ContractText, Place, one_of
from platform_defs.errors import BadInput

_NAME = r"[a-z_][a-z0-9_]*"
_LONGEST = 63  # bytes: NAMEDATALEN - 1; Postgres cuts longer names without an error
_PROPERTY_KEYS = {  # of all that ODCS has, what Tidegate holds to or only shows; anything else would be a false promise
    *(
        "id",
        "name",
        "physicalName",
        "businessName",
        "description",
        "classification",
        "tags",
        "authoritativeDefinitions",
    ),
    *("logicalType", "physicalType", "required", "logicalTypeOptions", "quality", "examples", "primaryKey"),
    *("transformLogic", "transformSourceObjects", "transformDescription", "criticalDataElement", "deprecated"),
}
_FLAT = (
    "list each nested field on its own, with its path as physicalName (such as user.address.city), "
    "or keep the whole value in a column of physicalType: json"
)
_INSTEAD = {
    "enum": "write an enum as quality: metric invalidValues",
    "properties": _FLAT,
    "items": _FLAT,
    "map": _FLAT,
}
_PHYSICAL_TYPE_NEEDED = {
    "number": "does not say which: add physicalType: decimal(precision,scale) or physicalType: double",
    "object": f"is not one column: {_FLAT}",
    "array": "is not one column: keep it in a column of physicalType: json",
    "map": "is not one column: keep it in a column of physicalType: json",
}
_TYPES = ("string", "integer", "double", "boolean", "date", "timestamp", "json", "decimal(18,2)")


def checked_name(text: ContractText, name: str | None, key: str, place: Place, *, qualified: bool = False) -> str:
    """`name` if Postgres takes it unquoted and whole; BadInput otherwise. `qualified`: schema.table."""
    shape = rf"{_NAME}\.{_NAME}" if qualified else _NAME
    if not name or not re.fullmatch(shape, name):
        wanted = "schema.table" if qualified else "a name"
        hint = f"{wanted} of lower-case letters, digits and _, not beginning with a digit"
        raise text.refused(f"{name!r} is not {hint}" if name else f"{key} is missing: {hint}", *place, key)
    if any(len(part) > _LONGEST for part in name.split(".")):
        raise text.refused(f"longer than Postgres' {_LONGEST} bytes: {name}", *place, key)
    return name


def column_name(text: ContractText, item: SchemaProperty, place: Place, taken: Iterable[str]) -> str:
    """The property's name, checked, not reserved, not yet taken."""
    name = checked_name(text, item.name, "name", place)
    if wrong := column_mistake(name):
        raise text.refused(wrong, *place, "name")
    if name in taken:
        raise text.refused(f"{name!r} is defined twice", *place, "name")
    for key in item.model_fields_set - _PROPERTY_KEYS:
        raise text.refused(f"{key} is not supported: {_INSTEAD.get(key, 'Tidegate would not hold to it')}", *place, key)
    return name


def snake_case(name: str) -> str | None:
    """The column that a key such as `deviceId` or `user.address` suggests; None where it suggests none."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+", "_", name).strip("_").lower()
    return words if re.fullmatch(_NAME, words) and len(words) <= _LONGEST else None


def column_type_of(text: ContractText, item: SchemaProperty, place: Place) -> ColumnType:
    """physicalType if given, else logicalType; BadInput for an unknown type, or two that disagree."""
    key = "physicalType" if item.physicalType is not None else "logicalType"
    written = item.physicalType or item.logicalType
    if written is None:
        raise text.refused("a type is missing: give logicalType or physicalType", *place)
    if key == "logicalType" and (hint := _PHYSICAL_TYPE_NEEDED.get(written)):
        raise text.refused(f"{written} {hint}", *place, key)
    try:
        found = column_type(written)
    except BadInput as wrong:
        close = "did you mean 'json'?" if written == "jsonb" else one_of(_TYPES, written)
        hint = f"; {close}" if close.startswith("did") else ""
        raise text.refused(f"{wrong}{hint}", *place, key) from None
    logical = _logical_types(found)
    if item.logicalType is not None and item.logicalType not in logical:
        raise text.refused(
            f"physicalType {written} goes with logicalType {' or '.join(logical)}, not {item.logicalType}",
            *place,
            "logicalType",
        )
    return found


def _logical_types(of: ColumnType) -> tuple[str, ...]:
    """The ODCS logical types that a column of this type may have."""
    if of == JSON:
        return ("object", "array")
    return ("number",) if of.name == "double" or of.name.startswith("decimal") else (of.name,)


def custom_values(
    text: ContractText, properties: list[CustomProperty] | None, known: Iterable[str], place: Place
) -> dict[str, tuple[Any, Place]]:
    """customProperties as name → (value, its place); BadInput for an unknown one, or one given twice."""
    found = dict[str, tuple[Any, Place]]()
    for n, item in enumerate(properties or ()):
        at, name = (*place, "customProperties", n), item.property or ""
        if name not in known:
            raise text.refused(f"unknown custom property {name!r}; {one_of(known, name)}", *at, "property")
        if name in found:
            raise text.refused(f"{name!r} is defined twice", *at, "property")
        found[name] = (item.value, (*at, "value"))
    return found
