"""Changes to a JSON Schema. The contract validates messages; the registered schema does not."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.unit.evolution.evolution_matrix import Change, Said, Wanted, change, text

ADD, KEEP = 'ADD COLUMN "a" text', 'ALTER COLUMN "a" DROP NOT NULL'


def _json(
    name: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    value: Mapping[str, Any],
    wanted: Wanted,
    becomes: Any,
    registry: Said,
    *ddl: str,
    follow: Wanted | None = None,
) -> Change:
    schemas = [json.dumps({"type": "object", **given}) for given in (before, after)]
    bodies = (json.dumps({"id": "1", "a": "x"}).encode(), json.dumps({"id": "1", **value}).encode())
    pair = (schemas[0], schemas[1])
    return change("json", name, pair, lambda: bodies, wanted, becomes, registry, *ddl, follow=follow)


def _open(*required: str, **properties: Any) -> dict[str, Any]:
    listed = {"properties": {"id": {"type": "string"}, **properties}}
    return {**listed, "required": [*required]} if required else listed


def _closed(*required: str, **properties: Any) -> dict[str, Any]:
    return {**_open(*required, **properties), "additionalProperties": False}


TEXT, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}
ONLY_A, A_OR_B = {"enum": ["x"]}, {"enum": ["x", "y"]}

JSON = (
    _json(
        "an optional property added, open model",
        _open(),
        _open(a=TEXT),
        {"a": "y"},
        Wanted(),
        {},
        "FORWARD",
        ADD,
        follow=text(),
    ),
    _json(
        "an optional property added, closed model",
        _closed(),
        _closed(a=TEXT),
        {"a": "y"},
        Wanted(),
        {},
        "BACKWARD",
        ADD,
        follow=text(),
    ),
    _json("a property dropped, closed model", _closed(a=TEXT), _closed(), {}, text(), {"a": None}, "FORWARD"),
    _json("required", _open(a=TEXT), _open("a", a=TEXT), {"a": "y"}, text(), {"a": "y"}, "FORWARD"),
    _json(
        "no longer required",
        _open("a", a=TEXT),
        _open(a=TEXT),
        {},
        text(required=True),
        "a_required",
        "BACKWARD",
        KEEP,
        follow=text(),
    ),
    _json(
        "integer to number",
        _open(b=INTEGER),
        _open(b=NUMBER),
        {"b": 1.5},
        Wanted({"b": "integer"}),
        "WrongType",
        "BACKWARD",
        'replay: ALTER COLUMN "b" TYPE double precision',
        follow=Wanted({"b": "double"}),
    ),
    _json(
        "number to integer", _open(b=NUMBER), _open(b=INTEGER), {"b": 2}, Wanted({"b": "double"}), {"b": 2.0}, "FORWARD"
    ),
    _json(
        "null added",
        _open(a=TEXT),
        _open(a={"type": ["string", "null"]}),
        {"a": None},
        text(required=True),
        "a_required",
        "BACKWARD",
        KEEP,
        follow=text(),
    ),
    _json(
        "an enum value added",
        _open(a=ONLY_A),
        _open(a=A_OR_B),
        {"a": "y"},
        replace(text(), enum=("x",)),
        "a_enum",
        "BACKWARD",
        follow=replace(text(), enum=("x", "y")),
    ),
    _json(
        "an enum value removed",
        _open(a=A_OR_B),
        _open(a=ONLY_A),
        {"a": "x"},
        replace(text(), enum=("x", "y")),
        {"a": "x"},
        "FORWARD",
    ),
    _json(
        "items of an array from integer to number",
        _open(b={"type": "array", "items": INTEGER}),
        _open(b={"type": "array", "items": NUMBER}),
        {"b": [1.5]},
        Wanted({"b": "array<integer>"}),
        "WrongType",
        "BACKWARD",
        'replay: ALTER COLUMN "b" TYPE double precision[]',
        follow=Wanted({"b": "array<double>"}),
    ),
    _json(
        "a string into an array",
        _open(a=TEXT),
        _open(a={"type": "array", "items": TEXT}),
        {"a": ["x"]},
        text(),
        "WrongType",
        "NONE",
        'replay: ALTER COLUMN "a" TYPE text[]',
        follow=text("array<string>"),
    ),
)
