"""Messages written by producers with the registry's own serializers, in each format."""

import json
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor import Descriptor
from google.protobuf.message_factory import GetMessageClass

from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.protobuf.descriptors import file_of

CONF = {"auto.register.schemas": True, "subject.name.strategy.type": "TOPIC"}
JSON_SCHEMA = """{
  "$schema": "http://json-schema.org/draft-07/schema#", "title": "Transfer", "type": "object",
  "properties": {"transfer_id": {"type": "string"}, "amount": {"type": "string"}}
}"""
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Transfer",
        "namespace": "bank",
        "fields": [
            {"name": "transfer_id", "type": "string"},
            {"name": "debit_account", "type": "string"},
            {"name": "credit_account", "type": "string"},
            {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}},
            {"name": "currency", "type": {"type": "enum", "name": "Currency", "symbols": ["CHF", "EUR"]}},
            {"name": "occurred_at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "memo", "type": ["null", "string"], "default": None},
        ],
    }
)
PROTOBUF = """
syntax = "proto3";
package bank;
import "google/protobuf/timestamp.proto";
message Refund { string of = 1; }
message Transfer {
  string transfer_id = 1;
  string debit_account = 2;
  string credit_account = 3;
  string amount = 4;
  string currency = 5;
  google.protobuf.Timestamp occurred_at = 6;
  optional string memo = 7;
}
"""

# (Any: their types are those of a class without arguments.)
avro_serializer: Any = AvroSerializer
json_serializer: Any = JSONSerializer
protobuf_serializer: Any = ProtobufSerializer
Document = dict[str, Any]


def serialized(kind: str, client: SchemaRegistryClient, topic: str, documents: Sequence[Document]) -> list[bytes]:
    """Return transfers (`world.transfers`, parsed) as confluent-kafka's serializer for this format writes them."""
    made: Any = {"json": _json, "avro": _avro, "protobuf": _protobuf}[kind](client)
    context = SerializationContext(topic, MessageField.VALUE)
    return [made(document, context) for document in documents]


def avro_values(
    client: SchemaRegistryClient, topic: str, schema: Any, values: Sequence[Any], *, key: bool = False
) -> list[bytes]:
    """Serialize values or keys with any Avro schema."""
    made: Any = avro_serializer(client, json.dumps(schema), conf=CONF)
    context = SerializationContext(topic, MessageField.KEY if key else MessageField.VALUE)
    return [made(value, context) for value in values]


def _json(client: SchemaRegistryClient) -> Any:
    return json_serializer(JSON_SCHEMA, client, conf=CONF)


def _avro(client: SchemaRegistryClient) -> Any:
    def typed(document: Document, _: Any) -> Document:
        at = datetime.fromisoformat(document["occurred_at"])
        return {**document, "amount": Decimal(document["amount"]), "occurred_at": at}

    return avro_serializer(client, AVRO, typed, conf=CONF)


def _protobuf(client: SchemaRegistryClient) -> Any:
    file: Any = file_of(WriterSchema("", "protobuf", PROTOBUF))
    transfer: Descriptor = file.message_types_by_name["Transfer"]
    made_of: Any = GetMessageClass(transfer)
    serializer: Any = protobuf_serializer(made_of, client, conf={**CONF, "skip.known.types": True})

    def serialize(document: Document, context: SerializationContext) -> bytes:
        at = datetime.fromisoformat(document["occurred_at"])
        message = made_of(**{**document, "occurred_at": None})
        message.occurred_at.FromDatetime(at.replace(tzinfo=None))
        return serializer(message, context)

    return serialize
