"""Made-up messages in Avro, Protobuf and framed JSON: the good ones become rows, the bad ones say what was foretold."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from assets import find_contract
from platform_defs.contract.column_types import FIXED, column_type
from platform_defs.contract.model import Contract, Field, Format, Framing, WireFormat
from platform_defs.engine.row_checks import check_rows
from platform_defs.errors import BadInput
from platform_defs.exchange.exporting import export_schema
from platform_defs.formats.framed import FramedReader, reader_of_file
from platform_defs.formats.framing import HEADERS
from platform_defs.formats.writer_schema import WriterSchema
from platform_defs.samples.encoded import EncodedSamples, Outlet
from platform_defs.samples.mixture import Mixture
from tests.registered import AVRO, PROTOBUF
from tests.unit.avro_messages import fixed, logical

ODD = json.loads(AVRO)  # everything in another way than a contract exports it
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
    samples = EncodedSamples(contract, Outlet(schema), seed=1)
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
    outlet = Outlet(schema, WriterSchema("8", "avro", '{"type": "string"}'))
    keys = [one.key for one in EncodedSamples(contract, outlet).good(20)]
    assert {key[:5] for key in keys if key} == {b"\0\0\0\0\x08"}
    assert {len(key) - 6 == key[5] // 2 for key in keys if key} == {True}
    message = WriterSchema("8", "protobuf", 'syntax = "proto3"; message K { int32 n = 1; string id = 2; }')
    keyed = replace(contract, wire=replace(contract.wire, key_format="protobuf"))
    (key,) = (one.key for one in EncodedSamples(keyed, replace(outlet, key=message)).good(1))
    assert key is not None
    assert (key[:7], key[7]) == (b"\0\0\0\0\x08\0\x12", len(key) - 8)
    with pytest.raises(BadInput, match="only keys that are texts"):
        EncodedSamples(contract, replace(outlet, key=WriterSchema("8", "avro", '"long"')))


def test_a_schema_that_cannot_hold_the_messages_is_refused() -> None:
    contract = contract_of("avro")
    more = json.loads(export_schema(contract, "avro"))
    more["fields"].append({"name": "must", "type": "long"})
    with pytest.raises(BadInput, match="schema 7 has no way to write a message of the contract: None is not a long"):
        EncodedSamples(contract, Outlet(WriterSchema("7", "avro", json.dumps(more))))


def test_an_enum_of_the_schema_gets_its_symbols_where_the_contract_names_none() -> None:
    contract = contract_of("avro")
    free = tuple(replace(item, rules=()) if item.name == "currency" else item for item in contract.fields)
    written = EncodedSamples(replace(contract, fields=free), Outlet(WriterSchema("7", "avro", AVRO))).good(100)
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
    values = [one.value for one in EncodedSamples(contract, Outlet(schema), seed=1).good(50)]
    reader = FramedReader(contract, lambda keys: dict.fromkeys(keys, schema))
    found = reader.read(pa.array(values, pa.binary()), None).decoded
    assert (found.rows.num_rows, found.faults) == (50, [])
    for place, item in enumerate(fields):
        assert found.rows.column(place).null_count < 50, item.type.name
