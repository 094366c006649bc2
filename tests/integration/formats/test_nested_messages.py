"""Events as applications write them, camelCase, nested, with lists: into tables, with the real systems."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.reader.odcs import load
from tests.support.replays import counts, execute
from tests.support.world import World, renamed

CONTRACT = r"""
apiVersion: v3.1.0
kind: DataContract
id: devices_events
version: 1.0.0
status: active
domain: devices
description: {purpose: What devices report.}
servers: [{server: kafka, type: kafka, host: "kafka:9092", format: json}]
schema:
  - name: events
    physicalType: topic
    physicalName: devices.events
    properties:
      - {name: device_id, physicalName: deviceId, logicalType: string, required: true}
      - name: city
        physicalName: user.address.city
        logicalType: string
        required: true
        logicalTypeOptions: {minLength: 2}
      - {name: zip, physicalName: user.address.zip, logicalType: integer}
      - {name: reading, physicalName: 'sensors\.v2.reading', logicalType: number, physicalType: "decimal(18,4)"}
      - {name: address, physicalName: user.address, logicalType: object, physicalType: json}
      - {name: payload, physicalName: rawPayload, logicalType: object, physicalType: json, examples: [{a: 1}]}
  - name: events
    physicalType: table
    physicalName: devices.events
    customProperties: [{property: disposition, value: DISPOSITION}]
    properties:
      - {name: device_id, logicalType: string, required: true}
      - {name: city, logicalType: string, required: true}
      - {name: zip, logicalType: integer}
      - {name: reading, logicalType: number, physicalType: "decimal(18,4)"}
      - {name: address, logicalType: object, physicalType: json}
      - {name: payload, logicalType: object, physicalType: json}
