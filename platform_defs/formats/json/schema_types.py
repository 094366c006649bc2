"""The types that a JSON Schema gives to values. `$ref` within the document, `anyOf` and `oneOf` are followed; `allOf`,
conditions and references to other documents are not.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

from platform_defs.contract.model.column_types import JSON, ColumnType, array_or_json, column_type

_PLAIN = {"string": "string", "integer": "integer", "number": "double", "boolean": "boolean"}
_FORMATS = {"date": "date", "date-time": "timestamp", "time": "time", "uuid": "uuid"}
_DECIMAL = re.compile(r"\^-\?(?:\[0-9\]\{1,(\d{1,2})\}|0\?)(?:\(\[\.\]\[0-9\]\{1,(\d{1,2})\}\)\?)?\$")
_MAX_STEPS = 50  # from one $ref or choice to the next: a schema may contain itself
Node = Mapping[str, Any]


def node(raw: Any) -> Node:
    """Return the schema itself; an empty one for anything else, such as true."""
    return cast("Node", raw) if isinstance(raw, dict) else {}


def required_by(of: Node) -> frozenset[str]:
    """Return the keys that an object must have."""
    listed: Any = of.get("required")
    return frozenset(map(str, cast("list[Any]", listed))) if isinstance(listed, list) else frozenset()


def meant(raw: Any, root: Node) -> tuple[Node | None, bool]:
    """Return the one type of the schema, None if it has several, without null; and True if null is allowed."""
    nullable = False
    for _ in range(_MAX_STEPS):
        if not isinstance(raw, dict):
            return {}, True  # true: anything
        here = cast("Node", raw)
        if isinstance(here.get("$ref"), str):
            raw = _target(here["$ref"], root)
            continue
        choices = _choices(here)
        if choices is None:
            kinds: Any = here.get("type")
            if not isinstance(kinds, list):
                return here, nullable or kinds in (None, "null")
            others = [one for one in cast("list[Any]", kinds) if one != "null"]
            return ({**here, "type": others[0]} if len(others) == 1 else None), nullable or "null" in kinds
        others = [one for one in choices if one != {"type": "null"}]
        nullable = nullable or len(others) < len(choices)
        if len(others) != 1:
            return None, nullable
        raw = others[0]
    return None, nullable


def kinds_of(raw: Any, root: Node) -> frozenset[str] | None:
    """Return the types of JSON that a value may have, null among them; None if the schema does not say."""
    kinds, waiting = set[str](), [raw]
    for _ in range(_MAX_STEPS):
        if not waiting:
            return frozenset(kinds)
        here = node(waiting.pop())
        choices, given = _choices(here), here.get("type")
        if isinstance(here.get("$ref"), str):
            waiting.append(_target(here["$ref"], root))
        elif choices is not None:
            waiting.extend(choices)
        elif given is None:
            return None
        else:
            kinds.update(map(str, cast("list[Any]", given) if isinstance(given, list) else [given]))
    return None


def column_of(of: Node, root: Node) -> ColumnType:
    """Return the contract's type that takes every value of a schema of one type, if there is one; else json."""
    kind = of.get("type")
    if kind == "string" and (digits := _DECIMAL.fullmatch(str(of.get("pattern")))):
        before, after = int(digits[1] or 0), int(digits[2] or 0)
        if 1 <= before + after <= 38:
            return column_type(f"decimal({before + after},{after})")
    written = of.get("format")
    if kind == "string" and isinstance(written, str) and written in _FORMATS:
        return column_type(_FORMATS[written])
    if kind == "string" and of.get("contentEncoding") == "base64":
        return column_type("bytes")
    if kind == "array":
        return _array(of, root)
    return column_type(_PLAIN.get(str(kind), "json"))


def item_kinds(of: Node, root: Node) -> frozenset[str] | None:
    """Return the types of JSON that items of an array may have, as far as the schema says; None if it says nothing."""
    known = [kinds for item in _items(of) if (kinds := kinds_of(item, root)) is not None]
    return frozenset[str]().union(*known) if known else None


def _items(of: Node) -> list[Any]:
    """Return the schemas of an array's items: one for each item at the front, then one for the rest, {} (anything) if
    none is given. Drafts before 2020-12 have a list of `items`, and `additionalItems` for the rest.
    """
    front, rest = of.get("prefixItems"), of.get("items", {})
    if isinstance(rest, list):
        front, rest = cast("list[Any]", rest), of.get("additionalItems", {})
    first = cast("list[Any]", front) if isinstance(front, list) else []
    return first if rest is False else [*first, rest]


def _array(of: Node, root: Node) -> ColumnType:
    """Return an array type for items of one type that are never null, else json; json also for arrays of arrays, since
    one may contain itself.
    """
    columns = set[ColumnType]()
    for raw in _items(of):
        item, nullable = meant(raw, root)
        columns.add(column_of(item, root) if item and not nullable and item.get("type") != "array" else JSON)
    return array_or_json(columns.pop()) if len(columns) == 1 else JSON


def _choices(here: Node) -> list[Any] | None:
    found = here.get("anyOf") or here.get("oneOf")
    return cast("list[Any]", found) if isinstance(found, list) else None


def _target(reference: str, root: Node) -> Any:
    """Return the target of a reference within the document; {} for any other."""
    here: Any = root
    for step in reference.removeprefix("#").split("/")[1:] if reference.startswith("#") else ["", ""]:
        here = node(here).get(step.replace("~1", "/").replace("~0", "~"))
    return {} if here is None else here
