"""A contract as a schema, in any of the languages; here as a JSON Schema (draft 7), with its row rules as far as JSON
Schema has them.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from platform_defs.contract.keys.schema_keys import OPTIONS
from platform_defs.contract.model.contract import Contract, Field, Format
from platform_defs.schemas.conversion.avro import avro_schema
from platform_defs.schemas.conversion.protobuf import proto_text
from platform_defs.schemas.conversion.tree import Member, record_name, tree_of

DRAFT = "http://json-schema.org/draft-07/schema#"
_TYPES: Mapping[str, Mapping[str, Any]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "double": {"type": "number"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "timestamp": {"type": "string", "format": "date-time"},
    "time": {"type": "string"},  # JSON Schema's own format demands an offset
    "uuid": {"type": "string", "format": "uuid"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
}


def export_schema(contract: Contract, kind: Format) -> str:
    """Return the schema's text. Raises BadInput for a contract that cannot be written in the language."""
    return {"avro": avro_schema, "protobuf": proto_text, "json": json_schema}[kind](contract)


def json_schema(contract: Contract) -> str:
    """Return the JSON text of the schema of an object, which may have further members."""
    document = {"$schema": DRAFT, "title": record_name(contract).rpartition(".")[2]}
    if contract.description:
        document["description"] = contract.description
    return json.dumps({**document, **_object(tree_of(contract))}, indent=2, ensure_ascii=False)


def _object(members: tuple[Member, ...]) -> dict[str, Any]:
    required = [member.name for member in members if member.required]
    properties = {member.name: _member(member) for member in members}
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _member(member: Member) -> dict[str, Any]:
    written = _object(member.members) if member.members else _value(member.field)
    if not member.required and "type" in written:
        written["type"] = [written["type"], "null"]
        if "enum" in written:
            written["enum"] = [*written["enum"], None]
    return {**written, **({"description": member.description} if member.description else {})}


def _value(item: Field | None) -> dict[str, Any]:
    if item is None or item.type.kind == "json":
        return {}
    if item.type.item:
        return {"type": "array", "items": _value(replace(item, type=item.type.item, rules=()))}
    if item.type.kind == "decimal":
        whole, scale = item.type.precision - item.type.scale, item.type.scale
        before, after = rf"[0-9]{{1,{whole}}}" if whole else "0?", rf"([.][0-9]{{1,{scale}}})?" if scale else ""
        return {"type": "string", "pattern": f"^-?{before}{after}$"}
    return {**_TYPES["integer" if item.unit else item.type.kind], **_rules(item)}


def _rules(item: Field) -> dict[str, Any]:
    """Return the rules of a number or a text; JSON Schema has no limits of dates."""
    found = {rule.kind: rule.argument for rule in item.rules if rule.kind != "required"}
    pattern = found.pop("pattern", None)
    written = {key.name: found[key.attribute] for key in OPTIONS.keys if key.attribute in found}
    if item.type.kind not in ("string", "integer", "double"):
        return {}
    if "enum" in found:
        written["enum"] = list(found["enum"])
    if pattern:
        written["pattern"] = f"^(?:{pattern})$"
    return written
