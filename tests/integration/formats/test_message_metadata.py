"""Keys, timestamps and headers of messages as columns: with the real broker, Postgres and Spark, and verified.

The columns x, nth and place have the names that the statements of a replay once used as aliases.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.reader.odcs import load
from platform_defs.errors import BadInput
from platform_defs.verify.verify import verify
from tests.support.replays import execute
from tests.support.world import World, renamed

CONTRACT = """
apiVersion: v3.1.0
kind: DataContract
id: shop_events
version: 1.0.0
domain: shop
servers: [{server: kafka, type: kafka, format: json}]
schema:
  - name: events
    physicalType: topic
    physicalName: shop.events
    properties:
      - {name: amount, logicalType: number, physicalType: "decimal(18,2)", required: true}
      - {name: x, logicalType: string}
      - {name: nth, logicalType: string}
      - name: tenant
        logicalType: string
        required: true
        logicalTypeOptions: {maxLength: 10}
        customProperties: [{property: source, value: "header:tenant"}]
      - {name: sent_at, logicalType: timestamp, customProperties: [{property: source, value: timestamp}]}
      - {name: message_key, logicalType: string, customProperties: [{property: source, value: key}]}
      - {name: headers, physicalType: json, customProperties: [{property: source, value: headers}]}
      - {name: place, logicalType: integer, customProperties: [{property: source, value: offset}]}
  - name: events
    physicalType: table
    physicalName: shop.events
    customProperties: [{property: disposition, value: DISPOSITION}]
    properties:
      - {name: amount, logicalType: number, physicalType: "decimal(18,2)", required: true}
      - {name: tenant, logicalType: string, required: true}
      - {name: sent_at, logicalType: timestamp}
      - {name: message_key, logicalType: string}
      - {name: headers, physicalType: json}
      - {name: place, logicalType: integer}
      - {name: x, logicalType: string}
      - {name: nth, logicalType: string}
"""
SUMS = """
  - name: sums
    physicalType: table
    physicalName: shop.sums
    customProperties: [{property: disposition, value: accumulate}]
    properties:
      - {name: tenant, logicalType: string, required: true, primaryKey: true}
      - {name: total, logicalType: number, physicalType: "decimal(28,2)", required: true, transformLogic: sum(amount)}
