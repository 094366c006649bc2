"""How fast blocks of messages become columns: JSON and Avro of the same transfers, and Confluent's own deserializer.

    python -m bench.decode [ROUNDS]

One core, blocks of 10,000, no broker and no database. Every round measures every path, one after another, and what is
compared are ratios within a round. Prints a Markdown table for docs/explanation/performance.md.
"""

import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import orjson
import pyarrow as pa
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from assets import find_pipeline
from platform_defs.formats.avro.decode import AvroReader
from platform_defs.formats.json.decode import decode_json
from platform_defs.formats.writer_schema import WriterSchema

BLOCK = 10_000  # messages
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
PREFIX = b"\0\0\0\0\1"  # magic byte, id 1
DESERIALIZER = "Confluent's AvroDeserializer, in a loop"
Transfer = dict[str, Any]


def transfers() -> list[Transfer]:
    """Those of `make bench`."""
    rng = random.Random(1)  # noqa: S311  # accounts and amounts, not secrets
    return [
        {
            "transfer_id": f"T{n}",
            "debit_account": f"A{rng.randrange(100_000):05}",
            "credit_account": f"A{rng.randrange(100_000):05}",
            "amount": Decimal(rng.randrange(100, 100_000)).scaleb(-2),
            "currency": "EUR",
            "occurred_at": datetime(2026, 11, rng.randrange(1, 29), 10, tzinfo=UTC),
            "memo": f"payment number {n}",
        }
        for n in range(BLOCK)
    ]


def as_json(transfer: Transfer) -> bytes:
    """The message as `make bench` writes it."""
    time_of = transfer["occurred_at"].strftime("%Y-%m-%dT%H:%M:%SZ")
    return orjson.dumps({**transfer, "amount": str(transfer["amount"]), "occurred_at": time_of})


def as_avro(transfer: Transfer) -> bytes:
    """The message as Confluent's serializer writes it."""
    out = BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, transfer)
    return PREFIX + out.getvalue()


def paths() -> dict[str, Callable[[], object]]:
    """What is measured, by name: each takes a block of messages to columns, the last to Python's objects."""
    made = transfers()
    contract = find_pipeline("bank_transfers").contract
    texts = pa.array([as_json(transfer) for transfer in made], pa.binary())
    framed = [as_avro(transfer) for transfer in made]
    reader = AvroReader(replace(contract, format="avro"), WriterSchema("1", "avro", json.dumps(SCHEMA)))
    values = pa.array(framed, pa.binary())
    deserialize, context = deserializer(), SerializationContext("bench", MessageField.VALUE)
    assert decode_json(contract, texts).rows.equals(read_avro(reader, values))  # noqa: S101  # the same rows
    return {
        "JSON, by block": lambda: decode_json(contract, texts),
        "Avro, by block": lambda: read_avro(reader, values),
        DESERIALIZER: lambda: [deserialize(value, context) for value in framed],
    }


def read_avro(reader: AvroReader, values: pa.BinaryArray) -> pa.RecordBatch:
    """The rows of framed messages."""
    _, ends, data = values.buffers()
    edges = np.frombuffer(ends, np.int32, len(values) + 1).astype(np.int64)
    return reader.read(data, edges[:-1] + len(PREFIX), edges[1:]).rows


def deserializer() -> AvroDeserializer:
    """One that knows its schema already, and never asks a registry."""
    client = SchemaRegistryClient({"url": "http://127.0.0.1:1"})
    client._cache.set_schema("bench-value", 1, None, Schema(json.dumps(SCHEMA), "AVRO"))
    return AvroDeserializer(client, conf={"subject.name.strategy": topic_subject_name_strategy})


def measure(path: Callable[[], object], seconds: float = 1.0) -> float:
    """Messages per second, over `seconds` at least."""
    blocks, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        path()
        blocks += 1
    return blocks * BLOCK / elapsed


def main(rounds: int = 5) -> None:
    measured = paths()
    for path in measured.values():
        path()
    seen = {name: [] for name in measured}
    for _ in range(rounds):
        for name, path in measured.items():
            seen[name].append(measure(path))
    report(seen)


def report(seen: dict[str, list[float]]) -> None:
    """The medians, and how each path compares with the others in the same round."""
    avro = seen["Avro, by block"]
    print("| path | messages/s | Avro by block against it |\n|---|---|---|")  # noqa: T201
    for name, speeds in seen.items():
        ratios = [ours / theirs for ours, theirs in zip(avro, speeds, strict=True)]
        between = f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
        print(f"| {name} | {statistics.median(speeds):,.0f} | {between} |")  # noqa: T201


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
