"""The key of an upsert is the text of its value, however it is written; the engine and verify read it alike."""

import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.contract.model import Contract, KeyFormat, WireFormat
from platform_defs.formats.arrow import integers
from platform_defs.formats.framed import FramedReader
from platform_defs.formats.keys import key_contract, key_reader
from platform_defs.formats.writer_schema import WriterSchema
from platform_defs.verification.judge import NoRow
from platform_defs.verification.keys import FramedKeyJudge
from platform_defs.verification.writer_schemas import KnownSchemas, NamedSchema

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


def texts(kind: KeyFormat, document: str, keys: Sequence[bytes | None]) -> list[str]:
    """What the keys become: a text, or the class of a fault in brackets. The engine and verify agree."""
    schema = WriterSchema("7", "avro" if kind == "avro" else "json", document)
    reader = FramedReader(
        key_contract(contract(kind)), lambda named: {n: schema if n == "7" else None for n in named}, "key", key_reader
    )
    decoded = reader.read(pa.array(keys, pa.binary()), None).decoded
    found: dict[int, Any] = dict(zip(integers(decoded.indexes), decoded.rows[0].to_pylist(), strict=True))
    found |= {fault.index: f"<{fault.error_class}>" for fault in decoded.faults}
    known = KnownSchemas()
    known.add(0, 0, 10, NamedSchema("7", schema.format, document, (), encrypted=False))
    judge = FramedKeyJudge(contract(kind), known)
    judged = [judge.at(0, 5, key, None) for key in keys]
    engine = [found[index] for index in range(len(keys))]
    assert engine == [f"<{one.reason}>" if isinstance(one, NoRow) else one for one in judged]
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
        (b"1.50", "1.50"),
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
