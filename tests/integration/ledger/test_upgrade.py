"""A ledger of an older version, with everything that it can have unfinished: migrated and continued (tests/data)."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from confluent_kafka import Producer, TopicPartition

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.plan.replay_plan import ReplayStart
from platform_defs.errors import Halt, LedgerOutdated
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.ledger.migrations import KNOWN, LedgerVersion
from platform_defs.replay.replay import Replay
from platform_defs.resolve import settlement
from platform_defs.settings.contracts import find_pipeline
from platform_defs.verify.verify import verify
from tests.integration.verify.test_verify import customer, view
from tests.support.waiting import BOUND
from tests.support.world import SHIPPED, World, renamed, transfers

OLD = Path(__file__).parents[2] / "data" / "ledger_54048b7"
TOPICS = {"old_transfers": "accumulate", "old_customers": "upsert", "old_views": "append"}
DELETED = TopicPartition("old_transfers", 0, 13)  # retention had deleted everything below it
LIMITS = {"dead_letter_minimum": 5, "dead_letter_share": 0.2}


@pytest.fixture
def old(world: World) -> Iterator[World]:
    """Yield the world with a database that has the old ledger and its tables, and the topics with their messages."""
    place = urlsplit(world.endpoints.postgres_url)._replace(path="/upgraded").geturl()
    with world.session() as session:
        session.execute("CREATE DATABASE upgraded")
        _fill_topics(world)
        with psycopg.connect(place, autocommit=True) as loading:
            loading.execute(_dump(world).encode())
            # As after an upgrade in place: a restored table has another OID.
            loading.execute("UPDATE tidegate.output SET table_oid = to_regclass(table_name)")
        yield replace(world, endpoints=replace(world.endpoints, postgres_url=place))
        session.execute("DROP DATABASE upgraded WITH (FORCE)")


@pytest.mark.slow
def test_an_old_ledger_is_migrated_and_its_pipelines_go_on_where_they_were(old: World) -> None:
    before = {name: _positions(old, name) for name in TOPICS}
    with pytest.raises(LedgerOutdated):
        old.ledger.status("old_transfers")
    assert set(old.ledger.migrate()) == set(KNOWN[4:])
    assert old.ledger.version() == LedgerVersion(KNOWN)
    assert {name: old.position(_pipeline(name)) for name in TOPICS} == before
    waiting = "SELECT bool_and(pipeline IS NOT NULL) AS known FROM tidegate.lineage_event WHERE emitted_at IS NULL"
    assert old.rows(waiting) == [{"known": True}]
    _the_pending_batch_commits_first(old, _pipeline("old_transfers"))
    _the_halt_is_there_and_is_settled(old, _pipeline("old_customers"))
    _the_replay_is_put_in_place(old, _pipeline("old_views"))
    for name in TOPICS:
        report = verify(_pipeline(name), old.endpoints, old.spark)
        assert report.ok, report.explanation
        assert old.ledger.rows_so_far(name, 2**62) == _rows(old, name)
        assert set(old.position(_pipeline(name)).values()) != set(before[name].values())


def _rows(old: World, name: str) -> int:
    """Return the rows written by the batches that count."""
    asked = "SELECT sum(rows)::bigint AS n FROM tidegate.batch WHERE pipeline = %s AND replaced_by IS NULL"
    return old.rows(asked, name)[0]["n"]


def _the_pending_batch_commits_first(old: World, pipeline: Pipeline) -> None:
    pending = old.ledger.status(pipeline.name).pending
    assert pending is not None
    first, second = old.send_and_drain(pipeline, transfers(8, start=60))
    assert (first.batch_id, first.ranges, second.messages) == (pending.batch_id, pending.ranges, 8)
    kept = old.rows("SELECT halt_code FROM tidegate.settlement WHERE pipeline = %s ORDER BY 1", pipeline.name)
    assert [row["halt_code"] for row in kept] == ["retention_passed", "too_many_dead_letters"]


def _the_halt_is_there_and_is_settled(old: World, pipeline: Pipeline) -> None:
    with pytest.raises(Halt, match="too_many_dead_letters"):
        old.drain(pipeline)
    broker = KafkaBroker(old.endpoints.kafka_options())
    decided = settlement.propose(pipeline.contract, old.ledger, broker, None)
    assert decided is not None
    settlement.settle(old.endpoints.postgres_url, pipeline.contract, decided, "after the upgrade", "tester")
    old.send(pipeline, [customer(1)], keys=[b"C1"], partition=1)
    assert [batch.dead_letters for batch in old.drain(pipeline)] == [8, 0]


def _the_replay_is_put_in_place(old: World, pipeline: Pipeline) -> None:
    replay = Replay(pipeline, old.endpoints, old.spark)
    replay.execute(ReplayStart(), "after the upgrade", "tester", print)
    executed = "SELECT count(*) AS n FROM tidegate.replay WHERE pipeline = %s AND executed_at IS NOT NULL"
    assert old.rows(executed, pipeline.name) == [{"n": 2}]
    old.send(pipeline, [view(200)])
    assert [batch.messages for batch in old.drain(pipeline)] == [1]


def _pipeline(name: str) -> Pipeline:
    shipped = find_pipeline(SHIPPED[TOPICS[name]])
    contract = renamed(shipped.contract, name)
    return replace(shipped, contract=replace(contract, limits=replace(contract.limits, **LIMITS)))


def _positions(old: World, name: str) -> dict[int, int]:
    asked = "SELECT partition, next_offset FROM tidegate.source_position WHERE pipeline = %s"
    return {row["partition"]: row["next_offset"] for row in old.rows(asked, name)}


def _fill_topics(world: World) -> None:
    for topic, disposition in TOPICS.items():
        world.create_topic(topic, config={"cleanup.policy": "compact"} if disposition == "upsert" else {})
    producer = Producer(world.endpoints.kafka_options())
    for line in (OLD / "messages.jsonl").read_text().splitlines():
        sent: Any = json.loads(line)
        producer.produce(sent["topic"], sent["value"], sent["key"], sent["partition"])
    assert producer.flush(30) == 0
    admin = world.admin()
    admin.delete_records([DELETED])[DELETED].result(BOUND)


def _dump(world: World) -> str:
    """Return the old ledger, with this cluster's topic ids."""
    broker, text = KafkaBroker(world.endpoints.kafka_options()), (OLD / "ledger.sql").read_text()
    for topic in TOPICS:
        described = broker.describe(topic)
        text = text.replace(f"<topic id of {topic}>", described.topic_id)
        text = text.replace("<cluster id>", described.cluster_id)
    return text
