"""Arrays from the message to the table and back: each as Postgres has it; verify agrees, and finds a changed item."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Column, Field, WireFormat
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.verify.verify import verify
from tests.support.world import World
from tests.unit.formats.avro.avro_messages import encode, logical, record

ITEMS = ["string", "integer", "double", "decimal(6,2)", "boolean", "date", "timestamp", "time", "uuid", "bytes"]
NAMES = [f"of_{items.partition('(')[0]}" for items in ITEMS]
FIELDS = (
    Field("id", column_type("string"), required=True, rules=()),
    *(Field(name, column_type(f"array<{items}>"), False, ()) for name, items in zip(NAMES, ITEMS, strict=True)),
)
UUID = "6f1c0b9e-8d3a-4c55-9f0e-2b7a1d4e5f60"
MESSAGE = {
    "of_string": ["a", 'q"\\{},', "", "NULL"],
    "of_integer": [-(2**63), 1],
    "of_double": [1.5, 1e300, 0.1234567890123456789],
    "of_decimal": ["1.50", -7],
    "of_boolean": [True, False],
    "of_date": ["0001-01-01", "2026-11-01"],
    "of_timestamp": ["2026-11-01T10:00:00.000001Z"],
    "of_time": ["10:00:00.50"],
    "of_uuid": [UUID.upper()],
    "of_bytes": ["AAH/"],
}
ROW = {
    **MESSAGE,
    "of_decimal": [Decimal("1.50"), Decimal("-7.00")],
    "of_date": [date(1, 1, 1), date(2026, 11, 1)],
    "of_timestamp": [datetime(2026, 11, 1, 10, 0, 0, 1, tzinfo=UTC)],
    "of_time": ["10:00:00.5"],
    "of_uuid": [UUID],
    "of_bytes": [b"\0\1\xff"],
}
MESSAGES = [
    {"id": "a", **MESSAGE},
    {"id": "b", **{name: [] for name in NAMES}},
    {"id": "c"},
    {"id": "d", "of_string": ["a", None]},
    {"id": "e", "of_integer": [1, "2"]},
    {"id": "f", "of_boolean": [True] * 100_000},
]


def typed(pipeline: Pipeline, transform: Any = None, **more: Any) -> Pipeline:
    """Return `pipeline` with a column of arrays of each type."""
    columns = tuple(Column(item.name, item.type, item.required) for item in FIELDS)
    table = replace(pipeline.contract.row_table, columns=columns, batch_rules=())
    return Pipeline(replace(pipeline.contract, fields=FIELDS, tables=(table,), **more), transform)


def rows(world: World, pipeline: Pipeline) -> list[dict[str, Any]]:
    read = {"of_time": "of_time::text[]", "of_uuid": "of_uuid::text[]"}
    columns = ", ".join(read.get(name, name) for name in ["id", *NAMES])
    return list(world.rows(f"select {columns} from {pipeline.contract.row_table.name} order by id"))


OTHER_SPELLINGS = "-c bytea_output=escape -c extra_float_digits=0"


@pytest.mark.slow
@pytest.mark.parametrize("disposition", ["append", pytest.param("upsert", marks=pytest.mark.slow)])
def test_json_fills_columns_of_arrays(world: World, disposition: str) -> None:
    pipeline = typed(world.new_pipeline(disposition))
    values = [json.dumps(message).encode() for message in MESSAGES]
    (published,) = world.send_and_drain(pipeline, values, keys=[str(message["id"]).encode() for message in MESSAGES])
    assert published.dead_letters == 3
    assert rows(world, pipeline) == [
        {"id": "a", **ROW},
        {"id": "b", **{name: [] for name in NAMES}},
        {"id": "c", **dict.fromkeys(NAMES)},
    ]
    letters = {letter["error_class"] for letter in world.dead_letters(pipeline)}
    assert letters == {"NullItem", "WrongType", "TooManyItems"}
    role = f"{'&' if '?' in world.endpoints.postgres_url else '?'}options={quote(OTHER_SPELLINGS)}"
    endpoints = replace(world.endpoints, postgres_url=world.endpoints.postgres_url + role)
    assert verify(pipeline, endpoints, world.spark).ok  # whatever the session's role has set
    with world.session() as session:
        session.execute(f"update {pipeline.contract.row_table.name} set of_decimal[2] = -7.01 where id = 'a'")
    assert not verify(pipeline, world.endpoints, world.spark).ok


def test_avro_fills_columns_of_arrays(world: World) -> None:
    arrays = {"of_string": "string", "of_timestamp": logical("long", "timestamp-micros"), "of_integer": "int"}
    schema = record(id="string", **{name: {"type": "array", "items": items} for name, items in arrays.items()})
    wire = WireFormat("none", schema_file="arrays.avsc", schema_text=json.dumps(schema))
    pipeline = typed(world.new_pipeline(), format="avro", wire=wire)
    value = encode(schema, {"id": "a", "of_string": [b"x", b""], "of_timestamp": [0], "of_integer": []})
    (published,) = world.send_and_drain(pipeline, [value, value[:-1]])
    assert (published.rows, published.dead_letters) == (1, 1)
    (row,) = rows(world, pipeline)
    assert (row["of_string"], row["of_integer"]) == (["x", ""], [])
    assert row["of_timestamp"] == [datetime(1970, 1, 1, tzinfo=UTC)]
    assert verify(pipeline, world.endpoints, world.spark).ok


@pytest.mark.longest
def test_a_transform_sees_arrays_and_may_make_others(world: World) -> None:
    def transform(messages: DataFrame) -> DataFrame:
        more = F.concat("of_string", F.array(F.lit(None).cast("string"), F.lit("z")))
        return messages.withColumn("of_string", more).withColumn("of_uuid", F.transform("of_uuid", F.upper))

    pipeline = typed(world.new_pipeline(), transform)
    world.send_and_drain(pipeline, [json.dumps(MESSAGES[0]).encode()])
    (row,) = rows(world, pipeline)
    assert row == {"id": "a", **ROW, "of_string": [*MESSAGE["of_string"], None, "z"]}
    assert verify(pipeline, world.endpoints, world.spark).ok
