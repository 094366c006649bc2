"""The key of an upsert is the text of its value, however it is written; the engine and verify read it alike."""

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, time
from decimal import Decimal
from subprocess import CompletedProcess
from typing import Any, Literal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from platform_defs.contract.model.contract import Contract, KeyFormat, WireFormat
from platform_defs.formats.blocks.arrow import integers
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.framed import FramedReader
from platform_defs.formats.key_readers import key_contract, key_reader
from platform_defs.proto import compiler
from platform_defs.verify.validators.key_validators import FramedKeyValidator
from platform_defs.verify.validators.known_schemas import KnownSchemas, NamedSchema
from platform_defs.verify.validators.validator import NoRow

RECORD = {
    "type": "record",
    "name": "K",
    "namespace": "a.b",
    "fields": [
        {"name": "z", "type": ["null", "long"]},
        {"name": "a", "type": {"type": "enum", "name": "E", "symbols": ["X"]}},
    ],
}
DAY = {"type": "int", "logicalType": "date"}


def contract(kind: KeyFormat) -> Contract:
    return Contract("p", "1", "d", "", "t", "avro", (), (), wire=WireFormat(key_format=kind))


def texts(kind: Literal["avro", "protobuf", "json"], document: str, keys: Sequence[bytes | None]) -> list[str]:
    """Return each key's text, or the class of its fault in brackets. The engine and verify must agree."""
    schema = WriterSchema("7", kind, document)
    reader = FramedReader(
        key_contract(contract(kind)), lambda named: {n: schema if n == "7" else None for n in named}, "key", key_reader
    )
    decoded = reader.read(pa.array(keys, pa.binary()), None).decoded
    found: dict[int, Any] = dict(zip(integers(decoded.indexes), decoded.rows[0].to_pylist(), strict=True))
    found |= {fault.index: f"<{fault.error_class}>" for fault in decoded.faults}
    known = KnownSchemas()
    known.add(0, 0, 10, NamedSchema("7", schema.format, document, (), encrypted=False))
    validator = FramedKeyValidator(contract(kind), known)
    validated = [validator.at(0, 5, key, None) for key in keys]
    engine = [found[index] for index in range(len(keys))]
    assert engine == [f"<{one.reason}>" if isinstance(one, NoRow) else one for one in validated]
    return engine


def avro(schema: Any, value: Any) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), value)
    return prefixed(written.getvalue())


def prefixed(payload: bytes, number: int = 7) -> bytes:
    return b"\0" + number.to_bytes(4) + payload


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ("string", "ü 1", "ü 1"),
        ({"type": "string"}, "k", "k"),
        ("long", -(2**63), str(-(2**63))),
        ("int", 7, "7"),
        ("boolean", True, "true"),
        (DAY, __import__("datetime").date(2026, 11, 1), "2026-11-01"),
        (RECORD, {"z": 5, "a": "X"}, '{"a":"X","z":5}'),
        (RECORD, {"z": None, "a": "X"}, '{"a":"X","z":null}'),
        (["null", "string"], None, "<MissingKey>"),
        (["null", "string"], "s", "s"),
    ],
)
def test_an_avro_key_is_the_text_of_its_value(schema: Any, value: Any, text: str) -> None:
    many = [avro(schema, value)] * 200  # the block reader, and the single one
    assert texts("avro", json.dumps(schema), many) == [text] * 200
    assert texts("avro", json.dumps(schema), many[:1]) == [text]


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'"k"', "k"),
        (b" 12 ", "12"),
        (b"1.50", "1.5"),
        (b"-15e-1", "-1.5"),
        (b"1E+2", "100"),
        (b"-0.00e7", "0"),
        (b"1.5e40", "15e39"),
        (b"1e-31", "1e-31"),
        (b"0.1e-29", "0.000000000000000000000000000001"),
        (b'["1.50", 1.50]', '["1.50",1.5]'),
        (b"1e131072", "<OutOfRange>"),
        (b'{"b": 1, "a": {"d": [true], "c": null}}', '{"a":{"c":null,"d":[true]},"b":1}'),
        (b"null", "<MissingKey>"),
        (b"", "<EmptyValue>"),
        (b"1}, {", "<InvalidJson>"),
        (b"\xff", "<InvalidUtf8>"),
        (rb'"\u0000"', "<NulCharacter>"),
        (rb'"\ud800"', "<InvalidUnicode>"),
        (b'{"a": 1, "a": "x"}', "<DuplicateKey>"),
        (b"[" * 101 + b"]" * 101, "<TooDeep>"),
    ],
)
def test_a_json_key_is_the_text_of_its_value(payload: bytes, text: str) -> None:
    assert texts("json", "{}", [prefixed(payload)]) == [text]


