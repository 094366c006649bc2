"""A JSON Schema as fields of a contract: the inverse of exchange/json_schema.py, as far as a schema says types.

An object with properties is taken apart. What says no one type (anyOf of several, arrays, objects without properties)
goes whole into a json column.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from platform_defs.contract.message_path import MessagePath
from platform_defs.errors import BadInput
from platform_defs.exchange.found import FoundField, FoundMessage, within_limit
from platform_defs.formats.writer_schema import WriterSchema

_FORMATS = {"date": "date", "date-time": "timestamp", "time": "time", "uuid": "uuid"}
_TYPES = {"string": "string", "integer": "integer", "number": "double", "boolean": "boolean"}
_DECIMAL = re.compile(r"\^-\?(?:\[0-9\]\{1,(\d{1,2})\}|0\?)(?:\(\[\.\]\[0-9\]\{1,(\d{1,2})\}\)\?)?\$")
_NOT_CARRIED = ("enum", "const", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_LENGTHS = ("minLength", "maxLength")
_DEEPEST = 20  # levels of objects: a schema may contain itself by $ref
_MOST_STEPS = 50  # from one $ref to the next
Schema = Mapping[str, Any]


def from_json_schema(writer: WriterSchema) -> FoundMessage:
    """The fields of the object. Raises BadInput."""
    try:
        root: Any = json.loads(writer.document)
    except (ValueError, RecursionError) as wrong:
        raise BadInput(f"the JSON Schema cannot be read: {wrong}") from None
    top, _ = _meant(root, _object(root))
    if top is None or not isinstance(top.get("properties"), dict):
        raise BadInput("the schema is not of an object with properties, and only that can become the rows of a table")
    return FoundMessage("", within_limit(_fields(top, (), _object(root), required=True)))


def type_at(document: str, path: MessagePath) -> tuple[str, bool] | None:
    """The contract's type that the value there would be imported as, and whether objects must have it; None where the
    schema does not name it. Raises BadInput as `from_json_schema`.
    """
    root: Any = json.loads(document)
    here, required = root, True
    for key in path:
        found, nullable = _meant(here, root)
        properties = found.get("properties") if found else None
        if not isinstance(properties, dict) or key not in properties:
            return None
        required = required and not nullable and key in _list(found or {}, "required")
        here = cast("dict[str, Any]", properties)[key]
    found, nullable = _meant(here, root)
    return (_column(found)[0] if found is not None else "json"), required and not nullable


def _fields(of: Schema, path: MessagePath, root: Schema, *, required: bool) -> Iterator[FoundField]:
    needed = set(map(str, _list(of, "required")))
    for key, raw in cast("Mapping[str, Any]", of["properties"]).items():
        here, (found, nullable) = (*path, key), _meant(raw, root)
        always = required and key in needed and not nullable
        inside = found.get("properties") if found else None
        if found and isinstance(inside, dict) and inside and len(here) < _DEEPEST:
            yield from _fields(found, here, root, required=always)
        else:
            kind, note = _column(found) if found is not None else ("json", "a value of several types, whole")
            yield FoundField(here, kind, always, note=note)


def _meant(raw: Any, root: Schema) -> tuple[Schema | None, bool]:
    """The one type that the schema says, without null, and whether null is allowed; None where it says several."""
    nullable = False
    for _ in range(_MOST_STEPS):
        if not isinstance(raw, dict):
            return {}, True  # true: anything
        here = cast("dict[str, Any]", raw)
        if isinstance(here.get("$ref"), str):
            raw = _target(here["$ref"], root)
            continue
        choices = here.get("anyOf") or here.get("oneOf")
        if not isinstance(choices, list):
            return _of_one_type(here, nullable)
        others = [one for one in cast("list[Any]", choices) if one != {"type": "null"}]
        nullable = nullable or len(others) < len(cast("list[Any]", choices))
        if len(others) != 1:
            return None, nullable
        raw = others[0]
    return None, nullable


def _of_one_type(here: Schema, nullable: bool) -> tuple[Schema | None, bool]:
    of: Any = here.get("type")
    if not isinstance(of, list):
        return here, nullable or of in (None, "null")
    kinds = cast("list[Any]", of)
    others = [one for one in kinds if one != "null"]
    nullable = nullable or "null" in kinds
    return ({**here, "type": others[0]} if len(others) == 1 else None), nullable


def _target(reference: str, root: Schema) -> Any:
    """What a reference within the document leads to; {} for any other."""
    here: Any = root
    for step in reference.removeprefix("#").split("/")[1:] if reference.startswith("#") else ["", ""]:
        here = _object(here).get(step.replace("~1", "/").replace("~0", "~"))
    return {} if here is None else here


def _object(raw: Any) -> Schema:
    return cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}


def _column(of: Schema) -> tuple[str, str]:
    """The contract's type, and what it does not carry."""
    kind = of.get("type")
    if kind == "string" and (digits := _DECIMAL.fullmatch(str(of.get("pattern")))):
        before, behind = int(digits[1] or 0), int(digits[2] or 0)
        if 1 <= before + behind <= 38:
            return f"decimal({before + behind},{behind})", ""
    if kind == "string" and of.get("format") in _FORMATS:
        return _FORMATS[of["format"]], ""
    if kind == "string" and of.get("contentEncoding") == "base64":
        return "bytes", ""
    if not isinstance(kind, str) or kind not in _TYPES:
        return "json", f"{_spelled(kind)}, whole"
    rules = [f"{key} {json.dumps(of[key])}" for key in (*_NOT_CARRIED, *_LENGTHS) if key in of]
    return _TYPES[kind], f"rules that are not carried: {', '.join(rules)}" if rules else ""


def _spelled(kind: Any) -> str:
    return f"an {kind}" if kind in ("array", "object") else "any value"


def _list(of: Schema, key: str) -> Sequence[Any]:
    found: Any = of.get(key)
    return cast("list[Any]", found) if isinstance(found, list) else ()
