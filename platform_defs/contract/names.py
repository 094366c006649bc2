"""What every named thing of a contract has in common: a name that Postgres takes, a type, custom properties."""

import re
from collections.abc import Iterable
from typing import Any

from open_data_contract_standard.model import CustomProperty, SchemaProperty

from platform_defs.contract.column_types import ColumnType, column_type
from platform_defs.contract.text import ContractText, Place, one_of
from platform_defs.errors import BadInput

_NAME = r"[a-z_][a-z0-9_]*"
_LONGEST = 63  # bytes: NAMEDATALEN - 1; Postgres cuts longer names without an error
_PROPERTY_KEYS = {  # of all that ODCS has, what Tidegate holds to or only shows; anything else would be a false promise
    *("id", "name", "businessName", "description", "classification", "tags", "authoritativeDefinitions"),
    *("logicalType", "physicalType", "required", "logicalTypeOptions", "quality", "examples", "primaryKey"),
    *("transformLogic", "transformSourceObjects", "transformDescription", "criticalDataElement", "deprecated"),
}


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


def column_name(text: ContractText, item: SchemaProperty, place: Place, taken: set[str]) -> str:
    """The property's name, checked, not reserved, not yet taken."""
    name = checked_name(text, item.name, "name", place)
    if name.startswith("_"):
        raise text.refused(f"{name!r}: names beginning with _ are the engine's own", *place, "name")
    if name in taken:
        raise text.refused(f"{name!r} stands here twice", *place, "name")
    for key in item.model_fields_set - _PROPERTY_KEYS:
        hint = "write an enum as quality: metric invalidValues" if key == "enum" else "Tidegate does not hold to it"
        raise text.refused(f"{key} is not supported: {hint}", *place, key)
    return name


def column_type_of(text: ContractText, item: SchemaProperty, place: Place) -> ColumnType:
    """physicalType if given, else logicalType; BadInput for an unknown type, or two that disagree."""
    key = "physicalType" if item.physicalType is not None else "logicalType"
    written = item.physicalType or item.logicalType
    if written is None:
        raise text.refused("a type is missing: give logicalType or physicalType", *place)
    if key == "logicalType" and written == "number":
        raise text.refused("number: say which, with physicalType: decimal(precision,scale) or double", *place, key)
    try:
        found = column_type(written)
    except BadInput as wrong:
        close = one_of(("string", "integer", "double", "boolean", "date", "timestamp", "decimal(18,2)"), written)
        hint = f"; {close}" if close.startswith("did") else ""
        raise text.refused(f"{wrong}{hint}", *place, key) from None
    logical = "number" if found.name == "double" or found.name.startswith("decimal") else found.name
    if item.logicalType not in (None, logical):
        raise text.refused(f"physicalType {written} goes with logicalType {logical}", *place, "logicalType")
    return found


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
            raise text.refused(f"{name!r} stands here twice", *at, "property")
        found[name] = (item.value, (*at, "value"))
    return found