def test_a_key_that_cannot_be_read_is_a_fault() -> None:
    keys = [None, b"plain", prefixed(b"", 9), prefixed(b"\x02a\x02"), prefixed(b"\x04a")]
    assert texts("avro", '"string"', keys) == [
        "<MissingKey>",
        "<NotFramed>",
        "<UnknownSchemaId>",
        "<TrailingBytes>",
        "<TruncatedAvro>",
    ]
    assert texts("avro", '{"type": "nonsense"}', [prefixed(b"a")]) == ["<SchemaNotCompatible>"]
    assert texts("avro", "[" * 5_000, [prefixed(b"a")]) == ["<SchemaNotCompatible>"]


@given(st.lists(st.none() | st.binary(max_size=12) | st.builds(prefixed, st.binary(max_size=12), st.integers(6, 8))))
def test_whatever_a_key_holds_the_engine_and_verify_agree(keys: list[bytes | None]) -> None:
    for kind, document in (("avro", '"string"'), ("avro", json.dumps(RECORD)), ("avro", '"long"'), ("json", "{}")):
        texts(kind, document, keys)  # type: ignore[arg-type]


def logical(of: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": of, "logicalType": name, **more}


NOON = datetime(2026, 11, 1, 12, 0, 0, 120_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "schemas", "text"),
    [
        (12, ["int", "long", "float", "double"], "12"),
        (10**16, ["long", "double"], "10000000000000000"),
        (Decimal("12.5"), [logical("bytes", "decimal", precision=20, scale=scale) for scale in (1, 2, 9)], "12.5"),
        (Decimal(-300), [logical("bytes", "decimal", precision=20, scale=scale) for scale in (0, 4)], "-300"),
        (time(12), [logical("int", "time-millis"), logical("long", "time-micros")], "12:00:00"),
        (
            NOON,
            [logical("long", f"timestamp-{unit}") for unit in ("millis", "micros")],
            "2026-11-01T12:00:00.12Z",
        ),
        (
            NOON.replace(microsecond=0),
            [logical("long", f"timestamp-{unit}") for unit in ("millis", "micros")],
            "2026-11-01T12:00:00Z",
        ),
    ],
)
def test_a_key_written_with_another_width_scale_or_unit_is_the_same_key(
    value: Any, schemas: Sequence[Any], text: str
) -> None:
    inner = text if isinstance(value, int | Decimal) else f'"{text}"'
    for schema in schemas:
        record = {"type": "record", "name": "K", "fields": [{"name": "id", "type": schema}]}
        assert texts("avro", json.dumps(schema), [avro(schema, value)]) == [text]
        assert texts("avro", json.dumps(record), [avro(record, {"id": value})]) == [f'{{"id":{inner}}}']


@given(st.decimals(allow_nan=False, allow_infinity=False, places=None), st.integers(0, 5))
def test_numbers_of_one_value_are_one_key_and_of_two_are_two(number: Decimal, zeros: int) -> None:
    sign, digits, exponent = number.as_tuple()
    assume(isinstance(exponent, int) and abs(exponent) < 9_000)
    longer = Decimal((sign, (*digits, *[0] * zeros), int(exponent) - zeros))
    next_one = Decimal((sign, (*digits, 1), int(exponent) - 1))
    one, same, other = texts("json", "{}", [prefixed(str(of).encode()) for of in (number, longer, next_one)])
    assert one == same != other
    assert Decimal(one) == number


def test_a_string_inside_of_a_key_keeps_its_zeros() -> None:
    record = {"type": "record", "name": "K", "fields": [{"name": "id", "type": ["string", "long"]}]}
    keys = [avro(record, {"id": one}) for one in ("1.50", "12:00:00.000", "1", 1)]
    wanted = ['{"id":"1.50"}', '{"id":"12:00:00.000"}', '{"id":"1"}', '{"id":1}']
    assert texts("avro", json.dumps(record), keys) == wanted


