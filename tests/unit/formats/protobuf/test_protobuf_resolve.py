"""The fit of a Protobuf schema and a contract: the fields that become columns, and the reasons of refusals."""

import json
from dataclasses import replace
from typing import Any

import pytest

from platform_defs.contract.model.contract import Contract
from platform_defs.formats.blocks.writer_schema import SchemaNotCompatible
from platform_defs.formats.protobuf.decode import ProtobufReader
from platform_defs.verify.decoders.documents import NotTheType
from platform_defs.verify.decoders.protobuf import ProtobufValidator
from tests.unit.formats.protobuf.protobuf_messages import contract_of, decoded, field, new, schema

pytestmark = pytest.mark.long


TEMPLATE = """
syntax = "proto3";
import "confluent/type/decimal.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/type/date.proto";
import "google/type/decimal.proto";
message A { %s }
enum E { ZERO = 0; }
message Inner { int32 x = 1; }
"""
INTEGERS = "int32 uint32 sint32 fixed32 sfixed32 int64 uint64 sint64 fixed64 sfixed64".split()  # noqa: SIM905
NARROW = INTEGERS[:5]
FITS = {
    "string": {"string", "E", "google.protobuf.StringValue"},
    "integer": {*INTEGERS, "google.protobuf.Int64Value", "google.protobuf.UInt32Value"},
    "double": {"double", "float", *NARROW, "google.protobuf.DoubleValue", "google.protobuf.UInt32Value"},
    "boolean": {"bool", "google.protobuf.BoolValue"},
    "decimal(9,2)": {
        *("string", "google.type.Decimal", "confluent.type.Decimal", "google.protobuf.StringValue", *INTEGERS),
        *("google.protobuf.Int64Value", "google.protobuf.UInt32Value"),
    },
    "date": {"string", "google.type.Date", "google.protobuf.StringValue"},
    "timestamp": {"google.protobuf.Timestamp"},
}
ALL = sorted({*(kind for kinds in FITS.values() for kind in kinds), "bytes", "Inner", "google.protobuf.Struct"})


def refusal(contract: Contract, text: str) -> str:
    """Return why the schema does not fit, or an empty text. Both readers must agree."""
    try:
        ProtobufReader(contract, schema(text))
    except SchemaNotCompatible as refused:
        with pytest.raises(NotTheType, match=r"^SchemaNotCompatible$"):
            ProtobufValidator(contract, text)
        return str(refused)
    ProtobufValidator(contract, text)
    return ""


@pytest.mark.parametrize("of", FITS)
def test_a_column_takes_the_types_of_the_table_and_no_others(of: str) -> None:
    text = TEMPLATE % " ".join(f"{kind} f{number} = {number};" for number, kind in enumerate(ALL, 1))
    for number, kind in enumerate(ALL, 1):
        refused = refusal(contract_of({f"f{number}": of}), text)
        assert bool(refused) == (kind not in FITS[of]), (kind, of, refused)
        if refused:
            assert refused == f"f{number} is {_wrapped(kind)} in A, which cannot be read as {of}"


def _wrapped(kind: str) -> str:
    return kind.removeprefix("google.protobuf.").removesuffix("Value").lower() if kind.endswith("Value") else kind


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*ALL, "repeated int32", "repeated Inner", "map<string, Inner>"])
def test_a_json_column_takes_every_type(kind: str) -> None:
    assert refusal(contract_of({"f": "json"}), TEMPLATE % f"{kind} f = 1;") == ""


REFUSED = [
    # (fields of the message, contract's path, its type, the reason)
    ("repeated int64 f = 1;", "f", "integer", "f is repeated int64, but the contract requires a single integer"),
    ("map<string, string> f = 1;", "f", "string", "f is a map, but the contract requires a single string"),
    ("repeated Inner f = 1;", "f.x", "integer", "f_x (f.x) cannot be reached: f is repeated Inner, not one message"),
    ("int64 f = 1;", "f.x", "integer", "f_x (f.x) cannot be reached: f is int64, not one message"),
    (
        "map<string, Inner> f = 1;",
        "f.value",
        "json",
        "f_value (f.value) cannot be reached: f is a map, not one message",
    ),
]


@pytest.mark.parametrize(("fields", "path", "of", "reason"), REFUSED)
def test_what_cannot_be_read_is_refused_with_its_reason(fields: str, path: str, of: str, reason: str) -> None:
    assert refusal(contract_of({path: of}), TEMPLATE % fields) == reason


