"""Changes to a Protobuf schema."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.unit.evolution.evolution_matrix import NEVER, Change, Said, Wanted, change
from tests.unit.formats.protobuf.protobuf_messages import new

HEAD = 'syntax = "proto3"; package bank; enum State { NEW = 0; DONE = 1; } '
BODY = "message M { string id = 1; int64 n = 2; optional string a = 3; State state = 4; }"
BASE: dict[str, Any] = {"id": "1", "n": 5, "a": "x", "state": 1}
READ = Wanted({"n": "integer", "a": "string", "state": "string"}, record="bank.M")
FIRST = b"\0"  # the message index of the first message in its file


def _protobuf(
    name: str,
    after: str,
    values: Mapping[str, Any],
    becomes: Any,
    registry: Said,
    *ddl: str,
    wanted: Wanted = READ,
    follow: Wanted | None = None,
    head: str = HEAD,
    index: bytes = FIRST,
    was: str = BODY,
) -> Change:
    """Return a change whose new message has BASE's fields but for `values`; None: not written."""
    written = {key: value for key, value in {**BASE, **values}.items() if value is not None}
    schemas = (HEAD + was, head + after)

    def payloads() -> tuple[bytes, bytes]:
        before, later = new(schemas[0], "M", **BASE), new(schemas[1], "M", **written)
        return FIRST + before.SerializeToString(), index + later.SerializeToString()

    row = {"n": 5, "a": "x", "state": "DONE", **becomes} if isinstance(becomes, dict) else becomes
    return change("protobuf", name, schemas, payloads, wanted, row, registry, *ddl, follow=follow)


def _with(**columns: str) -> Wanted:
    return replace(READ, columns={**READ.columns, **columns})


PROTOBUF = (
    _protobuf(
        "a field added",
        BODY.replace("}", "string b = 9; }"),
        {"b": "y"},
        {},
        "BACKWARD",
        'ADD COLUMN "b" text',
        follow=_with(b="string"),
    ),
    _protobuf("a field dropped", BODY.replace("optional string a = 3;", ""), {"a": None}, {"a": None}, "FORWARD"),
    _protobuf("a field renumbered", BODY.replace("n = 2", "n = 7"), {"n": 6}, {"n": 6}, "NONE"),
    _protobuf("a field renamed", BODY.replace("string a", "string b"), {"a": None, "b": "y"}, {"a": None}, "NONE"),
    _protobuf(
        "a number reused",
        BODY.replace("optional string a = 3", "string b = 3"),
        {"a": None, "b": "y"},
        {"a": None},
        "NONE",
    ),
    _protobuf("int32 to int64", BODY, {"n": 2**40}, {"n": 2**40}, "NONE", was=BODY.replace("int64", "int32")),
    _protobuf("int64 to int32", BODY.replace("int64", "int32"), {"n": 6}, {"n": 6}, "NONE"),
    _protobuf("int64 to sint32", BODY.replace("int64", "sint32"), {"n": -6}, {"n": -6}, "NONE"),
    _protobuf("optional to implicit", BODY.replace("optional ", ""), {"a": ""}, {"a": ""}, "NONE"),
    _protobuf("implicit to optional", BODY.replace("int64", "optional int64"), {"n": None}, {"n": None}, "NONE"),
    _protobuf(
        "singular to repeated",
        BODY.replace("int64", "repeated int64"),
        {"n": [5]},
        NEVER,
        "NONE",
        'replay: ALTER COLUMN "n" TYPE jsonb',
        follow=_with(n="json"),
    ),
    _protobuf(
        "into a oneof",
        BODY.replace("optional string a = 3;", "oneof o { string a = 3; int32 code = 10; }"),
        {"a": None, "code": 3},
        {"a": None},
        "NONE",
    ),
    _protobuf(
        "an enum value added",
        BODY,
        {"state": 2},
        {"state": "LATE"},
        "BACKWARD",
        head=HEAD.replace("DONE = 1;", "DONE = 1; LATE = 2;"),
    ),
    _protobuf("an enum value without a name", BODY, {"state": 2}, "InvalidEnum", "FULL"),
    _protobuf(
        "messages reordered",
        "message Refund { int64 id = 1; } " + BODY,
        {"n": 6},
        {"n": 6},
        "BACKWARD",
        index=b"\x02\x02",
    ),
    _protobuf(
        "messages reordered, and an index that counts as before",
        "message Refund { int64 id = 1; } " + BODY,
        {},
        "OtherRecord",
        "BACKWARD",
    ),
    _protobuf(
        "the package renamed", BODY, {}, "OtherRecord", "FULL", head=HEAD.replace("package bank", "package shop")
    ),
    _protobuf(
        "the package renamed, and the contract names none",
        BODY,
        {},
        {},
        "FULL",
        wanted=replace(READ, record=""),
        head=HEAD.replace("package bank", "package shop"),
    ),
    _protobuf("string to bytes", BODY.replace("string a", "bytes a"), {"a": b"x"}, NEVER, "NONE"),
    _protobuf("enum to string", BODY.replace("State state", "string state"), {"state": "DONE"}, {}, "NONE"),
    _protobuf("int64 to uint64", BODY.replace("int64", "uint64"), {"n": 6}, {"n": 6}, "NONE"),
    _protobuf(
        "a field into a message",
        BODY.replace("int64 n", "Money n") + " message Money { int64 units = 1; }",
        {"n": {"units": 5}},
        NEVER,
        "NONE",
    ),
    _protobuf(
        "int64 to double",
        BODY.replace("int64", "double"),
        {},
        NEVER,
        "NONE",
        'replay: ALTER COLUMN "n" TYPE double precision',
        follow=_with(n="double"),
    ),
    _protobuf(
        "an array added",
        BODY.replace("}", "repeated string b = 9; }"),
        {"b": ["y"]},
        {},
        "BACKWARD",
        'ADD COLUMN "b" text[]',
        follow=_with(b="array<string>"),
    ),
    _protobuf(
        "items of an array from int32 to int64",
        BODY.replace("}", "repeated int64 b = 9; }"),
        {"b": [2**40, 1]},
        {"b": [2**40, 1]},
        "NONE",
        wanted=_with(b="array<integer>"),
        was=BODY.replace("}", "repeated int32 b = 9; }"),
    ),
    _protobuf(
        "repeated to singular",
        BODY.replace("}", "string b = 9; }"),
        {"b": "y"},
        NEVER,
        "NONE",
        'replay: ALTER COLUMN "b" TYPE text',
        wanted=_with(b="array<string>"),
        was=BODY.replace("}", "repeated string b = 9; }"),
        follow=_with(b="string"),
    ),
)