"""
START = int(time.time() - 600) * 1_000  # ms: retention would remove older messages


def new_pipeline(
    world: World, folder: Path, disposition: str, *, text: str = CONTRACT, transform: Any = None
) -> Pipeline:
    path = folder / "shop" / "events.odcs.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text.replace("DISPOSITION", disposition), encoding="utf-8")
    pipeline = Pipeline(renamed(load(path), f"t{token_hex(5)}"), transform)
    compacts = {"cleanup.policy": "compact"} if disposition == "upsert" else {}
    world.create_topic(pipeline.contract.topic, 2, compacts)
    return pipeline


def send(world: World, pipeline: Pipeline, messages: Sequence[tuple[bytes | None, Any, bytes | None]]) -> None:
    """Produce (value, headers, key), to partitions 0 and 1 in turn; the timestamp of the nth is START + n seconds."""
    producer = Producer({**world.endpoints.kafka_options(), "linger.ms": 5})
    for number, (value, headers, key) in enumerate(messages):
        stamp = START + 1_000 * number
        producer.produce(pipeline.contract.topic, value, key, number % 2, headers=headers, timestamp=stamp)
    assert producer.flush(30) == 0


def spoiled(world: World, pipeline: Pipeline, statement: str) -> dict[str, Any]:
    """Return verify's report after the statement on the pipeline's row table."""
    world.rows(statement.format(table=pipeline.contract.row_table.name))
    return verify(pipeline, world.endpoints, world.spark).to_json()


def test_an_append_table_has_metadata_and_an_accumulate_groups_by_a_header(world: World, tmp_path: Path) -> None:
    pipeline = new_pipeline(world, tmp_path, "append", text=CONTRACT + SUMS)
    value = b'{"amount": 1.50}'
    many = [("tenant", b"c"), *((f"h{number}", b"x") for number in range(1_000))]
    send(
        world,
        pipeline,
        [
            (value, [("tenant", b"a"), ("trace", b"\xff\0")], b"k1"),
            (value, [("tenant", b"x"), ("tenant", b"b")], None),  # of duplicates the last
            (value, None, b"k2"),  # required
            (value, [("tenant", b"\xff")], b"k3"),  # not UTF-8
            (value, [("tenant", b"a\0")], b"k4"),  # NUL
            (value, [("tenant", b"a"), ("empty", b""), ("none", None)], b""),
            (value, [("tenant", b"too long for it")], b"k5"),
            (value, [("tenant", b"a")], b"\xff"),  # a key that is not text
            (value, many, b"k6"),
            (b"x", [("tenant", b"a")], b"k7"),
        ],
    )
    world.drain(pipeline)
    table = pipeline.contract.row_table.name
    rows = world.rows(f"SELECT * FROM {table} ORDER BY sent_at")
    assert [(row["tenant"], row["message_key"], row["sent_at"].timestamp() * 1_000 - START) for row in rows] == [
        ("a", "k1", 0),
        ("b", None, 1_000),
        ("a", "", 5_000),
        ("c", "k6", 8_000),
    ]
    assert rows[0]["headers"] == [
        {"name": "tenant", "value": "a"},
        {"name": "trace", "value": "/wA=", "encoding": "base64"},
    ]
    assert rows[2]["headers"][1:] == [{"name": "empty", "value": ""}, {"name": "none", "value": None}]
    assert len(rows[3]["headers"]) == 1_001
    assert [(row["place"], row["_offset"]) for row in rows] == [(0, 0), (0, 0), (2, 2), (4, 4)]
    reasons = world.rows(
        "SELECT stage, error_class, field FROM tidegate.dead_letter WHERE pipeline = %s ORDER BY timestamp_ms",
        pipeline.name,
    )
    assert [tuple(row.values()) for row in reasons] == [
        ("check", "tenant_required", "tenant"),
        ("decode", "InvalidUtf8", "tenant"),
        ("decode", "NulCharacter", "tenant"),
        ("check", "tenant_max_length", "tenant"),
        ("decode", "InvalidUtf8", "message_key"),
        ("decode", "InvalidJson", None),
    ]
    sums = world.rows(f"SELECT tenant, total::text FROM {pipeline.contract.accumulates[0].name} ORDER BY tenant")
    assert [tuple(row.values()) for row in sums] == [("a", "3.00"), ("b", "1.50"), ("c", "1.50")]
    report = verify(pipeline, world.endpoints, world.spark)
    assert report.ok, report.to_json()
    assert report.to_json()["dead_letters"] == 6


@pytest.mark.slow
def test_verify_finds_the_timestamp_of_another_message(world: World, tmp_path: Path) -> None:
    pipeline = new_pipeline(world, tmp_path, "append")
    send(world, pipeline, [(b'{"amount": 1}', [("tenant", b"a")], b"k")] * 4)
    world.drain(pipeline)
    assert verify(pipeline, world.endpoints, world.spark).ok
    later = "UPDATE {table} SET sent_at = sent_at + interval '2 seconds' WHERE _partition = 0 AND _offset = 0"
    assert spoiled(world, pipeline, later)["wrong"] == 1
    other = "UPDATE {table} SET headers = '[]' WHERE _partition = 1 AND _offset = 1"
    assert spoiled(world, pipeline, other)["wrong"] == 2


class NotUtf8(str):
    """The name of a header that is the byte 0xff."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:  # noqa: ARG002  # as str has it
        return b"\xff"


def test_a_header_whose_name_is_not_utf_8_makes_a_dead_letter_and_the_next_message_a_row(
    world: World, tmp_path: Path
) -> None:
    pipeline = new_pipeline(world, tmp_path, "append")
    servers = world.endpoints.kafka_options()["bootstrap.servers"]
    producer = KafkaProducer(bootstrap_servers=servers)  # librdkafka's encodes names itself
    for name in (NotUtf8("x"), "y"):
        producer.send(pipeline.contract.topic, b'{"amount": 1}', partition=0, headers=[(name, b"b"), ("tenant", b"a")])
    producer.close()
    world.drain(pipeline)
    letters = world.rows(
        "SELECT stage, error_class, headers::text FROM tidegate.dead_letter WHERE pipeline = %s", pipeline.name
    )
    assert [(row["stage"], row["error_class"]) for row in letters] == [("decode", "InvalidUtf8")]
    assert "not UTF-8" in letters[0]["headers"]
    rows = world.rows(f"SELECT _offset FROM {pipeline.contract.row_table.name}")
    assert [row["_offset"] for row in rows] == [1]
    assert verify(pipeline, world.endpoints, world.spark).ok


def passed_through(messages: DataFrame) -> DataFrame:
    """Return all columns; `_key` is named, so that it is among them."""
    return messages.where(F.col("_KEY").isNotNull())