PROTO = """syntax = "proto3"; package a.b;
message Key { string z = 1; int64 number = 2; State state = 3; repeated Part parts = 4; optional int32 maybe = 5; }
message Part { int32 place = 1; bytes raw = 2; double real = 3; }
enum State { NEW = 0; DONE = 1; }
"""


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"\0", "{}"),  # fields without presence that have their default are left out
        (b"\0\x0a\x01k", '{"z":"k"}'),
        (b"\0\x18\1\x10\x0c\x0a\x01k", '{"number":12,"state":"DONE","z":"k"}'),  # in any order of the bytes
        (b"\x02\0\x0a\x01k", '{"z":"k"}'),  # the long form of the index of the first message
        (b"\0\x28\0", '{"maybe":0}'),
        (b"\x02\x02\x08\x05", '{"place":5}'),
        (b"\0\x22\x02\x08\x05\x22\0", '{"parts":[{"place":5},{}]}'),
        (b"\0\xfa\x7f\x01a", "{}"),  # a field that the schema does not know
        (b"", "<UnknownMessageIndex>"),
        (b"\x02\x08", "<UnknownMessageIndex>"),
        (b"\0\x0a", "<InvalidProtobuf>"),
        (b"\0\x10" + b"\xff" * 11, "<InvalidVarint>"),
        (b"\0\x0a\x01\xff", "<InvalidUtf8>"),
        (b"\0\x0a\x01\0", "<NulCharacter>"),
        (b"\0\x18\x07", "<InvalidEnum>"),
        (b"\x02\x02\x19" + b"\xff" * 8, "<NotFinite>"),
    ],
)
def test_a_protobuf_key_is_the_json_of_its_message(payload: bytes, text: str) -> None:
    assert texts("protobuf", PROTO, [prefixed(payload)]) == [text]


def test_a_protobuf_key_of_a_schema_that_cannot_be_read_is_a_fault() -> None:
    for document in ("", "not a schema"):
        assert texts("protobuf", document, [prefixed(b"\0")]) == ["<SchemaNotCompatible>"]


def test_a_protobuf_key_schema_that_cannot_be_read_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, run = list[Sequence[str]](), compiler.run

    def counted(arguments: Sequence[str]) -> CompletedProcess[str]:
        runs.append(arguments)
        return run(arguments)

    known = KnownSchemas()
    known.add(0, 0, 10, NamedSchema("7", "protobuf", 'syntax = "proto3"; message {', (), encrypted=False))
    validator = FramedKeyValidator(contract("protobuf"), known)
    monkeypatch.setattr(compiler, "run", counted)
    for offset in range(3):
        assert validator.at(0, offset, prefixed(b"\0"), None) == NoRow("SchemaNotCompatible")
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("behind", "payload", "text"),
    [
        (b"", b"\x0a\x01k", '{"z":"k"}'),
        (b"\x02\x02", b"\x08\x05", '{"place":5}'),
        (b"\x02", b"", "NotFramed"),
        (b"\x02\x04", b"", "UnknownMessageIndex"),
    ],
)
def test_a_header_says_which_message_a_protobuf_key_is(behind: bytes, payload: bytes, text: str) -> None:
    headed = replace(contract("protobuf"), wire=WireFormat("header", key_format="protobuf"))
    schema, header = WriterSchema("7", "protobuf", PROTO), prefixed(behind)
    reader = FramedReader(key_contract(headed), lambda named: dict.fromkeys(named, schema), "key", key_reader)
    decoded = reader.read(pa.array([payload], pa.binary()), pa.array([header], pa.binary())).decoded
    known = KnownSchemas()
    known.add(0, 0, 10, NamedSchema("7", "protobuf", PROTO, (), encrypted=False))
    validated = FramedKeyValidator(headed, known).at(0, 5, payload, header)
    assert (validated.reason if isinstance(validated, NoRow) else validated) == text
    assert [*decoded.rows[0].to_pylist(), *(fault.error_class for fault in decoded.faults)] == [text]


@given(st.lists(st.binary(max_size=20).map(lambda key: prefixed(b"\0" + key)), max_size=5))
def test_whatever_a_protobuf_key_holds_the_engine_and_verify_agree(keys: list[bytes]) -> None:
    texts("protobuf", PROTO, keys)


WIDTHS = ("int32", "uint32", "sfixed32", "int64", "uint64", "sfixed64", "google.protobuf.Int64Value")


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_a_whole_number_of_a_protobuf_key_is_no_string_whatever_its_width(width: str) -> None:
    document = f"""syntax = "proto3"; import "google/protobuf/wrappers.proto";
    message K {{ {width} id = 1; string name = 2; }}"""
    one = (b"\x0d" if "32" in width else b"\x09") + b"\x64" + bytes(3 if "32" in width else 7)
    one = one if "fixed" in width else b"\x0a\x02\x08\x64" if "." in width else b"\x08\x64"
    found = texts("protobuf", document, [prefixed(b"\0" + one + b"\x12\x03100")])
    assert found == ['{"id":100,"name":"100"}']
