"""Messages whose producers use the registry's own serializers become rows, by schemas that the ledger then keeps."""

import json
from dataclasses import replace
from datetime import date
from typing import Any
from uuid import uuid4

import dagster as dg
import psutil
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from platform_defs.contract.model.contract import Format, WireFormat
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import BadInput, Halt, RegistryAway
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.ledger.ledger import Ledger
from platform_defs.ledger.published import SchemaCount
from platform_defs.pipelines.reporting.events import materializations
from platform_defs.registry import schemas as kept_schemas
from platform_defs.resolve.settlement import propose, settle
from platform_defs.schemas.ledger import SchemaAnswers
from platform_defs.settings.registry_address import Registry
from platform_defs.stack import registry_server as local_registry
from platform_defs.stack import stack
from platform_defs.stack.endpoints import connection
from platform_defs.verify.verify import verify
from tests.support.kafka.registered import avro_values
from tests.support.kafka.registered import serialized as registered_values
from tests.support.world import World, transfer, transfers
from tests.unit.registry.registry_double import registry_double, says

pytestmark = pytest.mark.xdist_group("registry")

DAY = {"type": "int", "logicalType": "date"}
DAY_ONE = date(2026, 11, 1)


@pytest.fixture
def registered(world: World) -> World:
    """Return the world with the embedded registry."""
    stack.up(registry=True)
    return replace(world, endpoints=connection())


@pytest.fixture(autouse=True)
def new_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a registry name that the ledger does not know, and an empty cache in the process."""
    monkeypatch.setenv("TIDEGATE_REGISTRY_NAME", uuid4().hex)
    monkeypatch.setattr(kept_schemas, "PAUSES", (0.0, 0.0))
    kept_schemas._kept.clear()


def framed(world: World, kind: Format = "json", disposition: str = "accumulate", **wire: Any) -> Pipeline:
    """Return a pipeline whose messages name their schemas."""
    pipeline = world.new_pipeline(disposition)
    contract = pipeline.contract
    made = WireFormat(**{"framing": "prefix", "subject": f"{contract.topic}-value", **wire})
    return replace(pipeline, contract=replace(contract, format=kind, wire=made))


def client(world: World) -> SchemaRegistryClient:
    assert world.endpoints.registry is not None
    return SchemaRegistryClient({"url": world.endpoints.registry.options["url"]})


def serialized(world: World, pipeline: Pipeline, values: list[dict[str, Any]]) -> list[bytes]:
    """Return the values as confluent-kafka's serializer writes them; it registers the schema."""
    return registered_values(pipeline.contract.format, client(world), pipeline.contract.topic, values)


