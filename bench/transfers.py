"""The transfers that every benchmark carries, in each format, as Confluent's serializers write them."""

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from io import BytesIO
from typing import Any

import fastavro
import orjson
from confluent_kafka import Producer
from google.protobuf.message_factory import GetMessageClass

from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.protobuf.descriptors import file_of

SCHEMA = {
    "type": "record",
    "name": "Transfer",
    "namespace": "bank",
    "fields": [
        {"name": "transfer_id", "type": "string"},
        {"name": "debit_account", "type": "string"},
        {"name": "credit_account", "type": "string"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}},
        {"name": "currency", "type": "string"},
        {"name": "occurred_at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "memo", "type": ["null", "string"]},
    ],
}
PROTO = """
syntax = "proto3";
package bank;
import "google/protobuf/timestamp.proto";
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
Transfer = dict[str, Any]
Message = Mapping[str, Any]  # the arguments of Producer.produce
PARSED = fastavro.parse_schema(SCHEMA)
AVRO_SCHEMA = WriterSchema("1", "avro", json.dumps(SCHEMA))
PROTOBUF_SCHEMA = WriterSchema("2", "protobuf", PROTO)


def transfers(count: int) -> Iterator[Transfer]:
    """Yield so many transfers, the same each time."""
    rng = random.Random(1)  # noqa: S311  # accounts and amounts, not secrets
    for n in range(count):
        yield {
            "transfer_id": f"T{n}",
            "debit_account": f"A{rng.randrange(100_000):05}",
            "credit_account": f"A{rng.randrange(100_000):05}",
            "amount": Decimal(rng.randrange(100, 100_000)).scaleb(-2),
            "currency": "EUR",
            "occurred_at": datetime(2026, 11, rng.randrange(1, 29), 10, tzinfo=UTC),
            "memo": f"payment number {n}",
        }


def send(options: Mapping[str, str], messages: Iterable[Message]) -> None:
    """Send the messages, and wait for their acknowledgements."""
    producer = Producer({**options, "linger.ms": 50, "batch.size": 1_000_000, "compression.type": "lz4", "acks": "all"})
    for message in messages:
        while True:
            try:
                producer.produce(**message)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def as_json(transfer: Transfer) -> bytes:
    """Return it in JSON, about 180 bytes."""
    time_of = f"2026-11-{transfer['occurred_at'].day:02}T10:00:00Z"
    return orjson.dumps({**transfer, "amount": str(transfer["amount"]), "occurred_at": time_of})


def as_avro(transfer: Transfer) -> bytes:
    """Return it in Avro, without its frame."""
    out = BytesIO()
    fastavro.schemaless_writer(out, PARSED, transfer)
    return out.getvalue()


def as_protobuf(transfer: Transfer) -> bytes:
    """Return the index of the message, and the message; without magic byte and id."""
    message = transfer_type()(**{**transfer, "amount": str(transfer["amount"]), "occurred_at": None})
    message.occurred_at.FromDatetime(transfer["occurred_at"])
    return b"\0" + message.SerializeToString()


@cache
def transfer_type() -> type[Any]:
    """Return Protobuf's class of a transfer."""
    return GetMessageClass(file_of(PROTOBUF_SCHEMA).message_types_by_name["Transfer"])


def framed(schema: WriterSchema, payload: bytes) -> bytes:
    """Return the payload behind the magic byte and the schema's id."""
    return b"\0" + int(schema.key).to_bytes(4) + payload
