"""Dagster's view of the schemas that messages name: observations, the check of the topic, each batch's numbers."""

import json
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import uuid4

import dagster as dg
import psycopg
import pytest
from confluent_kafka.schema_registry import Schema
from dagster import DagsterInstance

from platform_defs.code_location import compose
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.odcs_writer import contract_digest
from platform_defs.dagster.keys import topic_key
from platform_defs.ledger.ledger import Ledger
from platform_defs.pipelines.reporting.halts import shows_otherwise
from platform_defs.registry import schemas as kept_schemas
from platform_defs.replay.replay import Replay
from platform_defs.schemas.dagster import check as schema_check
from platform_defs.schemas.dagster.check import (
    SUBJECT_INTERVAL,
    Look,
    Memory,
    check_key,
    naming_topics,
    schemas_sensor,
)
from platform_defs.settings.registry_address import Registry
from platform_defs.stack import stack
from platform_defs.stack.endpoints import connection
from platform_defs.topics.dagster.assets import by_topic
from tests.chaos.processes.dagster import reported
from tests.integration.registry.test_registry import client, documents, framed, serialized
from tests.support.dagster_runs import execute, table_keys
from tests.support.kafka.registered import AVRO, avro_values
from tests.support.replays import execute as replayed
from tests.support.replays import shown
from tests.support.world import KeptSpark, World

pytestmark = pytest.mark.xdist_group("registry")


