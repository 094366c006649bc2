"""uuid, time and bytes from the message to the table and back: each as Postgres has it, and verify agrees."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Column, Field, RowRule, WireFormat
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.ledger.contract_ledger import ContractLedger
from platform_defs.verify.verify import verify
from tests.support.world import World
from tests.unit.formats.avro.avro_messages import encode, fixed, logical, record

TYPES = {"id": "string", "ref": "uuid", "at": "time", "raw": "bytes"}
FIELDS = tuple(
    Field(name, column_type(of), required=name == "id", rules=())
    if name != "at"
    else Field(name, column_type(of), required=False, rules=(RowRule("at_maximum", "at", "maximum", "23:00:00", ""),))
    for name, of in TYPES.items()
)
UUID = "6f1c0b9e-8d3a-4c55-9f0e-2b7a1d4e5f60"


def typed(pipeline: Pipeline, transform: Any = None, **more: Any) -> Pipeline:
    """Return `pipeline` with a column of each type."""
    columns = tuple(Column(item.name, item.type, item.required) for item in FIELDS)
    table = replace(pipeline.contract.row_table, columns=columns, batch_rules=())
    return Pipeline(replace(pipeline.contract, fields=FIELDS, tables=(table,), **more), transform)


def rows(world: World, pipeline: Pipeline) -> list[tuple[Any, ...]]:
    query = f"select id, ref::text, at::text, raw from {pipeline.contract.row_table.name} order by id"
    return [tuple(row.values()) for row in world.rows(query)]


MESSAGES = [
    {"id": "a", "ref": UUID.upper(), "at": "10:00:00.120000Z", "raw": "AAH/"},
    {"id": "b", "ref": UUID, "at": "00:00:00", "raw": ""},
    {"id": "c"},
    {"id": "d", "at": "23:00:00.000001"},
    {"id": "e", "ref": UUID[:-1]},
    {"id": "f", "raw": "AAH"},
]
WANTED = [("a", UUID, "10:00:00.12", b"\0\1\xff"), ("b", UUID, "00:00:00", b""), ("c", None, None, None)]


@pytest.mark.slow
@pytest.mark.parametrize("disposition", ["append", "upsert"])
def test_json_fills_columns_of_each_type(world: World, disposition: str) -> None:
    pipeline = typed(world.new_pipeline(disposition))
    values = [json.dumps(message).encode() for message in MESSAGES]
    (published,) = world.send_and_drain(pipeline, values, keys=[message["id"].encode() for message in MESSAGES])
    assert published.dead_letters == 3
    assert rows(world, pipeline) == WANTED
    letters = {letter["error_class"] for letter in world.dead_letters(pipeline)}
    assert letters == {"at_maximum", "InvalidUuid", "InvalidBase64"}
    assert verify(pipeline, world.endpoints, world.spark).ok


def test_avro_fills_columns_of_each_type(world: World) -> None:
    schema = record(
        id="string", ref=fixed(16, "U", logicalType="uuid"), at=logical("long", "time-micros"), raw=["null", "bytes"]
    )
    wire = WireFormat("none", schema_file="typed.avsc", schema_text=json.dumps(schema))
    pipeline = typed(world.new_pipeline(), format="avro", wire=wire)
    ref = bytes.fromhex(UUID.replace("-", ""))
    values = [encode(schema, {"id": "a", "ref": ref, "at": 36_000_120_000 + n, "raw": (1, b"\0\1")}) for n in (0, 1)]
    (published,) = world.send_and_drain(pipeline, [*values, values[0][:-1]])
    assert published.dead_letters == 1
    assert rows(world, pipeline) == [("a", UUID, "10:00:00.12", b"\0\1"), ("a", UUID, "10:00:00.120001", b"\0\1")]
    assert verify(pipeline, world.endpoints, world.spark).ok


def test_a_schema_file_is_read_with_its_imports(world: World) -> None:
    text = 'syntax = "proto3"; import "imp/refs.proto"; message M { string id = 1; imp.Ref ref = 2; }'
    refs = 'syntax = "proto3"; package imp; message Ref { string ref = 1; }'
    wire = WireFormat("none", schema_file="m.proto", schema_text=text, schema_imports=(("imp/refs.proto", refs),))
    pipeline = typed(world.new_pipeline(), format="protobuf", wire=wire)
    fields = (FIELDS[0], replace(FIELDS[1], physical_path=("ref", "ref")), *FIELDS[2:])
    pipeline = replace(pipeline, contract=replace(pipeline.contract, fields=fields))
    (published,) = world.send_and_drain(pipeline, [b"\n\1a", b"\n\1b\x12\x26\n\x24" + UUID.encode()])
    assert published.dead_letters == 0
    assert rows(world, pipeline) == [("a", None, None, None), ("b", UUID, None, None)]
    with world.session() as session:
        recorded = ContractLedger(session, pipeline.name).applied()
    assert recorded is not None
    assert recorded.contract(pipeline.name).wire == wire
    assert verify(pipeline, world.endpoints, world.spark).ok


@pytest.mark.longest
def test_a_transform_may_spell_them_in_any_way_that_postgres_takes(world: World) -> None:
    def transform(messages: DataFrame) -> DataFrame:
        return messages.withColumn("ref", F.upper("ref")).withColumn("at", F.concat("at", F.lit("0")))

    pipeline = typed(world.new_pipeline(), transform)
    world.send(pipeline, [json.dumps({**MESSAGES[0], "at": f"10:00:00.{n}"}).encode() for n in range(1, 9)])
    (published,) = world.drain(pipeline)
    assert (published.rows, published.dead_letters) == (8, 0)
    assert {row[1:] for row in rows(world, pipeline)} == {(UUID, f"10:00:00.{n}", b"\0\1\xff") for n in range(1, 9)}
    assert verify(pipeline, world.endpoints, world.spark).ok
