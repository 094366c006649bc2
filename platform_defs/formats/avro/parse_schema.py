"""Parses the JSON text of an Avro schema into types.

Only the parts that define the bytes are parsed. As in Avro, unknown logical types, and those that do not fit their
type, are ignored. A schema that leaves the meaning of the bytes open is refused: an unknown type, a name that is
defined twice.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, cast, get_args

from platform_defs.formats.avro import schema as avro
from platform_defs.formats.blocks.budget import too_long
from platform_defs.formats.blocks.excerpt import excerpt

MAX_LEVELS = 100  # of nesting in the schema's text: far below Python's recursion limit
_PRIMITIVES: frozenset[str] = frozenset(get_args(avro.PrimitiveName))
_UNITS = ("millis", "micros", "nanos")
_TIMES = {f"{kind}-{unit}": "long" for kind in ("timestamp", "local-timestamp") for unit in _UNITS}
_LOGICAL = {"date": "int", "time-millis": "int", "time-micros": "long", "uuid": "string", **_TIMES}  # decimal: apart
_unstorable = re.compile("[\0\ud800-\udfff]").search


class NotAvro(ValueError):
    """The text is not an Avro schema; the message says why."""


def parse_schema(document: str, references: Iterable[tuple[str, str]] = ()) -> avro.Schema:
    """Return the schema of `document`, which may use the named types of `references`, (name, JSON text); each reference
    may use the ones before it. Raises NotAvro.
    """
    parser = _Parser()
    for name, text in references:
        try:
            parser.type_of(_json(text))
        except NotAvro as wrong:
            raise NotAvro(f"in the referenced schema {excerpt(name)}: {wrong}") from None
    root = parser.type_of(_json(document))
    return avro.Schema(root, parser.named)


def _json(text: str) -> Any:
    """Return the document. A lone name such as `string` may lack its quotes, as in some responses of the registry."""
    if text.strip() in _PRIMITIVES:
        return text.strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as wrong:  # ValueError also for a number of more than 4,300 digits
        raise NotAvro(f"it is not JSON ({excerpt(str(wrong))})") from None


class _Parser:
    """Collects the named types of one schema and of the schemas that it refers to."""

    def __init__(self) -> None:
        self.named = dict[str, avro.Named]()
        self._begun = set[str]()  # records whose fields are being read may be referred to in them

    def type_of(self, raw: Any, namespace: str = "", level: int = 0) -> avro.AvroType:
        """Return the type that `raw`, a part of the schema's JSON, defines. Raises NotAvro."""
        if level > MAX_LEVELS:
            raise NotAvro(f"it nests deeper than {MAX_LEVELS} levels")
        if isinstance(raw, str):
            return self._by_name(raw, namespace)
        if isinstance(raw, list):
            branches = tuple(self.type_of(branch, namespace, level + 1) for branch in cast("list[Any]", raw))
            if not branches:
                raise NotAvro("a union has no branches")
            if any(isinstance(branch, avro.Union) for branch in branches):
                raise NotAvro("a union is directly in a union")
            return avro.Union(branches)
        if isinstance(raw, dict):
            return self._complex(cast("dict[str, Any]", raw), namespace, level)
        raise NotAvro(f"{_shown(raw)} is not a type")

    def _by_name(self, name: str, namespace: str) -> avro.AvroType:
        if name in _PRIMITIVES:
            return avro.Primitive(cast("avro.PrimitiveName", name))
        for full in (name if "." in name else _joined(namespace, name), name):
            if full in self._begun:
                return avro.Reference(full)
        raise NotAvro(f"the type {excerpt(name)} is not defined before it is used")

    def _complex(self, raw: dict[str, Any], namespace: str, level: int) -> avro.AvroType:
        kind = raw.get("type")
        if kind == "array":
            return avro.Array(self.type_of(_part(raw, "items"), namespace, level + 1))
        if kind == "map":
            return avro.Map(self.type_of(_part(raw, "values"), namespace, level + 1))
        if kind in ("record", "error"):
            return self._record(raw, namespace, level)
        if kind in ("enum", "fixed"):
            full = self._defined(raw, namespace)
            found = _enum(raw, full) if kind == "enum" else _fixed(raw, full)
            self.named[full] = found
            return found
        found = self.type_of(_part(raw, "type"), namespace, level + 1)
        if not isinstance(found, avro.Primitive):
            return found
        meaning = raw.get("connect.name", found.connect_name)
        return avro.Primitive(
            found.name,
            _logical(raw, found) or found.logical,
            _not_decimal(raw, found) or found.not_decimal,
            meaning if isinstance(meaning, str) else "",
        )

    def _record(self, raw: dict[str, Any], namespace: str, level: int) -> avro.Record:
        full = self._defined(raw, namespace)
        inner = full.rpartition(".")[0]
        fields = dict[str, avro.RecordField]()
        for item in _items(raw, "fields", dict):
            name = _text(item, "name")
            if name in fields:
                raise NotAvro(f"the record {excerpt(full)} has the field {excerpt(name)} twice")
            default = json.dumps(item["default"]) if "default" in item else None
            fields[name] = avro.RecordField(name, self.type_of(_part(item, "type"), inner, level + 1), default)
        found = avro.Record(full, tuple(fields.values()))
        self.named[full] = found
        return found

    def _defined(self, raw: dict[str, Any], namespace: str) -> str:
        """Register the type that begins here; return its full name."""
        name = _text(raw, "name")
        own = raw.get("namespace", namespace)
        full = name if "." in name else _joined(own if isinstance(own, str) else namespace, name)
        _refuse_long(full)
        if full in self._begun:
            raise NotAvro(f"the type {excerpt(full)} is defined twice")
        self._begun.add(full)
        return full


