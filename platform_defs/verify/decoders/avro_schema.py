"""An Avro schema as verify's own types, parsed from its JSON."""

import json
from collections.abc import Mapping
from typing import Any, cast

from platform_defs.verify.decoders.avro_types import Array, Enum, Fixed, Map, Plain, Record, Type, Union
from platform_defs.verify.decoders.documents import MAX_DEPTH, NotTheType

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
MAX_NAME = 1_000  # characters, of symbols too
_UNITS = ("millis", "micros", "nanos")
LOGICAL = {  # logical types of numbers and texts, by their type
    "int": ("date", "time-millis"),
    "long": ("time-micros", *(f"{local}timestamp-{unit}" for local in ("", "local-") for unit in _UNITS)),
    "string": ("uuid",),
}


class WriterTypes:
    """The types of a schema and of its references: read the references first."""

    def __init__(self) -> None:
        self._named: dict[str, Type] = {}

    def read(self, document: str) -> Type:
        """Return the type in the JSON text. Raises NotTheType, SchemaNotCompatible, if there is none."""
        try:
            bare = document.strip() in PRIMITIVES
            return self._type(document.strip() if bare else json.loads(document), "", 0)
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            raise NotTheType("SchemaNotCompatible") from None

    def _type(self, schema: Any, namespace: str, level: int) -> Type:
        if level > MAX_DEPTH:
            raise ValueError(level)
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        if isinstance(schema, list):
            branches = [self._type(branch, namespace, level + 1) for branch in cast("list[Any]", schema)]
            if not branches or any(isinstance(branch, Union) for branch in branches):
                raise ValueError(branches)
            return Union(branches)
        kind: Any = schema["type"]
        match kind:
            case "array":
                return Array(self._type(schema["items"], namespace, level + 1))
            case "map":
                return Map(self._type(schema["values"], namespace, level + 1))
            case "record" | "error":
                return self._record(schema, namespace, level)
            case "enum":
                return self._name(schema, namespace, Enum(_symbols(schema["symbols"])))
            case "fixed":
                if type(size := schema["size"]) is not int or not 0 <= size < 2**31:
                    raise ValueError(size)
                return self._name(schema, namespace, Fixed(size, *_logical(schema, "fixed")))
            case _:
                of = self._type(kind, namespace, level + 1)
                logical, scale = _logical(schema, of.kind) if isinstance(of, Plain) else ("", 0)
                return Plain(of.kind, logical, scale) if logical else of

    def _by_name(self, name: str, namespace: str) -> Type:
        if name in PRIMITIVES:
            return Plain(name)
        local = f"{namespace}.{name}" if namespace and "." not in name else name
        return self._named[local] if local in self._named else self._named[name]

    def _record(self, schema: Mapping[str, Any], namespace: str, level: int) -> Type:
        record = Record(_full_name(schema, namespace))
        self._name(schema, namespace, record)
        inner = record.name.rpartition(".")[0]
        for item in schema["fields"]:
            if _storable(item["name"]) in record.fields:
                raise ValueError(item["name"])
            record.fields[item["name"]] = self._type(item["type"], inner, level + 1)
        return record

    def _name(self, schema: Mapping[str, Any], namespace: str, of: Type) -> Type:
        name = _full_name(schema, namespace)
        if name in self._named:
            raise ValueError(name)
        self._named[name] = of
        return of


def _full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name, own = _storable(schema["name"]), schema.get("namespace")
    space = own if isinstance(own, str) else namespace
    return _storable(f"{space}.{name}" if space and "." not in name else name)


def _storable(name: Any) -> str:
    if not isinstance(name, str) or not name or "\0" in name or len(name) > MAX_NAME:
        raise ValueError(name)
    name.encode()  # a surrogate is a ValueError
    return name


def _symbols(symbols: Any) -> list[str]:
    if not isinstance(symbols, list):
        raise ValueError(symbols)
    found = cast("list[Any]", symbols)
    return [symbol and _storable(symbol) for symbol in found]


def _logical(schema: Mapping[str, Any], kind: str) -> tuple[str, int]:
    """Return the logical type and its scale; none if Avro ignores it."""
    name: Any = schema.get("logicalType")
    if name == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        right = type(precision) is int and type(scale) is int and 0 <= scale <= precision and precision > 0
        return (name, scale) if right else ("", 0)
    if name == "uuid" and kind == "fixed":
        return (name, 0) if schema["size"] == 16 else ("", 0)
    return (name, 0) if isinstance(name, str) and name in LOGICAL.get(kind, ()) else ("", 0)
