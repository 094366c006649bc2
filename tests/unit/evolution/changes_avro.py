"""Changes to an Avro schema."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from tests.unit.evolution.evolution_matrix import NEVER, Change, Said, Wanted, change, text
from tests.unit.formats.avro.avro_messages import encode, fixed, logical, record

OPTIONAL: list[Any] = ["null", "string"]
ONE, TWO, THREE = b"\x01\x00", b"\x7d", b"\x04\xe7"  # unscaled 256, 125, 1255


def _money(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def _array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _enum(*symbols: str) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": [*symbols]}


def _avro_schema(fields: Mapping[str, Any], name: str = "M") -> dict[str, Any]:
    """Return the record. A union that begins with null has the default null; `(type, more)` has more keys."""
    made: list[dict[str, Any]] = []
    for key, given in {"id": "string", **fields}.items():
        of, more = given if isinstance(given, tuple) else (given, {})
        default = {"default": None} if isinstance(of, list) and of[0] == "null" else {}
        made.append({"name": key, "type": of, **default, **more})
    return {**record(name), "fields": made}


def _avro(
    name: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    values: tuple[Mapping[str, Any], Mapping[str, Any]],
    wanted: Wanted,
    becomes: Any,
    registry: Said,
    *ddl: str,
    follow: Wanted | None = None,
    names: tuple[str, str] = ("M", "M"),
) -> Change:
    schemas = [_avro_schema(fields, name) for fields, name in zip((before, after), names, strict=True)]
    payloads = [encode(schema, {"id": "1", **value}) for schema, value in zip(schemas, values, strict=True)]
    texts, bodies = (json.dumps(schemas[0]), json.dumps(schemas[1])), (payloads[0], payloads[1])
    return change("avro", name, texts, lambda: bodies, wanted, becomes, registry, *ddl, follow=follow)


def _retyped(
    name: str,
    before: Any,
    after: Any,
    raw: tuple[Any, Any],
    of: str,
    becomes: Any,
    registry: Said,
    *ddl: str,
    to: str = "",
) -> Change:
    """Return a change of the type of the field a."""
    values = ({"a": raw[0]}, {"a": raw[1]})
    made = becomes if isinstance(becomes, str) and becomes in ERRORS else {"a": becomes}
    follow = text(to) if to else None
    return _avro(name, {"a": before}, {"a": after}, values, text(of), made, registry, *ddl, follow=follow)


ERRORS = {NEVER, "NullItem", "TooManyDecimals", "OutOfRange", "OtherRecord", "a_required", "a_enum"}
ADD, KEEP = 'ADD COLUMN "a" text', 'ALTER COLUMN "a" DROP NOT NULL'
AT = datetime(2026, 11, 1, 10, tzinfo=UTC)
SECONDS = int(AT.timestamp())
NONE: dict[str, Any] = {}
INNER = record("Inner", c="string")
WIDER = {**INNER, "fields": [*INNER["fields"], {"name": "b", "type": OPTIONAL, "default": None}]}

AVRO = (
    _avro(
        "a field added, with a default",
        NONE,
        {"a": OPTIONAL},
        (NONE, {"a": (1, "x")}),
        Wanted(),
        NONE,
        "FULL",
        ADD,
        follow=text(),
    ),
    _avro(
        "a field added, without a default",
        NONE,
        {"a": "string"},
        (NONE, {"a": "x"}),
        Wanted(),
        NONE,
        "FORWARD",
        ADD,
        follow=text(),
    ),
    _avro(
        "an optional field dropped",
        {"a": OPTIONAL},
        NONE,
        ({"a": (1, "x")}, NONE),
        text(),
        {"a": None},
        "FULL",
        follow=Wanted(),
    ),
    _avro(
        "a required field dropped",
        {"a": "string"},
        NONE,
        ({"a": "x"}, NONE),
        text(required=True),
        NEVER,
        "BACKWARD",
        KEEP,
        follow=Wanted(),
    ),
    _avro(
        "a field renamed",
        {"a": "string"},
        {"b": "string"},
        ({"a": "x"}, {"b": "y"}),
        text(required=True),
        NEVER,
        "NONE",
    ),
    _avro(
        "a field renamed, with an alias",
        {"a": "string"},
        {"b": ("string", {"aliases": ["a"]})},
        ({"a": "x"}, {"b": "y"}),
        text(required=True),
        NEVER,
        "BACKWARD",
    ),
    _avro(
        "a field renamed, with an alias in the contract",
        {"a": "string"},
        {"b": ("string", {"aliases": ["a"]})},
        ({"a": "x"}, {"b": "y"}),
        Wanted({"a": "string"}, ("a",), aliases={"a": "b"}),
        {"a": "y"},
        "BACKWARD",
    ),
    _avro(
        "fields reordered",
        {"a": "string", "b": "int"},
        {"b": "int", "a": "string"},
        ({"a": "x", "b": 1}, {"a": "y", "b": 2}),
        text(),
        {"a": "y"},
        "FULL",
    ),
    _avro(
        "the record renamed",
        {"a": "string"},
        {"a": "string"},
        ({"a": "x"}, {"a": "y"}),
        text(),
        {"a": "y"},
        "NONE",
        names=("M", "N"),
    ),
    _avro(
        "the record renamed, and the contract names it",
        {"a": "string"},
        {"a": "string"},
        ({"a": "x"}, {"a": "y"}),
        replace(text(), record="M"),
        "OtherRecord",
        "NONE",
        names=("M", "N"),
    ),
    _retyped("int to long", "int", "long", (1, 2**40), "integer", 2**40, "BACKWARD"),
    _retyped("long to int", "long", "int", (2**40, 1), "integer", 1, "FORWARD"),
    _retyped("float to double", "float", "double", (0.5, 0.1), "double", 0.1, "BACKWARD"),
    _retyped(
        "long to double",
        "long",
        "double",
        (1, 1.5),
        "integer",
        NEVER,
        "BACKWARD",
        'replay: ALTER COLUMN "a" TYPE double precision',
        to="double",
    ),
    _retyped(
        "more digits",
        _money(9, 2),
        _money(12, 2),
        (TWO, TWO),
        "decimal(9,2)",
        Decimal("1.25"),
        "FULL",
        'ALTER COLUMN "a" TYPE numeric(12,2)',
        to="decimal(12,2)",
    ),
    _retyped(
        "more digits, and a value that has them",
        _money(3, 2),
        _money(5, 2),
        (TWO, THREE),
        "decimal(3,2)",
        "OutOfRange",
        "FULL",
        'ALTER COLUMN "a" TYPE numeric(5,2)',
        to="decimal(5,2)",
    ),
    _retyped("fewer digits", _money(12, 2), _money(9, 2), (TWO, TWO), "decimal(12,2)", Decimal("1.25"), "FULL"),
    # The same bytes mean another value: a reader that trusts the registry is wrong by a factor of ten.
    _retyped(
        "more decimals",
        _money(9, 2),
        _money(9, 3),
        (TWO, TWO),
        "decimal(9,2)",
        "TooManyDecimals",
        "FULL",
        'replay: ALTER COLUMN "a" TYPE numeric(9,3)',
        to="decimal(9,3)",
    ),
    _retyped("fewer decimals", _money(9, 2), _money(9, 1), (TWO, TWO), "decimal(9,2)", Decimal("12.50"), "FULL"),
    _retyped(
        "millis to micros",
        logical("long", "timestamp-millis"),
        logical("long", "timestamp-micros"),
        (SECONDS * 10**3, SECONDS * 10**6),
        "timestamp",
        AT,
        "FULL",
    ),
    _retyped(
        "micros to millis",
        logical("long", "timestamp-micros"),
        logical("long", "timestamp-millis"),
        (SECONDS * 10**6, SECONDS * 10**3),
        "timestamp",
        AT,
        "FULL",
    ),
    _retyped(
        "timestamp to local timestamp",
        logical("long", "timestamp-micros"),
        logical("long", "local-timestamp-micros"),
        (0, 0),
        "timestamp",
        NEVER,
        "FULL",
    ),
    _retyped(
        "a logical type added",
        "long",
        logical("long", "timestamp-micros"),
        (1, 1),
        "integer",
        NEVER,
        "FULL",
        'replay: ALTER COLUMN "a" TYPE timestamp with time zone',
        to="timestamp",
    ),
    _retyped("string to enum", "string", _enum("A", "B"), ("A", 1), "string", "B", "NONE"),
    _retyped("enum to string", _enum("A", "B"), "string", (0, "B"), "string", "B", "NONE"),
    _retyped("a symbol added", _enum("A"), _enum("A", "B"), (0, 1), "string", "B", "BACKWARD"),
    _retyped("a symbol removed", _enum("A", "B"), _enum("B"), (0, 0), "string", "B", "FORWARD"),
    _avro(
        "a symbol added that the contract refuses",
        {"a": _enum("A")},
        {"a": _enum("A", "B")},
        ({"a": 0}, {"a": 1}),
        replace(text(), enum=("A",)),
        "a_enum",
        "BACKWARD",
        follow=replace(text(), enum=("A", "B")),
    ),
    _avro(
        "null added",
        {"a": "string"},
        {"a": OPTIONAL},
        ({"a": "x"}, {"a": (0, None)}),
        text(required=True),
        "a_required",
        "BACKWARD",
        KEEP,
        follow=text(),
    ),
    _retyped("null removed", OPTIONAL, "string", ((1, "x"), "y"), "string", "y", "FORWARD"),
    _retyped("null moved", OPTIONAL, ["string", "null"], ((1, "x"), (0, "y")), "string", "y", "FULL"),
    _retyped(
        "a third branch",
        OPTIONAL,
        [*OPTIONAL, "long"],
        ((1, "x"), (2, 5)),
        "string",
        NEVER,
        "BACKWARD",
        'replay: ALTER COLUMN "a" TYPE jsonb',
        to="json",
    ),
    _retyped(
        "another default",
        (("string"), {"default": "x"}),
        (("string"), {"default": "y"}),
        ("x", "z"),
        "string",
        "z",
        "FULL",
    ),
    _retyped(
        "a field in a record",
        INNER,
        WIDER,
        ({"c": "x"}, {"c": "y", "b": (1, "z")}),
        "json",
        '{"c":"y","b":"z"}',
        "FULL",
    ),
    _retyped(
        "bytes to fixed, of the same decimal",
        _money(9, 2),
        fixed(4, "F", **{**_money(9, 2), "type": "fixed"}),
        (TWO, b"\0\0\0\x7d"),
        "decimal(9,2)",
        Decimal("1.25"),
        "NONE",
    ),
    _avro(
        "an array added",
        NONE,
        {"a": ["null", _array("string")]},
        (NONE, {"a": (1, ["x", "y"])}),
        Wanted(),
        NONE,
        "FULL",
        'ADD COLUMN "a" text[]',
        follow=text("array<string>"),
    ),
    _retyped(
        "items of an array from int to long",
        _array("int"),
        _array("long"),
        ([1], [2**40, 1]),
        "array<integer>",
        [2**40, 1],
        "BACKWARD",
    ),
    _retyped(
        "items of an array from long to double",
        _array("long"),
        _array("double"),
        ([1], [1.5]),
        "array<integer>",
        NEVER,
        "BACKWARD",
        'replay: ALTER COLUMN "a" TYPE double precision[]',
        to="array<double>",
    ),
    # Postgres would rewrite every row for an array's new type, so a replay does it.
    _retyped(
        "more digits of the items of an array",
        _array(_money(9, 2)),
        _array(_money(12, 2)),
        ([TWO], [TWO]),
        "array<decimal(9,2)>",
        [Decimal("1.25")],
        "FULL",
        'replay: ALTER COLUMN "a" TYPE numeric(12,2)[]',
        to="array<decimal(12,2)>",
    ),
    _retyped(
        "items of an array may be null",
        _array("string"),
        _array(OPTIONAL),
        ([b"x"], [(1, b"x"), (0, None)]),
        "array<string>",
        "NullItem",
        "BACKWARD",
    ),
)
