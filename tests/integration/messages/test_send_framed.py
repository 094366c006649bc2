"""`tidegate send` in Avro, Protobuf and framed JSON: as Confluent's serializers write it."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass

from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.protobuf.descriptors import file_of
from platform_defs.stack import stack
from platform_defs.stack.endpoints import connection
from tests.support.kafka.registered import AVRO, JSON_SCHEMA, PROTOBUF, avro_values, serialized
from tests.support.kafka.sending import Desk
from tests.support.world import World

pytestmark = pytest.mark.xdist_group("registry")

TRANSFER = {"transfer_id": "T1", "debit_account": "A00001", "credit_account": "A00002", "amount": "12.50"}
TRANSFER |= {"currency": "EUR", "occurred_at": "2026-11-01T10:00:00.123Z", "memo": "by hand"}
SCHEMAS = {"json": JSON_SCHEMA, "avro": AVRO, "protobuf": PROTOBUF}
STRATEGY = {"subject.name.strategy.type": "TOPIC"}
# (Any: their types are those of a class without arguments.)
avro_deserializer: Any = AvroDeserializer
json_deserializer: Any = JSONDeserializer
protobuf_deserializer: Any = ProtobufDeserializer


@pytest.fixture
def desk(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    stack.up(registry=True)
    folder = tmp_path / "contracts"
    folder.mkdir()
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(folder))
    monkeypatch.setenv("TIDEGATE_REGISTRY_NAME", uuid4().hex)
    world.ledger.migrate()
    return Desk(folder, replace(world, endpoints=connection()), f"t{uuid4().hex[:8]}")


def client(desk: Desk) -> SchemaRegistryClient:
    assert desk.world.endpoints.registry is not None
    return SchemaRegistryClient({"url": desk.world.endpoints.registry.options["url"]})


def declare(desk: Desk, kind: str, shipped: str = "bank/transfers", **properties: str) -> None:
    """Write a contract in this format, and create its topic."""
    given = {"framing": "prefix"} | ({"message": "bank.Transfer"} if kind == "protobuf" else {}) | properties
    listed = ", ".join(f"{{property: {name}, value: {value}}}" for name, value in given.items())
    desk.declare(shipped, f"format: {kind}, customProperties: [{listed}]")
    desk.make_topic()


def read_back(desk: Desk, kind: str, value: bytes) -> dict[str, Any]:
    """Return the message from Confluent's deserializer, as the document that was sent."""
    registry, context = client(desk), SerializationContext(desk.topic, MessageField.VALUE)
    if kind == "protobuf":
        file: Any = file_of(WriterSchema("", "protobuf", PROTOBUF))
        of: Any = GetMessageClass(file.message_types_by_name["Transfer"])
        made = protobuf_deserializer(of, {"use.deprecated.format": False}, registry)(value, context)
        at = made.occurred_at.ToDatetime()
        return {name: getattr(made, name) for name in TRANSFER} | {"occurred_at": f"{at.isoformat()[:-3]}Z"}
    if kind == "json":
        return json_deserializer(JSON_SCHEMA, conf=STRATEGY, schema_registry_client=registry)(value, context)
    found = avro_deserializer(registry, conf=STRATEGY)(value, context)
    return found | {"amount": str(found["amount"]), "occurred_at": found["occurred_at"].strftime("%FT%T.123Z")}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["avro", "protobuf", "json"])
def test_a_document_is_sent_as_confluents_serializer_writes_it_and_read_by_its_deserializer(
    desk: Desk, kind: str
) -> None:
    declare(desk, kind)
    (wanted,) = serialized(kind, client(desk), desk.topic, [TRANSFER])
    text = json.dumps(TRANSFER, separators=(",", ":"))
    assert desk.send(text, "-o", "json").document["sent"] == 1
    (message,) = desk.log()
    assert message.value() == wanted
    assert read_back(desk, kind, message.value()) == TRANSFER


MISFITS: dict[str, list[tuple[dict[str, Any], str]]] = {
    "avro": [
        ({"amount": "12.505"}, "value 1 cannot be encoded: amount: a value does not fit the schema"),
        ({"currency": "USD"}, "currency: a value does not fit the schema"),
        ({"refund": True}, "refund: the record bank.Transfer has no such field"),
        ({"debit_account": "?"}, "would be a dead letter (debit_account_pattern)"),
    ],
    "protobuf": [
        ({"memo": 5}, "memo: a value does not fit the schema"),
        ({"refund": True}, "refund: the message bank.Transfer has no such field"),
        ({"amount": "0"}, "would be a dead letter (amount_minimum)"),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["avro", "protobuf"])
def test_a_document_that_does_not_fit_is_refused_and_nothing_is_sent(desk: Desk, kind: str) -> None:
    declare(desk, kind)
    client(desk).register_schema(f"{desk.topic}-value", Schema(SCHEMAS[kind], kind.upper()))
    for wrong, reason in MISFITS[kind]:
        assert reason in desk.send(json.dumps(TRANSFER), json.dumps(TRANSFER | wrong), code=1).stderr.replace(
            "value 2", "value 1"
        )
    assert desk.log() == []


def test_without_a_registered_schema_nothing_is_sent_unless_unchecked(desk: Desk) -> None:
    declare(desk, "avro")
    assert f"has no schema yet, .*tidegate contract register {desk.name}".partition(".*")[0] in (
        desk.send(json.dumps(TRANSFER), code=1).stderr
    )
    assert desk.log() == []
    desk.send("\x00\x00\x00\x00\x07x", "--unchecked")
    assert [message.value() for message in desk.log()] == [b"\0\0\0\0\7x"]


def test_a_header_names_the_schema_where_the_contract_says_so(desk: Desk) -> None:
    declare(desk, "avro", framing="header")
    (wanted,) = serialized("avro", client(desk), desk.topic, [TRANSFER])
    desk.send(json.dumps(TRANSFER), "--no-ids")
    (message,) = desk.log()
    assert (message.value(), message.headers()) == (wanted[5:], [("__value_schema_id", wanted[:5])])
    refused = desk.send(json.dumps(TRANSFER), "--header", "__value_schema_id=x", code=1).stderr
    assert "the header __value_schema_id names the schema of the message, and Tidegate sets it" in refused


@pytest.mark.slow
def test_a_key_is_written_with_the_schema_of_keys(desk: Desk) -> None:
    declare(desk, "avro", "crm/customers", keyFormat="avro")
    fields: list[Any] = [{"name": name, "type": "string"} for name in ("customer_id", "name", "tier")]
    fields.append({"name": "signed_up", "type": {"type": "int", "logicalType": "date"}})
    schema = {"type": "record", "name": "Customer", "fields": fields}
    customer = {"customer_id": "C1", "name": "Ada", "tier": "gold", "signed_up": date(2026, 11, 1)}
    (wanted,) = avro_values(client(desk), desk.topic, schema, [customer])
    (key,) = avro_values(client(desk), desk.topic, "string", ["C1"], key=True)
    desk.send(json.dumps(customer, default=str), "--key", "C1")
    desk.send("--null", "--key", "C1")
    assert [(m.key(), m.value()) for m in desk.log()] == [(key, wanted), (key, None)]
    client(desk).register_schema(f"{desk.topic}-key", Schema('"long"', "AVRO"))
    message = desk.send("--null", "--key", "C1", code=1).stderr
    assert f"--key must be text that the schema of {desk.topic}-key can encode: " in message