@pytest.mark.slow
def test_a_transform_may_pass_all_columns_through_and_write_names_in_any_case(world: World, tmp_path: Path) -> None:
    pipeline = new_pipeline(world, tmp_path, "append", transform=passed_through)
    send(world, pipeline, [(b'{"amount": 1}', [("tenant", b"a")], key) for key in (b"k", None, b"")])
    world.drain(pipeline)
    rows = world.rows(f"SELECT message_key FROM {pipeline.contract.row_table.name}")
    assert sorted(row["message_key"] for row in rows) == ["", "k"]
    assert verify(pipeline, world.endpoints, world.spark).ok


def test_an_upsert_keeps_the_metadata_of_the_newest_message(world: World, tmp_path: Path) -> None:
    pipeline = new_pipeline(world, tmp_path, "upsert")
    a, b = [("tenant", b"a")], [("tenant", b"b")]
    value = b'{"amount": 1}'
    send(world, pipeline, [(value, a, b"one"), (value, a, b"two"), (value, b, b"one"), (None, None, b"two")])
    world.drain(pipeline)
    rows = world.rows(f"SELECT tenant, message_key, place, sent_at FROM {pipeline.contract.row_table.name}")
    assert [(row["tenant"], row["message_key"], row["place"]) for row in rows] == [("b", "one", 1)]
    assert rows[0]["sent_at"].timestamp() * 1000 == START + 2_000
    assert verify(pipeline, world.endpoints, world.spark).ok
    assert spoiled(world, pipeline, "UPDATE {table} SET tenant = 'a'")["wrong"] == 1


def from_metadata(messages: DataFrame) -> DataFrame:
    """Fill the table from `_key`, `_timestamp` and `_headers`."""
    last = F.element_at(F.filter("_headers", lambda header: header["key"] == "trace"), -1)
    return messages.where(F.col("_timestamp") >= F.timestamp_millis(F.lit(START + 1_000))).select(
        "amount",
        "tenant",
        F.col("_timestamp").alias("sent_at"),
        F.decode("_key", "UTF-8").alias("message_key"),
        F.to_json(F.transform("_headers", lambda header: header["key"])).alias("headers"),
        F.length(last["value"]).cast("bigint").alias("place"),
        "x",
        "nth",
        "_partition",
        "_offset",
    )


@pytest.mark.longest
def test_a_transform_gets_the_key_the_timestamp_and_the_headers(world: World, tmp_path: Path) -> None:
    pipeline = new_pipeline(world, tmp_path, "append", transform=from_metadata)
    headers = [("tenant", b"a"), ("trace", b"1"), ("trace", b"123")]
    send(world, pipeline, [(b'{"amount": 1}', headers, f"k{number}".encode()) for number in range(4)])
    world.drain(pipeline)
    rows = world.rows(f"SELECT * FROM {pipeline.contract.row_table.name} ORDER BY sent_at")
    assert [(row["message_key"], row["place"], row["sent_at"].timestamp() * 1_000 - START) for row in rows] == [
        ("k1", 3, 1_000),
        ("k2", 3, 2_000),
        ("k3", 3, 3_000),
    ]
    assert rows[0]["headers"] == ["tenant", "trace", "trace"]
    report = verify(pipeline, world.endpoints, world.spark)
    assert (report.ok, report.to_json()["filtered"]) == (True, 1)
    assert spoiled(world, pipeline, "UPDATE {table} SET message_key = 'k1'")["wrong"] == 2


@pytest.mark.slow
def test_a_field_with_a_source_that_is_added_later_waits_for_a_replay(world: World, tmp_path: Path) -> None:
    text = CONTRACT.replace(
        "      - {name: place, logicalType: integer, customProperties: [{property: source, value: offset}]}\n", ""
    )
    before = new_pipeline(
        world, tmp_path, "append", text=text.replace("      - {name: place, logicalType: integer}\n", "")
    )
    send(world, before, [(b'{"amount": 1}', [("tenant", b"a")], b"k")] * 4)
    world.drain(before)
    path = tmp_path / "shop" / "events.odcs.yaml"
    path.write_text(CONTRACT.replace("DISPOSITION", "append").replace("1.0.0", "2.0.0"), encoding="utf-8")
    after = Pipeline(replace(renamed(load(path), before.name), pipeline=before.name), None)
    with pytest.raises(BadInput, match="tidegate replay"):
        world.drain(after)
    execute(world, after)
    rows = world.rows(f"SELECT place FROM {after.contract.row_table.name} ORDER BY _partition, _offset")
    assert [row["place"] for row in rows] == [0, 1, 0, 1]
    assert verify(after, world.endpoints, world.spark).ok