@pytest.fixture
def registered(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return the world with the embedded registry, under a name that the ledger does not know yet."""
    monkeypatch.setenv("TIDEGATE_REGISTRY_NAME", uuid4().hex)
    kept_schemas._kept.clear()
    stack.up(registry=True)
    return replace(world, endpoints=connection())


def observed(instance: DagsterInstance, pipeline: Pipeline) -> list[dict[str, Any]]:
    """Return the metadata of every observation of the topic, newest first."""
    found = instance.fetch_observations(topic_key(pipeline.contract.topic), limit=20).records
    events = [record.asset_observation for record in found]
    return [{name: value.value for name, value in event.metadata.items()} for event in events if event]


def schema(*added: Any, without: str = "") -> dict[str, Any]:
    """Return the transfer's schema with other fields, and without one of its own."""
    document = json.loads(AVRO)
    kept = [item for item in document["fields"] if item["name"] != without]
    return {**document, "fields": [*kept, *added]}


def looks(world: World, memory: Memory, *pipelines: Pipeline) -> list[dg.AssetCheckEvaluation]:
    ledger = Ledger(world.endpoints.postgres_url)
    return Look(world.endpoints, ledger, memory).at(by_topic([one.contract for one in pipelines]))


@pytest.mark.longest
def test_each_schema_is_observed_once_with_the_line_that_would_read_what_is_new_in_it(
    registered: World, instance: DagsterInstance
) -> None:
    pipeline = framed(registered, "avro")
    contract, values = pipeline.contract, serialized(registered, framed_as(pipeline, "avro"), documents(8))
    key = str(int.from_bytes(values[0][1:5]))
    registered.send(pipeline, values)
    assert execute(instance, pipeline).success
    (first,) = observed(instance, pipeline)
    names = ("schema", "subject", "version", "format", "fits", "fields_unknown_to_the_contract", "pipeline")
    subject = f"{contract.topic}-value"
    assert tuple(first[name] for name in names) == (key, subject, 1, "avro", "yes", 0, pipeline.name)
    assert [column.name for column in first["dagster/column_schema"].columns][:2] == ["transfer_id", "debit_account"]
    (batch,) = reported(instance, table_keys(pipeline)[0])
    assert (batch["contract_version"], batch["contract_digest"]) == (contract.version, contract_digest(contract))
    assert [record.data for record in batch["schemas"].records] == [{"schema": key, "of": "value", "messages": 8}]
    newer = schema({"name": "channel", "type": "string"}, without="memo")
    typed = [{**document, "channel": "app"} for document in read(documents(4, 8))]
    registered.send(pipeline, [*values, *avro_values(client(registered), contract.topic, newer, typed)])
    assert execute(instance, pipeline).success
    second, again = observed(instance, pipeline)
    assert again == first
    assert (second["version"], second["fields_missing_in_the_schema"]) == (2, "memo")
    (line,) = [record.data["line to add"] for record in second["lines_to_add"].records]
    assert line == "- {name: channel, logicalType: string}"
    registered.send(pipeline, values)
    assert execute(instance, pipeline).success
    assert len(observed(instance, pipeline)) == 2


def framed_as(pipeline: Pipeline, kind: Any) -> Pipeline:
    return replace(pipeline, contract=replace(pipeline.contract, format=kind))


def read(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Convert documents to the types that Avro's serializer takes."""
    return [
        {**one, "amount": Decimal(one["amount"]), "occurred_at": datetime.fromisoformat(one["occurred_at"])}
        for one in given
    ]


@pytest.mark.longest
def test_the_check_of_a_topic_tells_what_is_registered_from_what_is_used(
    registered: World, instance: DagsterInstance
) -> None:
    pipeline, memory = framed(registered, "avro"), Memory()
    topic, amountless = pipeline.contract.topic, schema(without="amount")
    registered.send(pipeline, serialized(registered, pipeline, documents(8)))
    assert execute(instance, pipeline).success
    (good,) = looks(registered, memory, pipeline)
    assert (good.passed, good.asset_check_key) == (True, check_key(*by_topic([pipeline.contract])))
    assert looks(registered, memory, pipeline) == []  # nothing new, and not for SUBJECT_INTERVAL seconds
    client(registered).register_schema(f"{topic}-value", Schema(json.dumps(amountless), "AVRO"))
    memory.looked = {name: (when - SUBJECT_INTERVAL, used) for name, (when, used) in memory.looked.items()}
    (unused,) = looks(registered, memory, pipeline)
    assert (unused.passed, unused.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert f"version 2 of {topic}-value: amount is required by the contract" in (unused.description or "")
    assert shows_otherwise(instance, [unused]) == [unused]
    instance.report_runless_asset_event(unused)
    assert shows_otherwise(instance, [unused]) == []
    assert ticks(instance, pipeline) == []  # nor does a process without that memory report it again
    documents_left = [{k: v for k, v in one.items() if k != "amount"} for one in read(documents(2))]
    registered.send(pipeline, avro_values(client(registered), topic, amountless, documents_left))
    assert execute(instance, pipeline).success
    (used,) = looks(registered, memory, pipeline)  # at once: messages name another schema
    assert (used.passed, used.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert run_check(instance, pipeline) == used.description
    assert ticks(instance, pipeline) == []  # Dagster shows it by now


def ticks(instance: DagsterInstance, pipeline: Pipeline) -> list[Any]:
    """Return the events that the sensor has for Dagster."""
    sensor: Any = schemas_sensor(naming_topics(by_topic([pipeline.contract])))
    result = sensor(dg.build_sensor_context(instance=instance))
    assert "Checked the schemas of 1 of 1 topic" in str(result.skip_reason)
    return list(result.asset_events)


def run_check(instance: DagsterInstance, pipeline: Pipeline) -> str | None:
    """Return the check's description when a user runs it."""
    (topic,) = by_topic([pipeline.contract])
    only = dg.define_asset_job("only", selection=dg.AssetSelection.checks(check_key(topic)))
    defs = dg.Definitions.merge(compose([pipeline], spark=KeptSpark()), dg.Definitions(jobs=[only]))
    done = defs.resolve_job_def("only").execute_in_process(instance=instance)
    (found,) = done.get_asset_check_evaluations()
    return found.description


@pytest.mark.longest
def test_schemas_of_keys_are_not_compared_with_the_contract_of_values(
    registered: World, instance: DagsterInstance
) -> None:
    pipeline = framed(registered, "avro", "upsert", key_format="avro")
    topic, ask = pipeline.contract.topic, client(registered)
    day = {"type": "int", "logicalType": "date"}
    kinds = {"customer_id": "string", "name": "string", "tier": "string", "signed_up": day}
    record = {"type": "record", "name": "C", "fields": [{"name": name, "type": of} for name, of in kinds.items()]}
    value = {"customer_id": "C1", "name": "n", "tier": "gold", "signed_up": date(2026, 11, 1)}
    keys = avro_values(ask, topic, "string", ["C1"], key=True)
    registered.send(pipeline, avro_values(ask, topic, record, [value]), keys=keys)
    assert execute(instance, pipeline).success
    shown = {one["subject"]: one["fits"] for one in observed(instance, pipeline)}
    assert shown == {f"{topic}-value": "yes", f"{topic}-key": "it is a key schema"}
    (found,) = looks(registered, Memory(), pipeline)
    assert found.passed, found.description
    assert (found.description or "").startswith("1 schema checked")
    more = avro_values(ask, topic, {"type": "string", "doc": "of a customer"}, ["C1"], key=True)
    registered.send(pipeline, avro_values(ask, topic, record, [value]), keys=more)
    assert execute(instance, pipeline).success
    (found,) = looks(registered, Memory(), pipeline)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    ids = ", ".join(str(int.from_bytes(one[1:5])) for one in (*keys, *more))
    assert f"keys begin with the ids of 2 schemas ({ids})" in (found.description or "")


@pytest.mark.slow
def test_a_registry_that_is_away_makes_no_check_pass_and_none_fail(registered: World) -> None:
    pipeline = framed(registered, "avro")
    registered.send_and_drain(pipeline, serialized(registered, pipeline, documents(4)))
    away = replace(registered.endpoints, registry=Registry({"url": "http://127.0.0.1:9"}, patience=0.2))
    assert looks(replace(registered, endpoints=away), Memory(), pipeline) == []


@pytest.mark.slow
def test_a_registered_schema_that_does_not_fit_is_still_shown_while_the_registry_is_away(registered: World) -> None:
    pipeline, memory = framed(registered, "avro"), Memory()
    registered.send_and_drain(pipeline, serialized(registered, pipeline, documents(4)))
    misfit = Schema(json.dumps(schema(without="amount")), "AVRO")
    client(registered).register_schema(f"{pipeline.contract.topic}-value", misfit)
    (found,) = looks(registered, memory, pipeline)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    away = replace(registered.endpoints, registry=Registry({"url": "http://127.0.0.1:9"}, patience=0.2))
    memory.subjects, memory.looked = None, {}  # as after an hour
    (later,) = looks(replace(registered, endpoints=away), memory, pipeline)
    assert (later.passed, later.metadata) == (False, found.metadata)
    assert "were not checked" in (later.description or "")


@pytest.mark.slow
def test_more_schemas_than_are_kept_are_all_evaluated(registered: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_check, "MAX_KEPT", 1)  # a constant of ours: so many schemas would take hours
    pipeline = framed(registered, "avro")
    topic, ask = pipeline.contract.topic, client(registered)
    for name in ("one", "two", "three"):
        more = schema({"name": name, "type": ["null", "string"], "default": None})
        registered.send_and_drain(pipeline, avro_values(ask, topic, more, read(documents(1))))
    (found,) = looks(registered, Memory(), pipeline)
    assert (found.description or "").startswith("3 schemas checked")


@pytest.mark.longest
def test_a_look_asks_the_ledger_as_often_for_three_topics_as_for_one(
    registered: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, asked = Memory(), list[Any]()
    pipelines = [framed(registered, "avro") for _ in range(3)]
    for pipeline in pipelines:
        registered.send_and_drain(pipeline, serialized(registered, pipeline, documents(1)))
    looks(registered, memory, *pipelines)
    execute_as_before: Any = psycopg.Cursor.execute

    def counted(cursor: Any, query: Any, *given: Any, **options: Any) -> Any:
        asked.append(query)
        return execute_as_before(cursor, query, *given, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", counted)
    looks(registered, memory, *pipelines)
    of_three = len(asked)
    looks(registered, memory, pipelines[0])
    assert of_three == len(asked) - of_three > 0


@pytest.mark.longest
def test_a_replay_hands_the_schemas_that_its_messages_name_to_its_pipeline(registered: World) -> None:
    pipeline = framed(registered)
    registered.send_and_drain(pipeline, serialized(registered, pipeline, documents(8)))
    query = "select pipeline, key, first_batch, last_batch from tidegate.schema_use where starts_with(pipeline, %s)"
    (before,) = registered.rows(query, pipeline.name)
    shown(registered, pipeline)
    assert len(registered.rows(query, pipeline.name)) == 2
    Replay(pipeline, registered.endpoints, registered.spark).discard()
    assert registered.rows(query, pipeline.name) == [before]
    replayed(registered, pipeline)
    (after,) = registered.rows(query, pipeline.name)
    assert after == {**before, "last_batch": after["last_batch"]}
    assert after["last_batch"] > before["last_batch"]


def test_bare_json_has_no_check_of_schemas_and_no_sensor_for_it(world: World) -> None:
    defs = compose([world.new_pipeline("append")])
    assert "writer_schemas" not in {sensor.name for sensor in defs.sensors or ()}
    graph = defs.resolve_asset_graph()
    assert [key.name for key in graph.asset_check_keys if key.name.startswith("writer_schemas")] == []
