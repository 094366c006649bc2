"""Made-up messages in Avro, Protobuf and framed JSON: good ones become rows, bad ones the announced faults."""

import io
import json
from dataclasses import replace
from datetime import date
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from platform_defs.contract.model.column_types import FIXED, column_type
from platform_defs.contract.model.contract import Contract, Field, Format, Framing, WireFormat
from platform_defs.engine.task.row_checks import check_rows
from platform_defs.errors import BadInput
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.encoding.messages import MessageSchemas
from platform_defs.formats.framed import FramedReader, reader_of_file
from platform_defs.formats.framing import HEADERS
from platform_defs.samples.encoded import EncodedSamples
from platform_defs.samples.mixture import Mixture
from platform_defs.schemas.conversion.exporting import export_schema
from platform_defs.settings.contracts import find_contract
from tests.support.kafka.registered import AVRO, PROTOBUF
from tests.unit.formats.avro.avro_messages import fixed, logical

pytestmark = pytest.mark.long


DAY = logical("int", "date")
ODD = json.loads(AVRO)  # everything written in another way than a contract exports it
ODD["fields"] = [
    {"name": "unknown", "type": ["null", "bytes"]},
    *[item for item in ODD["fields"] if item["name"] not in ("amount", "occurred_at", "currency")],
    {"name": "amount", "type": fixed(9, "Money", logicalType="decimal", precision=20, scale=4)},
    {"name": "occurred_at", "type": [logical("long", "timestamp-millis"), "null"]},
    {"name": "currency", "type": {"type": "enum", "name": "C", "symbols": ["USD", "GBP", "CHF", "EUR", "?"]}},
]


def contract_of(kind: Format, framing: Framing = "prefix") -> Contract:
    numbered = tuple(
        replace(item, number=place) for place, item in enumerate(find_contract("bank_transfers").fields, 1)
    )
    fields = numbered if kind == "protobuf" else find_contract("bank_transfers").fields
    wire = WireFormat(framing, record="" if kind == "json" else "bank.Transfer")
    return replace(find_contract("bank_transfers"), format=kind, fields=fields, wire=wire)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "framing", "document"),
    [
        ("avro", "prefix", ""),
        ("avro", "header", json.dumps(ODD)),
        ("avro", "none", AVRO.replace('"CHF", ', '"CHF", "GBP", "USD", ')),
        ("protobuf", "both", ""),
        ("protobuf", "header", PROTOBUF),
        ("protobuf", "none", ""),
        ("json", "prefix", ""),
    ],
)
def test_good_messages_are_rows_and_bad_ones_are_dead_letters_as_foretold(
    kind: Format, framing: Framing, document: str
) -> None:
    contract = contract_of(kind, framing)
    document = document or export_schema(contract, kind)
    contract = replace(contract, wire=replace(contract.wire, schema_text=document))
    schema = WriterSchema("7", kind, document)
    samples = EncodedSamples(contract, MessageSchemas(schema), seed=1)
    mixture = Mixture(samples, 0.2)
    taken = list(mixture.take(200))
    names = pa.array([dict(samples.headers).get(HEADERS["value"])] * 200, pa.binary())
    reader = FramedReader(contract, lambda keys: dict.fromkeys(keys, schema))
    reader = reader if contract.wire.framed else reader_of_file(contract)
    found = check_rows(contract.fields, reader.read(pa.array([one.value for one in taken], pa.binary()), names).decoded)
    assert {fault.index: fault.error_class for fault in found.faults} == {
        place: one.reason for place, one in enumerate(taken) if one.reason
    }
    assert found.rows.num_rows == mixture.good == 160
    assert len(mixture.bad) >= 8