def documents(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [json.loads(value) for value in transfers(count, start)]


@pytest.mark.longest
def test_what_the_registrys_own_serializer_writes_becomes_rows_and_verifies(registered: World) -> None:
    pipeline = framed(registered)
    good = serialized(registered, pipeline, documents(40))
    bad = [transfer(100), b"\0\0\0\0\0\0\0\0\7{}", None]
    (published,) = registered.send_and_drain(pipeline, [*good, *bad])
    assert (published.messages, published.rows, published.dead_letters) == (43, 80, 3)
    letters = registered.dead_letters(pipeline)
    assert sorted(letter["error_class"] for letter in letters) == ["NotFramed", "NotFramed", "NullValue"]
    named = registered.rows("select * from tidegate.batch_schema where batch_id = %s", published.batch_id)
    assert sum(row["messages"] for row in named) == 40
    assert {row["key"] for row in named} == {str(int.from_bytes(good[0][1:5]))}
    report = verify(pipeline, registered.endpoints, registered.spark)
    assert report.ok, report


@pytest.mark.longest
@pytest.mark.parametrize("kind", [pytest.param("avro", marks=pytest.mark.slow), "protobuf"])
def test_rows_are_the_same_in_whichever_format_messages_are_written(registered: World, kind: Format) -> None:
    bare, pipeline = registered.new_pipeline(), framed(registered, kind, record="bank.Transfer")
    registered.send(bare, transfers(200))
    good = serialized(registered, pipeline, documents(200))
    registered.send(pipeline, good)
    registered.send(pipeline, [good[0][:-1], good[0] + b"\0", b"\0\0\0\0\0", transfer(1)], partition=0)
    registered.drain(bare)
    assert [(one.rows, one.dead_letters) for one in registered.drain(pipeline)] == [(400, 4)]
    assert registered.table(pipeline) == registered.table(bare)
    assert verify(pipeline, registered.endpoints, registered.spark).ok
    kept_schemas._kept.clear()  # verify and the next run query no registry
    alone = replace(registered.endpoints, registry=None)
    registered.send(pipeline, good[:4])
    assert [one.rows for one in replace(registered, endpoints=alone).drain(pipeline)] == [8]
    assert verify(pipeline, alone, registered.spark).ok


@pytest.mark.longest
def test_records_that_the_contract_does_not_read_are_skipped_where_it_says_so(registered: World) -> None:
    pipeline = framed(registered, "avro", record="bank.Transfer", other_records="skip")
    other = {"type": "record", "name": "Refund", "namespace": "bank", "fields": []}
    refunds = avro_values(client(registered), pipeline.contract.topic, other, [{}] * 4)
    (batch,) = registered.send_and_drain(pipeline, [*serialized(registered, pipeline, documents(8)), *refunds])
    assert (batch.messages, batch.rows, batch.dead_letters, batch.skipped_records) == (12, 16, 0, 4)
    report = verify(pipeline, registered.endpoints, registered.spark)
    assert (report.ok, report.filtered) == (True, 4)
    where = f"WHERE batch_id = {batch.batch_id} AND skipped_records > 0"
    registered.rows(f"UPDATE tidegate.batch_range SET skipped_records = skipped_records - 1 {where}")
    wrong = verify(pipeline, registered.endpoints, registered.spark)
    assert "of its messages are other records, but the ledger counts" in wrong.samples[0].what


@pytest.mark.slow
def test_an_upsert_finds_its_rows_by_keys_that_are_written_with_a_schema(registered: World) -> None:
    pipeline = framed(registered, "avro", "upsert", key_format="avro")
    fields = {"customer_id": "string", "name": "string", "tier": "string", "signed_up": DAY}
    schema = {"type": "record", "name": "C", "fields": [{"name": n, "type": of} for n, of in fields.items()]}
    topic, names = pipeline.contract.topic, [f"C{n % 3}" for n in range(9)]
    people = [
        {"customer_id": name, "name": f"n{n}", "tier": "gold", "signed_up": DAY_ONE} for n, name in enumerate(names)
    ]
    keys = avro_values(client(registered), topic, "string", names, key=True)
    values: list[bytes | None] = [*avro_values(client(registered), topic, schema, people)]
    values[8] = None  # a tombstone: C2 is gone
    registered.send(pipeline, values, keys=keys, partition=0)
    registered.send(pipeline, values[:1], keys=[b"C0"], partition=0)  # a key that names no schema
    (published,) = registered.drain(pipeline)
    assert published.dead_letters == 1
    assert registered.by_key(pipeline) == [("C0", "n6"), ("C1", "n7")]
    assert verify(pipeline, registered.endpoints, registered.spark).ok


@pytest.mark.slow
def test_a_schema_that_keys_and_values_name_is_counted_for_each_of_them(registered: World) -> None:
    pipeline = framed(registered, "avro", "upsert", key_format="avro")
    fields = {"customer_id": "string", "name": "string", "tier": "string", "signed_up": DAY}
    schema = {"type": "record", "name": "C", "fields": [{"name": n, "type": of} for n, of in fields.items()]}
    people = [{"customer_id": f"C{n}", "name": "n", "tier": "gold", "signed_up": DAY_ONE} for n in range(8)]
    values = avro_values(client(registered), pipeline.contract.topic, schema, people)
    (batch,) = registered.send_and_drain(pipeline, values, keys=values)
    assert batch.rows == 8
    key = str(int.from_bytes(values[0][1:5]))
    assert batch.schemas == (SchemaCount(1, key, 8, "key"), SchemaCount(1, key, 8, "value"))
    assert Ledger(registered.endpoints.postgres_url).first_named(batch) == [*batch.schemas]
    named = SchemaAnswers(registered.endpoints.postgres_url, batch.registry).named(pipeline.name)
    assert [one.messages for one in named] == [8], "values alone"
    (row_table, *_) = materializations(pipeline.contract, batch, {}, {})
    shown = row_table.metadata["schemas"]
    assert isinstance(shown, dg.TableMetadataValue)
    counted = sorted((record.data["schema"], record.data["of"], record.data["messages"]) for record in shown.records)
    assert counted == [(key, "key", 8), (key, "value", 8)]
    assert verify(pipeline, registered.endpoints, registered.spark).ok


@pytest.mark.longest
def test_ids_mean_for_good_what_they_meant_so_that_a_replay_asks_no_registry(registered: World) -> None:
    pipeline = framed(registered)
    registered.send_and_drain(pipeline, serialized(registered, pipeline, documents(8)))
    alone = replace(registered, endpoints=replace(registered.endpoints, registry=None))
    kept_schemas._kept.clear()
    registered.send(pipeline, serialized(registered, pipeline, documents(8, 8)))
    assert [published.rows for published in alone.drain(pipeline)] == [16]
    assert verify(pipeline, alone.endpoints, registered.spark).ok


@pytest.mark.longest
def test_a_registry_that_is_away_fails_the_run_and_makes_no_dead_letters(registered: World) -> None:
    pipeline = framed(registered)
    registered.send(pipeline, serialized(registered, pipeline, documents(8)))
    away = Registry({"url": "http://127.0.0.1:9"}, patience=0.5)
    with pytest.raises(RegistryAway, match=r"127\.0\.0\.1:9.*answer for schema"):
        replace(registered, endpoints=replace(registered.endpoints, registry=away)).drain(pipeline)
    assert (registered.position(pipeline), registered.dead_letters(pipeline)) == (dict.fromkeys(range(4), 0), [])
    assert [published.rows for published in registered.drain(pipeline)] == [16]


@pytest.mark.longest
def test_an_unknown_id_is_a_dead_letter_unless_no_id_of_the_batch_is_known(registered: World) -> None:
    pipeline = framed(registered)
    unknown = b"\0" + (2**31 - 1).to_bytes(4) + b"{}"
    registered.send(pipeline, [unknown])
    with pytest.raises(BadInput, match=r"1 message of batch .* Is this the right registry"):
        registered.drain(pipeline)
    assert registered.dead_letters(pipeline) == []
    known = serialized(registered, pipeline, documents(4))
    other = framed(registered)
    registered.send(other, [*known, unknown])
    assert [(one.rows, one.dead_letters) for one in registered.drain(other)] == [(8, 1)]
    registered.send(other, [unknown])  # alone in its batch; but the registry has what came before
    assert [(one.rows, one.dead_letters) for one in registered.drain(other)] == [(0, 1)]
    assert {letter["error_class"] for letter in registered.dead_letters(other)} == {"UnknownSchemaId"}
    assert verify(other, registered.endpoints, registered.spark).ok


@pytest.mark.longest
def test_a_registry_with_other_schemas_under_known_ids_halts_until_it_is_acknowledged(registered: World) -> None:
    pipeline = framed(registered)
    first = serialized(registered, pipeline, documents(4))
    registered.send_and_drain(pipeline, first)
    key = str(int.from_bytes(first[0][1:5]))
    with registry_double() as rebuilt:
        other = '{"title": "another"}'
        rebuilt.answers = {f"/schemas/ids/{key}": says({"schema": other, "schemaType": "JSON"})}
        switched = replace(registered, endpoints=replace(registered.endpoints, registry=Registry({"url": rebuilt.url})))
        registered.send(pipeline, [b"\0" + int(key).to_bytes(4) + transfer(9)])
        with pytest.raises(Halt, match=f"registry_switched.*\\({key}\\)"):
            switched.drain(pipeline)
        broker = KafkaBroker(registered.endpoints.kafka_options())
        decided = propose(pipeline.contract, registered.ledger, broker, None)
        assert decided is not None
        settle(registered.endpoints.postgres_url, pipeline.contract, decided, "rebuilt", "test")
        assert [published.rows for published in switched.drain(pipeline)] == [2]
    documents_kept = registered.rows(
        "select generation, document from tidegate.schema where key = %s and generation in"
        " (select generation from tidegate.schema_generation where pipeline = %s) order by generation",
        key,
        pipeline.name,
    )
    assert [row["document"] for row in documents_kept][-1] == other
    assert verify(pipeline, registered.endpoints, registered.spark).ok


@pytest.mark.longest
def test_a_header_names_the_schema(registered: World) -> None:
    pipeline = framed(registered, framing="both")
    prefixed = serialized(registered, pipeline, documents(8))
    registered.send(pipeline, prefixed[:4])
    named = [("__value_schema_id", b"odd"), ("__value_schema_id", prefixed[0][:5])]  # the last one counts
    registered.send(pipeline, [value[5:] for value in prefixed[4:]], headers=named)
    assert [(one.rows, one.dead_letters) for one in registered.drain(pipeline)] == [(16, 0)]
    assert verify(pipeline, registered.endpoints, registered.spark).ok


@pytest.mark.longest
def test_ids_survive_that_the_registry_is_killed_and_that_the_stack_goes_down(registered: World) -> None:
    def register() -> int:
        name = f"A{uuid4().hex}"
        schema = Schema(f'{{"type": "enum", "name": "{name}", "symbols": ["A"]}}')
        return client(registered).register_schema(f"{name}-value", schema)

    before = [register() for _ in range(3)]
    killed = psutil.Process(stack.status().registry.pid)
    killed.kill()
    killed.wait(10)
    assert stack.status().registry.address is None
    again = stack.up(registry=True).registry
    assert registered.endpoints.registry is not None
    assert again.address == registered.endpoints.registry.options["url"]
    assert stack.status().as_json()["registry"] == {"url": again.address, "pid": again.pid, "embedded": True}
    assert [client(registered).get_schema(number).schema_str for number in before]
    after = register()
    assert after > max(before), "an id was given twice"
    local_registry.stop(stack.status().home)
    assert local_registry.running(stack.status().home) == []
    stack.up(registry=True)
    assert register() > after
