"""JSON documents as Avro and Protobuf messages: the bytes of the standard serializers, or a refusal that names why."""

import io
import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest
from google.protobuf.message_factory import GetMessageClass

from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.encoding.avro import avro_encoder
from platform_defs.formats.encoding.documents import CannotEncode, parse_document
from platform_defs.formats.encoding.protobuf import protobuf_encoder, protobuf_text
from platform_defs.formats.protobuf.descriptors import file_of

AT = datetime(2026, 1, 31, 13, 45, 0, 123_000, UTC)
TEXT = "2026-01-31T13:45:00.123Z"
UNION = ["null", "string", "bytes", "long"]
ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}


def logical(of: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": of, "logicalType": name, **more}


def encoded(of: Any, value: str, **field: Any) -> bytes:
    """Return a message whose only field, `f`, has this value; no field if it is empty."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": of, **field}]}
    encoder = avro_encoder(WriterSchema("1", "avro", json.dumps(schema)), "")
    return encoder.encode(parse_document(f'{{"f": {value}}}'.encode() if value else b"{}"))


@pytest.mark.parametrize(
    ("of", "value", "datum"),
    [
        ("null", "null", None),
        ("boolean", "true", True),
        ("int", "-64", -64),
        ("long", "9223372036854775807", 2**63 - 1),
        ("long", "1e3", 1000),
        ("double", "0.1", 0.1),
        ("float", "5", 5.0),
        ("string", '"né"', "né"),
        ("bytes", '"AP8="', b"\0\xff"),
        ({"type": "fixed", "name": "F", "size": 2}, '"AP8="', b"\0\xff"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, '"B"', "B"),
        ({"type": "array", "items": "int"}, "[1, 2]", [1, 2]),
        ({"type": "array", "items": "int"}, "[]", []),
        ({"type": "map", "values": "int"}, '{"a": 1}', {"a": 1}),
        (ADDRESS, '{"city": "Bern"}', {"city": "Bern"}),
        (logical("bytes", "decimal", precision=38, scale=2), "-12.5", Decimal("-12.50")),
        (logical("bytes", "decimal", precision=38, scale=2), f'"{"9" * 36}.99"', Decimal("9" * 36 + ".99")),
        ({**logical("fixed", "decimal", precision=9, scale=0), "name": "D", "size": 5}, "7e2", Decimal(700)),
        (logical("int", "date"), '"2026-01-31"', date(2026, 1, 31)),
        (logical("int", "date"), "20484", date(2026, 1, 31)),
        (logical("int", "time-millis"), '"13:45:00.123"', time(13, 45, 0, 123_000)),
        (logical("long", "time-micros"), '"13:45"', time(13, 45)),
        (logical("long", "timestamp-millis"), f'"{TEXT}"', AT),
        (logical("long", "timestamp-micros"), '"2026-01-31 14:45:00.123+01:00"', AT),
        (logical("long", "timestamp-nanos"), f'"{TEXT[:-1]}000000Z"', 1_769_867_100_123_000_000),
        (logical("long", "local-timestamp-millis"), f'"{TEXT[:-1]}"', AT.replace(tzinfo=None)),
        (logical("string", "uuid"), f'"{UUID(int=7)}"', UUID(int=7)),
        (UNION, "null", None),
        (UNION, "5", 5),
        (UNION, '{"bytes": "AP8="}', b"\0\xff"),
        (["null", ADDRESS], '{"city": "Bern"}', {"city": "Bern"}),
        (["null", ADDRESS], '{"Address": {"city": "Bern"}}', {"city": "Bern"}),
        (["int", "long"], "5", 5),
        (["float", "double"], "0.5", 0.5),
        (["null", {"type": "map", "values": "string"}], '{"map": "x"}', {"map": "x"}),
    ],
)
def test_an_avro_value_is_written_as_fastavro_does(of: Any, value: str, datum: Any) -> None:
    schema: Any = {"type": "record", "name": "R", "fields": [{"name": "f", "type": of}]}
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, {"f": datum})
    assert encoded(of, value) == written.getvalue()


@pytest.mark.parametrize(
    ("of", "value", "reason"),
    [
        ("int", "2147483648", "f: 2147483648 is not an int: it is out of range"),
        ("long", "1.5", "it is not a whole number"),
        ("long", "1e1000000", "it is out of range"),
        ("boolean", "1", "f: 1 is not a boolean"),
        ("int", "true", "f: true is not an int"),
        ("double", "1e400", "f: .* is not a double"),
        ("double", "9007199254740993", "it has more digits than the type allows"),
        ("string", "5", "f: 5 is not a string"),
        ("string", "null", "f: null is not a string"),
        ("bytes", '"?"', "it is not base64"),
        ({"type": "fixed", "name": "F", "size": 2}, '"AA=="', "it has 1 byte, not 2"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, '"C"', r'f: "C" is not one of A, B \(the enum E\)'),
        ({"type": "array", "items": "int"}, '[1, "x"]', r'f\[1\]: "x" is not an int'),
        ({"type": "map", "values": "int"}, '{"a": "x"}', r'f\.a: "x" is not an int'),
        (
            ADDRESS,
            '{"city": "Bern", "zip": 3000}',
            r"f\.zip: the record Address has no such field; its fields are: city",
        ),
        (ADDRESS, "{}", r"f\.city: it is missing; the schema requires a string"),
        (logical("bytes", "decimal", precision=5, scale=2), "1.005", "its scale is 2"),
        (logical("bytes", "decimal", precision=5, scale=2), "1000", "its precision is 5, its scale 2"),
        (logical("bytes", "decimal", precision=5, scale=2), "1e-999999999", "its scale is 2"),
        (logical("bytes", "decimal", precision=5, scale=2), "true", "true is not bytes"),
        (logical("int", "date"), '"31.1.2026"', "write a date as 2026-01-31"),
        (logical("int", "time-millis"), '"13:45:00.1234"', "it has more than the 3 fractional digits of its unit"),
        (logical("long", "timestamp-millis"), '"2026-01-31T13:45:00"', "it needs an offset"),
        (logical("long", "local-timestamp-millis"), f'"{TEXT}"', "it is local and must not have an offset"),
        (logical("string", "uuid"), '"no"', r"is not a string \(uuid\)"),
        (UNION, '"AP8="', r'"AP8=" could be any of string, bytes: name the type, as in {"string": "AP8="}'),
        (UNION, "true", "f: true does not fit any of null, string, bytes, long"),
        (["null", "int"], '"x"', 'f: "x" is not an int'),
        ("string", "", "f: it is missing; the schema requires a string"),
    ],
)
def test_an_avro_value_that_would_not_be_the_same_is_refused(of: Any, value: str, reason: str) -> None:
    with pytest.raises(CannotEncode, match=reason):
        encoded(of, value)


def test_a_missing_field_gets_its_default_or_null() -> None:
    assert encoded("string", "", default="x") == b"\x02x"
    assert encoded("bytes", "", default="ÿ") == b"\x02\xff"
    assert encoded(["null", "string"], "") == b"\0"
    assert encoded(["string", "null"], "", default="x") == b"\0\x02x"
    assert encoded(logical("int", "date"), "", default=1) == b"\x02"
    assert encoded({"type": "array", "items": "int"}, "", default=[1]) == b"\x02\x02\0"
    assert encoded("double", "", default=0.5) == encoded("double", "0.5")
    assert encoded(ADDRESS, "", default={"city": "B"}) == b"\x02B"


@pytest.mark.parametrize(
    ("of", "default", "reason"),
    [
        ("int", "x", r'^f: "x" is not an int$'),
        (ADDRESS, {"city": 1}, r"^f\.city: 1 is not a string$"),
        (ADDRESS, {}, r"^f\.city: it is missing; the schema requires a string$"),
        ({"type": "array", "items": "int"}, [1, "x"], r'^f\[1\]: "x" is not an int$'),
        (["int", "string"], True, "^f: the default true does not fit a union of 2 types$"),
    ],
)
def test_a_default_that_does_not_fit_is_refused_at_its_place(of: Any, default: Any, reason: str) -> None:
    with pytest.raises(CannotEncode, match=reason):
        encoded(of, "", default=default)


def test_the_default_of_an_avro_field_is_fastavros() -> None:
    fields = [{"name": "a", "type": "int", "default": 7}, {"name": "b", "type": ["null", "string"]}]
    schema: Any = {"type": "record", "name": "R", "fields": fields}
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, {})
    assert avro_encoder(WriterSchema("1", "avro", json.dumps(schema)), "").encode({}) == written.getvalue()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "it is not JSON: Expecting property name"),
        (b'{"a": 1, "a": 2}', "an object has the key a twice"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b"\xff", "it is not UTF-8"),
        (b"[" * 100_000, "it cannot be read as JSON"),
    ],
)
def test_what_is_not_json_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(CannotEncode, match=reason):
        parse_document(text)


def test_an_error_without_values_quotes_none() -> None:
    with pytest.raises(CannotEncode) as refused:
        encoded(ADDRESS, '{"city": 5}')
    assert refused.value.describe() == "f.city: 5 is not a string"
    assert refused.value.describe(hide_values=True).startswith("f.city: a value does not fit the schema")


PROTO = """
syntax = "proto3";
package t;
import "google/protobuf/timestamp.proto";
import "google/type/date.proto";
import "google/type/decimal.proto";
import "confluent/type/decimal.proto";
message M {
  string name = 1;
  google.protobuf.Timestamp seen_at = 2;
  Inner inner = 3;
  repeated Inner more = 4;
  map<string, int32> counts = 5;
  Kind kind = 6;
  google.type.Date day = 7;
  google.type.Decimal price = 8;
  confluent.type.Decimal total = 9;
  optional double ratio = 10;
  bytes raw = 11;
  message Inner { int64 number = 1; }
  enum Kind { NONE = 0; SOME = 1; }
}
message Other { string name = 1; }
"""
SCHEMA = WriterSchema("1", "protobuf", PROTO)


def proto(text: str) -> Any:
    """Return the message that a document becomes, parsed again."""
    encoder = protobuf_encoder(SCHEMA, "t.M")
    of: Any = GetMessageClass(file_of(SCHEMA).message_types_by_name["M"])
    return of.FromString(encoder.encode(parse_document(text.encode())))


def test_a_document_becomes_a_protobuf_message() -> None:
    made = proto(
        '{"name": "x", "seenAt": "2026-01-31T13:45:00.123456789Z", "inner": {"number": "7"}, "more": [{"number": 8}],'
        ' "counts": {"a": 1}, "kind": "SOME", "day": "2026-01-31", "price": 12.50, "total": "-12.50", "ratio": 0.5,'
        ' "raw": "AP8="}'
    )
    assert (made.name, made.inner.number, made.more[0].number, dict(made.counts), made.kind) == ("x", 7, 8, {"a": 1}, 1)
    assert made.seen_at.nanos == 123_456_789
    assert (made.day.year, made.day.month, made.day.day, made.price.value) == (2026, 1, 31, "12.50")
    total = int.from_bytes(made.total.value, "big", signed=True)
    assert (total, made.total.scale, made.ratio, made.raw) == (-1250, 2, 0.5, b"\0\xff")
    at = made.seen_at.ToDatetime(tzinfo=UTC)
    assert at - AT < timedelta(milliseconds=1)


def test_a_message_is_that_of_the_record_that_is_named() -> None:
    assert protobuf_encoder(SCHEMA, "t.Other").index == b"\2\2"
    assert protobuf_encoder(SCHEMA, "").index == b"\0"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", r"\[\] is not an object"),
        ('{"nam": "x"}', r"nam: the message t\.M has no such field; its fields are: name, seen_at"),
        ('{"inner": {"numbr": 1}}', r"inner\.numbr: the message t\.M\.Inner has no such field"),
        ('{"inner": {"number": "x"}}', r"inner\.number: .*x.*; the schema has int64 number there"),
        ('{"more": [{"number": 1.5}]}', r"more.*number.*1\.5"),
        ('{"name": 5}', r"name: "),
        ('{"seenAt": "2026-01-31T13:45:00"}', r"seenAt: .* is not a timestamp, such as"),
        ('{"ratio": "x"}', r"ratio: .*x; the schema has double ratio there"),
        ('{"raw": "?"}', r"raw: .* is not base64"),
        ('{"kind": "OTHER"}', r"kind: .*OTHER"),
        ('{"day": "31.1.2026"}', r'day: "31\.1\.2026" is not a date'),
        ('{"price": "x"}', r'price: "x" is not a number'),
        ('{"total": 1e39}', r"total: .* has more than 38 digits"),
        ('{"ratio": 1e400}', r"ratio: .* is out of range"),
        ('{"name": "\\ud800"}', "name: "),
        ('{"seen_at": null, "seenAt": null}', "it has a field twice, under both of its names"),
    ],
)
def test_a_value_that_a_protobuf_message_has_no_place_for_is_refused(text: str, reason: str) -> None:
    with pytest.raises(CannotEncode, match=reason):
        proto(text)


def test_the_text_of_a_key_is_the_first_text_of_its_message() -> None:
    assert protobuf_text(WriterSchema("1", "protobuf", 'syntax = "proto3"; message K { string id = 1; }'), "C1") == (
        b"\0\x0a\x02C1"
    )
    for fields in ("int32 id = 1;", "string id = 1; string of = 2;"):
        with pytest.raises(CannotEncode, match="K is not a message with a single string field"):
            protobuf_text(WriterSchema("1", "protobuf", f'syntax = "proto3"; message K {{ {fields} }}'), "C1")
