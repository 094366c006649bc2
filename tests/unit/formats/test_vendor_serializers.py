"""Messages of confluent-kafka's own serializers become the same rows as bare JSON of the same values."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from platform_defs.contract.model.contract import Format, WireFormat
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.framed import FramedReader
from platform_defs.formats.json.decode import decode
from platform_defs.registry.client import RegistryClient
from platform_defs.settings.contracts import find_contract
from platform_defs.settings.registry_address import Registry
from platform_defs.verify.validators.framed import FramedValidator
from platform_defs.verify.validators.known_schemas import KnownSchemas, NamedSchema
from tests.support.kafka.registered import serialized
from tests.support.world import transfers
from tests.unit.registry.registry_double import registry_double

DAMAGED = {  # a good message without its last byte, with one more, and without its framing
    "json": ["InvalidJson", "InvalidJson", "NotFramed"],
    "avro": ["TruncatedAvro", "TrailingBytes", "NotFramed"],
    "protobuf": ["InvalidProtobuf", "InvalidProtobuf", "NotFramed"],
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_serializers_messages_are_read_by_what_the_registry_has_of_them(kind: Format) -> None:
    bare, values = find_contract("bank_transfers"), transfers(200)
    record = "" if kind == "json" else "bank.Transfer"
    contract = replace(bare, format=kind, wire=WireFormat("prefix", record=record))
    with registry_double() as server:
        asking = RegistryClient(Registry({"url": server.url}))
        good = serialized(kind, SchemaRegistryClient({"url": server.url}), "t", [json.loads(one) for one in values])
        messages = [*good, good[0][:-1], good[0] + b"\0", good[0][5:]]

        def find(keys: Sequence[str]) -> Mapping[str, WriterSchema | None]:
            return {key: asking.schema(key) for key in keys}

        found = FramedReader(contract, find).read(pa.array(messages, pa.binary()), None)
        (schema,) = [known for key in found.schemas if (known := asking.schema(key)) is not None]
    assert found.decoded.rows.equals(decode(bare, pa.array(values, pa.binary())).rows)
    assert [fault.error_class for fault in found.decoded.faults] == DAMAGED[kind]
    known = KnownSchemas()
    known.add(0, 0, 1, NamedSchema(schema.key, schema.format, schema.document, schema.references, encrypted=False))
    validator = FramedValidator(contract, known)
    validated = [validator.at(0, 0, message, None) for message in messages]
    assert [row for row in validated if isinstance(row, tuple)] == [
        tuple(row.values()) for row in found.decoded.rows.to_pylist()
    ]
    assert [getattr(row, "reason", None) for row in validated[200:]] == DAMAGED[kind]