"""


def new_pipeline(world: World, tmp_path: Path, disposition: str, transform: Any = None) -> Pipeline:
    """Return a pipeline of CONTRACT with its own topic and schema."""
    path = tmp_path / "devices" / "events.odcs.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(CONTRACT.replace("DISPOSITION", disposition))
    name = world.new_pipeline(disposition).name  # with its topic
    return Pipeline(replace(renamed(load(path), name), path=None), transform)


def event(number: int, payload: str = "null", address: str = '{"city":"Ulm","zip":89073}', more: str = "") -> bytes:
    return f"""{{"deviceId":"d{number}","user":{{"address":{address}}},"sensors.v2":{{"reading":"{number}.25"}},
        "rawPayload":{payload}{more}}}""".encode()


ACCEPTED = [  # values that jsonb stores with all digits, to the limits of numeric
    "12345678901234567890",
    "0.1000000000000000000001",
    "-1.50",
    "1e131071",
    "1e-16383",
    f"1{'0' * 131_071}.{'0' * 16_382}1",
    "0e20",
    "[-0.0,0.0,-0]",  # equal in jsonb, which has no negative zero
    r'"\ud83d\ude00 \" \\ \b\f\n\r\t é \u0001"',
    '{"b":[1,{"":null}],"a":{"nested":true}}',
    "[" * 99 + "]" * 99,
    "[]",
]
REFUSED = {
    "1e131072": "OutOfRange",
    "1e-16384": "OutOfRange",
    f"0.{'0' * 16_384}": "OutOfRange",
    "-1e999999999999": "OutOfRange",
    r'"\u0000"': "NulCharacter",
    r'{"\u0000":1}': "NulCharacter",
    r'["\ud800"]': "InvalidUnicode",
    '{"a":1,"a":1}': "DuplicateKey",
    "[" * 100 + "]" * 100: "TooDeep",
    "NaN": "InvalidJson",
}


def exact(text: str) -> Any:
    """Parse JSON with all digits of its numbers."""
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def payloads(world: World, pipeline: Pipeline) -> list[Any]:
    """Return the jsonb values in the order of the log, numbers with all their digits."""
    query = f"select payload::text as kept from {pipeline.contract.row_table.name} order by _offset"
    return [row["kept"] and exact(row["kept"]) for row in world.rows(query)]


@pytest.mark.slow
def test_nested_fields_and_json_columns_are_appended_and_replayed_the_same(world: World, tmp_path: Path) -> None:
    pipeline = new_pipeline(world, tmp_path, "append")
    good = [event(n, payload) for n, payload in enumerate([*ACCEPTED, "null"])]
    bad = [
        *(event(n, payload) for n, payload in enumerate(REFUSED)),
        event(90, address="5"),
        event(91, address='{"city":"U"}'),
        event(92, address="null"),
        event(93, more=',"deviceId":"again"'),
    ]
    (batch,) = world.send_and_drain(pipeline, [*good, *bad], partition=0)
    assert (batch.messages, batch.rows, batch.dead_letters) == (len(good) + len(bad), len(good), len(bad))
    assert payloads(world, pipeline) == [*map(exact, ACCEPTED), None]
    first = world.rows(
        f"select device_id, city, zip, reading, address from {pipeline.contract.row_table.name} where _offset = 0"
    )[0]
    assert (first["device_id"], first["city"], first["zip"], first["reading"]) == ("d0", "Ulm", 89073, Decimal("0.25"))
    assert first["address"] == {"city": "Ulm", "zip": 89073}
    letters = [(d["stage"], d["error_class"], d["field"], d["error_message"]) for d in world.dead_letters(pipeline)]
    assert [letter[1] for letter in letters[: len(REFUSED)]] == list(REFUSED.values())
    wanted = [
        ("decode", "WrongType", "city", "city (user.address.city) cannot be reached: user.address is the number 5"),
        ("check", "city_min_length", "city", "city (user.address.city) is U; the contract requires at least 2"),
        ("check", "city_required", "city", "city (user.address.city) is missing; the contract requires a value"),
        ("decode", "DuplicateKey", "device_id", "deviceId appears twice in the message"),
    ]
    for letter, (*of, sentence) in zip(letters[len(REFUSED) :], wanted, strict=True):
        assert letter[:3] == tuple(of)
        assert letter[3].startswith(sentence)
    before = payloads(world, pipeline)
    found = counts(execute(world, pipeline))
    assert found == {
        "events": (len(good), len(good), 0, 0),
        "dead letters": (len(bad), len(bad), 0, 0),
    }
    assert payloads(world, pipeline) == before


@pytest.mark.longest
def test_nested_fields_and_json_columns_are_upserted_and_replayed_the_same(world: World, tmp_path: Path) -> None:
    pipeline = new_pipeline(world, tmp_path, "upsert")
    sent = [(b"a", event(1, '{"n":1.0}')), (b"b", event(2, "[1]")), (b"c", event(3)), (b"b", None)]
    world.send_and_drain(pipeline, [value for _, value in sent], keys=[key for key, _ in sent], partition=0)
    world.send_and_drain(pipeline, [event(4, '{"n":2.0000000000000000001}')], keys=[b"a"], partition=0)
    assert payloads(world, pipeline) == [None, {"n": Decimal("2.0000000000000000001")}]
    before = world.table(pipeline)
    assert counts(execute(world, pipeline))["events"] == (2, 2, 0, 0)
    assert world.table(pipeline) == before


def spoilt(messages: DataFrame) -> DataFrame:
    """Read json columns as text, and turn some into invalid JSON."""
    deep = F.concat(F.repeat(F.lit("["), 50_000), F.repeat(F.lit("]"), 50_000))
    spelt = F.when(F.col("payload") == '"spoil"', F.lit("{not json")).when(F.col("payload") == '"nul"', r'"\u0000"')
    spelt = spelt.when(F.col("payload") == '"deep"', deep)
    return messages.withColumn("payload", spelt.otherwise(F.concat(F.lit("["), F.col("payload"), F.lit("]"))))


@pytest.mark.longest
def test_what_a_transform_returns_in_a_json_column_is_json_or_a_dead_letter(world: World, tmp_path: Path) -> None:
    pipeline = new_pipeline(world, tmp_path, "append", spoilt)
    payload = ['{"a":1.10}', '"spoil"', "2", '"nul"', "3", '"deep"']
    (batch,) = world.send_and_drain(pipeline, [event(n, text) for n, text in enumerate(payload)], partition=0)
    assert (batch.rows, batch.dead_letters) == (3, 3)
    assert payloads(world, pipeline) == [[{"a": Decimal("1.10")}], [2], [3]]
    letters = [(d["offset"], d["stage"], d["error_class"]) for d in world.dead_letters(pipeline)]
    assert letters == [
        (1, "publish", "InvalidTextRepresentation"),
        (3, "publish", "UntranslatableCharacter"),
        (5, "publish", "StatementTooComplex"),
    ]


@pytest.mark.parametrize("name", ["address", "payload"])
def test_the_table_must_have_jsonb_where_the_contract_says_json(world: World, tmp_path: Path, name: str) -> None:
    from platform_defs.errors import BadInput

    pipeline = new_pipeline(world, tmp_path, "append")
    world.drain(pipeline)
    world.rows(f"alter table {pipeline.contract.row_table.name} alter column {name} type text")
    with pytest.raises(BadInput, match=f"column {name} .* is text, but the contract says jsonb"):
        world.drain(pipeline)


def test_a_key_too_long_for_its_index_is_a_dead_letter_and_stops_nothing(world: World, tmp_path: Path) -> None:
    pipeline = new_pipeline(world, tmp_path, "upsert")
    long_key = token_hex(4_000).encode()  # nothing in it that compresses: a btree takes about 2,700 bytes
    world.send(pipeline, [event(n, "1") for n in range(3)], keys=[b"a", long_key, b"b"], partition=0)
    (batch,) = world.drain(pipeline)
    assert (batch.rows, batch.dead_letters) == (2, 1)
    letters = [(d["offset"], d["stage"], d["error_class"]) for d in world.dead_letters(pipeline)]
    assert letters == [(1, "publish", "ProgramLimitExceeded")]