def test_keys_are_written_with_their_schema() -> None:
    contract = find_contract("crm_customers")
    contract = replace(contract, format="avro", wire=WireFormat("prefix", key_format="avro"))
    schema = WriterSchema("7", "avro", export_schema(contract, "avro"))
    outlet = MessageSchemas(schema, WriterSchema("8", "avro", '{"type": "string"}'))
    keys = [one.key for one in EncodedSamples(contract, outlet).good(20)]
    assert {key[:5] for key in keys if key} == {b"\0\0\0\0\x08"}
    assert {len(key) - 6 == key[5] // 2 for key in keys if key} == {True}
    message = WriterSchema("8", "protobuf", 'syntax = "proto3"; message K { int32 n = 1; string id = 2; }')
    keyed = replace(contract, wire=replace(contract.wire, key_format="protobuf"))
    (key,) = (one.key for one in EncodedSamples(keyed, replace(outlet, key=message)).good(1))
    assert key is not None
    assert (key[:7], key[7]) == (b"\0\0\0\0\x08\0\x12", len(key) - 8)
    with pytest.raises(BadInput, match="only text keys"):
        EncodedSamples(contract, replace(outlet, key=WriterSchema("8", "avro", '"long"')))


def test_a_schema_that_cannot_hold_the_messages_is_refused() -> None:
    contract = contract_of("avro")
    narrow = json.loads(export_schema(contract, "avro"))
    (name,) = (item for item in narrow["fields"] if item["name"] == "transfer_id")
    name["type"] = "long"
    with pytest.raises(BadInput, match=r"schema 7 cannot encode a message of the contract: .* is not a long"):
        EncodedSamples(contract, MessageSchemas(WriterSchema("7", "avro", json.dumps(narrow))))


def test_a_field_that_the_contract_does_not_read_is_empty_and_one_that_the_schema_requires_is_never_null() -> None:
    contract = contract_of("avro")
    more = json.loads(export_schema(contract, "avro"))
    (memo,) = (item for item in more["fields"] if item["name"] == "memo")
    memo["type"] = "string"
    del memo["default"]
    place = {"type": "record", "name": "Place", "fields": [{"name": "zip", "type": "int"}, {"name": "at", "type": DAY}]}
    more["fields"] += [
        {"name": "country", "type": "string"},
        {"name": "place", "type": place},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "either", "type": ["long", "string"]},
        {"name": "of", "type": "string", "default": "?"},
        {"name": "id", "type": fixed(16, "Id", logicalType="uuid")},
    ]
    schema = WriterSchema("7", "avro", json.dumps(more))
    values = [one.value for one in EncodedSamples(contract, MessageSchemas(schema), seed=1).good(100)]
    reader = FramedReader(contract, lambda keys: dict.fromkeys(keys, schema))
    found = reader.read(pa.array(values, pa.binary()), None).decoded
    assert (found.rows.num_rows, found.faults) == (100, [])
    read: Any = fastavro.schemaless_reader(io.BytesIO((values[0] or b"")[5:]), more, None)
    assert {name: read[name] for name in ("country", "place", "kind", "either", "of", "id")} == {
        "country": "",
        "place": {"zip": 0, "at": date(1970, 1, 1)},
        "kind": "A",
        "either": 0,
        "of": "?",
        "id": bytes(16),
    }


def test_an_enum_of_the_schema_gets_its_symbols_where_the_contract_names_none() -> None:
    contract = contract_of("avro")
    free = tuple(replace(item, rules=()) if item.name == "currency" else item for item in contract.fields)
    written = EncodedSamples(replace(contract, fields=free), MessageSchemas(WriterSchema("7", "avro", AVRO))).good(100)
    assert len({one.value for one in written}) == 100


@pytest.mark.parametrize("kind", ["avro", "protobuf", "json"])
def test_a_value_of_every_type_is_written_and_read(kind: Format) -> None:
    types = [*FIXED.values(), column_type("decimal(12,3)")]
    paths = [(f"f{place}",) if place % 2 else ("inner", f"f{place}") for place in range(len(types))]
    fields = tuple(
        Field(
            path[-1],
            of,
            bool(place % 3),
            (),
            physical_path=path,
            number=place + 1,
            path_numbers=(50,) * (len(path) - 1),
        )
        for place, (of, path) in enumerate(zip(types, paths, strict=True))
    )
    contract = replace(contract_of(kind), fields=fields, wire=WireFormat("prefix"))
    schema = WriterSchema("7", kind, export_schema(contract, kind))
    values = [one.value for one in EncodedSamples(contract, MessageSchemas(schema), seed=1).good(50)]
    reader = FramedReader(contract, lambda keys: dict.fromkeys(keys, schema))
    found = reader.read(pa.array(values, pa.binary()), None).decoded
    assert (found.rows.num_rows, found.faults) == (50, [])
    for place, item in enumerate(fields):
        assert found.rows.column(place).null_count < 50, item.type.name