def test_all_reasons_are_given_at_once() -> None:
    contract = contract_of({"a": "integer", "b": "timestamp", "c": "string"})
    contract = replace(contract, fields=tuple(replace(item, required=True) for item in contract.fields))
    with pytest.raises(SchemaNotCompatible) as refused:
        ProtobufReader(contract, schema(TEMPLATE % "bytes a = 1; int64 b = 2;"))
    assert refused.value.reasons == (
        "a is bytes in A, which cannot be read as integer",
        "b is int64 in A, which cannot be read as timestamp",
        "c is required, but A does not have it",
    )


def test_a_message_with_the_name_of_a_known_type_and_other_fields_is_not_that_type() -> None:
    text = 'syntax = "proto3"; package google.type; message A { Date f = 1; } message Date { string year = 1; }'
    assert "is google.type.Date in google.type.A, which cannot be read as date" in refusal(
        contract_of({"f": "date"}), text
    )


def test_a_reference_cannot_replace_what_comes_with_the_compiler() -> None:
    fake = 'syntax = "proto3"; package google.protobuf; message Timestamp { string seconds = 1; }'
    text = 'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message A { google.protobuf.Timestamp f = 1; }'
    writer = schema(text, ("google/protobuf/timestamp.proto", fake))
    found = decoded(ProtobufReader(contract_of({"f": "timestamp"}), writer), [b"\x0a\x02\x08\x01"])
    assert str(found.rows.to_pylist()[0]["f"]) == "1970-01-01 00:00:01+00:00"


def read(contract: Contract, text: str, payload: bytes) -> list[Any]:
    """Return the row of one message. Both readers must agree."""
    row = list(decoded(ProtobufReader(contract, schema(text)), [payload] * 100).rows.to_pylist()[99].values())
    assert row == ProtobufValidator(contract, text).values(payload)
    return row


def test_a_field_is_found_by_its_name_then_by_its_aliases() -> None:
    contract = replace(contract_of({}), fields=(field("a", "integer", aliases=(("older",), ("in", "oldest"))),))
    for fields, wanted in (
        ("int64 a = 5; int64 older = 6;", 5),
        ("int64 older = 6;", 6),
        ("In in = 1; message In { int64 oldest = 7; }", 7),
        ("int64 other = 1;", None),
    ):
        text = TEMPLATE % fields
        message = new(text, "A")
        for name in ("a", "older", "other"):
            if name in message.DESCRIPTOR.fields_by_name:
                setattr(message, name, message.DESCRIPTOR.fields_by_name[name].number)
        if "in" in message.DESCRIPTOR.fields_by_name:
            getattr(message, "in").oldest = 7
        assert read(contract, text, message.SerializeToString()) == [wanted]


def test_a_field_is_found_by_its_number_where_the_contract_gives_one() -> None:
    contract = replace(contract_of({}), fields=(field("a", "integer", number=5), field("in.b", "integer", number=1)))
    text = TEMPLATE % "int64 renamed = 5; int64 a = 6; Inner in = 7;"
    message = new(text, "A", renamed=1, a=2)
    getattr(message, "in").x = 3
    assert read(contract, text, message.SerializeToString()) == [1, 3]
    assert read(contract, TEMPLATE % "int64 a = 6;", b"\x30\x01") == [None, None]


def test_a_name_may_be_spelt_as_in_json() -> None:
    text = TEMPLATE % 'int64 some_number = 1; int64 x = 2 [json_name = "other"];'
    assert read(contract_of({"someNumber": "integer", "other": "integer"}), text, b"\x08\x01\x10\x02") == [1, 2]


@pytest.mark.parametrize("missing", [b"", b"\x12\x00"])
def test_presence_decides_between_null_and_the_default(missing: bytes) -> None:
    """A field without presence has its default; with presence it is null, as is everything in a missing message."""
    text = 'syntax = "proto2"; message A { optional int64 a = 1 [default = 5]; optional B b = 2; } message B { }'
    assert read(contract_of({"a": "integer"}), text, missing) == [None]
    text = TEMPLATE % "int64 a = 1; In in = 2; optional string t = 3; message In { int64 x = 1; }"
    row = read(contract_of({"a": "integer", "in.x": "integer", "t": "string"}), text, missing)
    assert row == [0, 0 if missing else None, None]


