"""A contract as an Avro schema.

    string     string
    integer    long
    double     double
    decimal    bytes (decimal)
    boolean    boolean
    date       int (date)
    timestamp  long (timestamp-micros); of a field with a unit, long
    time       long (time-micros)
    uuid       string (uuid)
    bytes      bytes
    array      array
    json       null, a scalar, or arrays and maps of these, three levels deep: Avro has no type for any JSON

A field that is not required is a union with null first, so that null can be its default.
"""

import json
from typing import Any

from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.contract import Contract
from platform_defs.schemas.conversion.tree import Member, camel_case, members_of, record_name, unique

_LEVELS = 3  # of arrays and maps in a json column
_SCALARS = ("null", "boolean", "long", "double", "string")
_TYPES: dict[str, Any] = {
    "string": "string",
    "integer": "long",
    "double": "double",
    "boolean": "boolean",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "uuid": {"type": "string", "logicalType": "uuid"},
    "bytes": "bytes",
}


def avro_schema(contract: Contract) -> str:
    """Return the JSON text of a record's schema. Raises BadInput for a field whose name Avro does not take."""
    full = record_name(contract)
    namespace, _, name = full.rpartition(".")
    document = {"type": "record", "name": name, **({"namespace": namespace} if namespace else {})}
    if contract.description:
        document["doc"] = contract.description
    taken = {name}
    fields = [_field(member, taken) for member in members_of(contract)]
    return json.dumps({**document, "fields": fields}, indent=2, ensure_ascii=False)


def _field(member: Member, taken: set[str]) -> dict[str, Any]:
    if member.members:
        name = unique(camel_case(member.path), taken.__contains__)
        taken.add(name)
        of: Any = {"type": "record", "name": name, "fields": [_field(inner, taken) for inner in member.members]}
    else:
        of = "long" if member.field and member.field.unit else _type_of(member.field.type if member.field else None)
    nullable = isinstance(of, list)  # json is a union already, with null
    written: dict[str, Any] = {"name": member.name, "type": of if member.required or nullable else ["null", of]}
    if nullable and member.required:
        written["type"] = of[1:]
    if not member.required:
        written["default"] = None
    if member.description:
        written["doc"] = member.description
    if member.aliases:
        written["aliases"] = member.aliases
    return written


def _type_of(of: ColumnType | None) -> Any:
    if of is None or of.kind == "json":
        return _any(_LEVELS)
    if of.item:
        return {"type": "array", "items": _type_of(of.item)}
    if of.kind == "decimal":
        return {"type": "bytes", "logicalType": "decimal", "precision": of.precision, "scale": of.scale}
    return _TYPES[of.kind]


def _any(levels: int) -> list[Any]:
    if not levels:
        return list(_SCALARS)
    inner = _any(levels - 1)
    return [*_SCALARS, {"type": "array", "items": inner}, {"type": "map", "values": inner}]