def _joined(namespace: str, name: str) -> str:
    return f"{namespace}.{name}" if namespace else name


def _enum(raw: dict[str, Any], full: str) -> avro.Enum:
    symbols = tuple(_items(raw, "symbols", str))
    for symbol in symbols:
        _refuse_long(symbol)
    if any(map(_unstorable, symbols)):
        raise NotAvro(f"a symbol of the enum {excerpt(full)} is not text that Postgres can store")
    return avro.Enum(full, symbols)


def _fixed(raw: dict[str, Any], full: str) -> avro.Fixed:
    size = raw.get("size")
    if type(size) is not int or not 0 <= size < 2**31:
        raise NotAvro(f"the size of the fixed {excerpt(full)} is not a number of bytes")
    bare = avro.Fixed(full, size)
    return avro.Fixed(full, size, _logical(raw, bare), _not_decimal(raw, bare))


def _logical(raw: dict[str, Any], of: avro.Primitive | avro.Fixed) -> avro.Logical | None:
    """Return the logical type; None if Avro does not know it, or it does not fit the type."""
    name = raw.get("logicalType")
    kind = of.name if isinstance(of, avro.Primitive) else "fixed"
    if name == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = raw.get("precision"), raw.get("scale", 0)
        whole = type(precision) is int and type(scale) is int and 0 <= scale <= precision and precision > 0
        return avro.Logical("decimal", cast("int", precision), cast("int", scale)) if whole else None
    if name == "uuid" and isinstance(of, avro.Fixed):
        return avro.Logical("uuid") if of.size == 16 else None
    return avro.Logical(name) if isinstance(name, str) and _LOGICAL.get(name) == kind else None


def _not_decimal(raw: dict[str, Any], of: avro.Primitive | avro.Fixed) -> str:
    """Return why Avro ignores the decimal; empty if there is none, or it is valid."""
    if raw.get("logicalType") != "decimal" or _logical(raw, of):
        return ""
    if isinstance(of, avro.Primitive) and of.name != "bytes":
        return "only bytes and fixed can be one"
    precision, scale = (excerpt(json.dumps(raw.get(key, 0))) for key in ("precision", "scale"))
    return f"the precision must be at least 1, and the scale 0 to the precision; they are {precision} and {scale}"


def _shown(raw: Any) -> str:
    """Format a part of the schema for a sentence; without an object's content, which may be of any depth."""
    return excerpt(raw) if isinstance(raw, str) else f"a {type(raw).__name__}"


def _part(raw: dict[str, Any], key: str) -> Any:
    if key not in raw:
        raise NotAvro(f"a type or field has no {key}")
    return raw[key]


def _text(raw: dict[str, Any], key: str) -> str:
    found = _part(raw, key)
    if not isinstance(found, str) or not found or _unstorable(found):
        raise NotAvro(f"{_shown(found)} is not a {key}")
    _refuse_long(found)
    return found


def _refuse_long(name: str) -> None:
    """Raise NotAvro for a name that is too long: each byte of a message could repeat it."""
    if why := too_long(name):
        raise NotAvro(why)


def _items(raw: dict[str, Any], key: str, kind: type[Any]) -> list[Any]:
    found = _part(raw, key)
    if not isinstance(found, list) or not all(isinstance(item, kind) for item in cast("list[Any]", found)):
        raise NotAvro(f"{key} is not a list of {'objects' if kind is dict else 'texts'}")
    return cast("list[Any]", found)