def test_a_group_is_read_like_a_message() -> None:
    text = 'syntax = "proto2"; message A { optional group Box = 1 { optional int64 x = 1; } optional int64 y = 2; }'
    contract = contract_of({"box.x": "integer", "box": "json", "y": "integer"})
    assert read(contract, text, b"\x0b\x08\x05\x0c\x10\x06") == [5, '{"x":"5"}', 6]


def test_a_group_sent_with_a_length_is_another_field_that_is_not_read() -> None:
    """upb refuses the message."""
    text = 'syntax = "proto2"; message A { repeated group Box = 1 { optional int64 x = 1; } optional int64 y = 2; }'
    assert read(contract_of({"box": "json", "y": "integer"}), text, b"\x0a\x02\x08\x05\x10\x06") == ["[]", 6]


def test_of_a_oneof_the_last_member_counts_even_if_no_column_reads_it() -> None:
    text = """syntax = "proto2"; enum E { ONE = 1; }
    message A { oneof o { int64 a = 1; In in = 2; string s = 3; E e = 4; group G = 5 { } } }
    message In { optional int64 x = 1; optional int64 y = 2; }"""
    contract = contract_of({"a": "integer", "in.x": "integer", "in.y": "integer"})
    for payload, wanted in (
        (b"\x12\x02\x08\x05\x12\x02\x10\x06", [None, 5, 6]),
        (b"\x12\x02\x08\x05\x08\x07\x12\x02\x10\x06", [None, None, 6]),
        (b"\x08\x07\x1a\x00", [None, None, None]),
        (b"\x08\x07\x2b\x2c", [None, None, None]),
        (b"\x08\x07\x20\x01", [None, None, None]),
        (b"\x08\x07\x20\x02", [7, None, None]),  # the enum has no name for 2
    ):
        assert read(contract, text, payload) == wanted, payload.hex()


def test_editions_are_read_by_their_features() -> None:
    text = """edition = "2023"; option features.field_presence = IMPLICIT;
    message A { int64 a = 1; repeated int32 b = 2 [features.repeated_field_encoding = EXPANDED];
    A c = 3 [features.message_encoding = DELIMITED]; int64 d = 4 [features.field_presence = EXPLICIT]; }"""
    contract = contract_of({"a": "integer", "b": "json", "c.a": "integer", "d": "integer"})
    assert read(contract, text, b"") == [0, "[]", None, None]
    assert read(contract, text, b"\x12\x02\x01\x02\x10\x03\x1b\x08\x07\x1c") == [0, "[1,2,3]", 7, None]


def test_json_follows_protobufs_own_mapping() -> None:
    text = TEMPLATE % (
        "Deep f = 1; message Deep { int64 wide = 1; uint32 narrow_number = 2; bytes raw = 3; E e = 4; Deep deep = 5;"
        " google.protobuf.Struct any = 6; google.protobuf.Timestamp at = 7; google.protobuf.Int64Value wrapped = 8;"
        " map<bool, string> m = 9; repeated float r = 10; double d = 11; optional int32 zero = 12;"
        " google.type.Date on = 13; google.protobuf.Value v = 14; }"
    )
    message = new(text, "A")
    deep = message.f
    deep.wide, deep.narrow_number, deep.raw, deep.zero, deep.d = -(2**63), 2**32 - 1, b"\xff", 0, 1e22
    deep.deep.wide, deep.at.seconds, deep.at.nanos, deep.wrapped.value = 1, 1, 1_000_000, 0
    deep.any.update({"a": [1, 2.5, None, {}], "b": {"c": "d"}})
    deep.m[True], deep.on.year, deep.v.null_value = "yes", 2026, 0
    deep.r.extend([0.1, 16777216.0])
    found = read(contract_of({"f": "json"}), text, message.SerializeToString())[0]
    assert '"wide":"-9223372036854775808","narrow_number":4294967295,"raw":"/w==","deep":{"wide":"1"},' in found
    assert '"r":[0.1,16777216],"d":1e+22,"zero":0' in found
    assert json.loads(found) == {
        **{"wide": str(-(2**63)), "narrow_number": 2**32 - 1, "raw": "/w==", "deep": {"wide": "1"}},
        "any": {"a": [1, 2.5, None, {}], "b": {"c": "d"}},
        **{"at": "1970-01-01T00:00:01.001Z", "wrapped": "0", "m": {"true": "yes"}, "r": [0.1, 16777216]},
        **{"d": 1e22, "zero": 0, "on": {"year": 2026}, "v": None},
    }
