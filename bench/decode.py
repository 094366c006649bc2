"""The speed at which blocks of messages become columns: JSON, Avro, Protobuf of the same transfers, and loops.

    python -m bench.decode [ROUNDS]

One core, blocks of 10,000, no broker and no database. Every round measures every path, one after another, and the
comparison is by ratios within a round. Prints a Markdown table for docs/explanation/performance.md.
"""

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from bench.transfers import (
    AVRO_SCHEMA,
    PROTOBUF_SCHEMA,
    as_avro,
    as_json,
    as_protobuf,
    framed,
    transfer_type,
    transfers,
)
from platform_defs.formats.avro.decode import AvroReader
from platform_defs.formats.json.decode import decode
from platform_defs.formats.protobuf.decode import ProtobufReader
from platform_defs.formats.supported import Reader
from platform_defs.settings.contracts import find_pipeline

BLOCK = 10_000  # messages
PREFIX = 5  # bytes: magic byte, and id
AVRO, PROTOBUF = "Avro, by block", "Protobuf, by block"
DESERIALIZER = "Confluent's AvroDeserializer, in a loop"
UPB = "Google's parser of Protobuf (upb), in a loop"


def fields_of(message: Any) -> tuple[Any, ...]:
    """Return a message's Python objects, as upb has them: the amount a text, the time its seconds."""
    accounts = message.debit_account, message.credit_account
    return message.transfer_id, *accounts, message.amount, message.currency, message.occurred_at.seconds, message.memo


def paths() -> dict[str, Callable[[], object]]:
    """Return the measured paths by name: each converts a block of messages to columns, the last to Python's objects."""
    made = list(transfers(BLOCK))
    contract = find_pipeline("bank_transfers").contract
    texts = pa.array([as_json(transfer) for transfer in made], pa.binary())
    written = [framed(AVRO_SCHEMA, as_avro(transfer)) for transfer in made]
    reader = AvroReader(replace(contract, format="avro"), AVRO_SCHEMA)
    values = pa.array(written, pa.binary())
    protobuf = ProtobufReader(replace(contract, format="protobuf"), PROTOBUF_SCHEMA, framed=True)
    messages, upb = [as_protobuf(transfer) for transfer in made], transfer_type()
    column = pa.array(messages, pa.binary())
    deserialize = deserializer()
    context = SerializationContext("bench", MessageField.VALUE)

    def deserialized(values: list[bytes]) -> list[Any]:
        return [deserialize(value, context) for value in values]

    rows = decode(contract, texts).rows
    assert rows.equals(read_block(reader, values, PREFIX))  # the same rows
    assert rows.equals(read_block(protobuf, column, 0))
    return {
        "JSON, by block": lambda: decode(contract, texts),
        AVRO: lambda: read_block(reader, values, PREFIX),
        PROTOBUF: lambda: read_block(protobuf, column, 0),
        DESERIALIZER: lambda: deserialized(written),
        UPB: lambda: [fields_of(upb.FromString(value[1:])) for value in messages],
    }


def read_block(reader: Reader, values: pa.BinaryArray, prefix: int) -> pa.RecordBatch:
    """Return the rows of messages, each behind `prefix` bytes."""
    buffers: list[Any] = values.buffers()
    _, ends, data = buffers
    edges = np.frombuffer(ends, np.int32, len(values) + 1).astype(np.int64)
    return reader.read(data, edges[:-1] + prefix, edges[1:]).rows


def deserializer() -> AvroDeserializer:
    """Return a deserializer that knows its schema already, and never asks a registry."""
    client: Any = SchemaRegistryClient({"url": "http://127.0.0.1:1"})
    client._cache.set_schema("bench-value", 1, None, Schema(AVRO_SCHEMA.document, "AVRO"))
    made: Any = AvroDeserializer
    return made(client, conf={"subject.name.strategy": topic_subject_name_strategy})


def measure(path: Callable[[], object], seconds: float = 1.0) -> float:
    """Return messages per second, over `seconds` at least."""
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
    """Print the medians, and the ratios of Avro and Protobuf to each path in the same round."""
    print(f"| path | messages/s | {AVRO}, against it | {PROTOBUF}, against it |\n|---|---|---|---|")
    for name, speeds in seen.items():
        against = " | ".join(ratio(seen[ours], speeds) for ours in (AVRO, PROTOBUF))
        print(f"| {name} | {statistics.median(speeds):,.0f} | {against} |")


def ratio(ours: list[float], theirs: list[float]) -> str:
    """Return the median of the rounds, the lowest and the highest."""
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    return f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
