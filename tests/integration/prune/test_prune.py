"""Pruning the ledger: verify, replay and every sum are unchanged."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from confluent_kafka import TopicPartition
from dagster import DagsterInstance
from typer.testing import CliRunner

from bench.growth.history import MESSAGES, History, message
from platform_defs.cli.main import app
from platform_defs.code_location import compose
from platform_defs.contract.model.contract import CheckResult
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.dagster.keys import table_key
from platform_defs.engine.batch import Budget
from platform_defs.engine.plan.replay_plan import ReplayStart
from platform_defs.errors import BadInput, BrokerAway, LedgerAway
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.lineage.events import outbox
from platform_defs.prune import ledger as prune_ledger
from platform_defs.prune.prune import Pruned, prune
from platform_defs.replay.replay import Replay
from platform_defs.settings.contracts import find_all
from platform_defs.verify.incremental import verify_new
from platform_defs.verify.verify import verify
from tests.support.postgres.databases import new_database
from tests.support.waiting import BOUND
from tests.support.world import World, renamed, transfers

pytestmark = pytest.mark.usefixtures("small_pages")


def pruned(world: World, pipeline: Pipeline, *, execute: bool = True) -> Pruned:
    broker = KafkaBroker(world.endpoints.kafka_options())
    return prune(world.endpoints.postgres_url, pipeline.contract, broker.describe, execute=execute)


def aged(world: World, pipeline: Pipeline) -> None:
    """Make everything committed and reported sixty days ago."""
    world.rows(
        "update tidegate.batch set committed_at = now() - interval '60 days', reported_at = now() where pipeline = %s",
        pipeline.name,
    )


def delete_up_to(world: World, pipeline: Pipeline, offsets: dict[int, int]) -> None:
    """Delete records up to these offsets, as retention does."""
    topic = pipeline.contract.topic
    wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    admin = world.admin()  # named: a future is cancelled when its client is collected
    for done in admin.delete_records(wanted).values():
        done.result(BOUND)


def of(world: World, pipeline: Pipeline, table: str) -> int:
    query = f"select count(*) as n from tidegate.{table} join tidegate.batch using (batch_id) where pipeline = %s"
    if table == "batch":
        query = "select count(*) as n from tidegate.batch where pipeline = %s"
    if table == "lineage_event":
        query = query.replace("where pipeline", "where batch.pipeline")
    return world.rows(query, pipeline.name)[0]["n"]


def eight_batches(world: World, *, bad: bool = False) -> Pipeline:
    """Return a pipeline with forty transfers, ten per partition, in old batches; with `bad`, a dead letter follows."""
    pipeline = world.new_pipeline(batch_messages=8)
    world.send(pipeline, transfers(40))
    if bad:
        world.send(pipeline, [b"no JSON"], partition=0)
    world.drain(pipeline)
    assert of(world, pipeline, "batch") >= 5
    aged(world, pipeline)
    return pipeline


def verified(world: World, pipeline: Pipeline) -> dict[str, Any]:
    found = verify(pipeline, world.endpoints, world.spark).to_json()
    return {name: value for name, value in found.items() if name not in ("seconds", "explanation")}


def whole_replay(world: World, pipeline: Pipeline) -> None:
    """Show a replay from the beginning."""
    replay = Replay(pipeline, world.endpoints, world.spark)
    replay.show(replay.first_batch(ReplayStart()), lambda _: None)


@pytest.mark.longest
def test_batches_go_once_the_topic_has_none_of_their_messages_and_verify_and_replay_answer_as_before(
    world: World,
) -> None:
    pipeline = eight_batches(world)
    batches = of(world, pipeline, "batch")
    rows = world.ledger.rows_so_far(pipeline.name, 2**62)
    shown = pruned(world, pipeline, execute=False)
    assert (shown.batches, shown.kept["held"]) == (0, batches - shown.kept["newest"])
    assert shown.checks > 0
    assert shown.lineage_events == batches
    assert of(world, pipeline, "lineage_event") == batches, "only shown"

    delete_up_to(world, pipeline, dict.fromkeys(range(4), 9))
    before = verified(world, pipeline)
    with pytest.raises(BadInput, match="no longer has"):
        whole_replay(world, pipeline)
    shown, done = pruned(world, pipeline, execute=False), pruned(world, pipeline)
    assert replace(shown, executed=True) == done
    assert done.batches >= 3
    assert of(world, pipeline, "batch") == batches - done.batches
    assert of(world, pipeline, "lineage_event") == 0
    left = world.rows("select * from tidegate.pruned_range where pipeline = %s order by partition", pipeline.name)
    assert len(left) == 4, "one for each partition"
    assert verified(world, pipeline) == before
    with pytest.raises(BadInput, match="no longer has"):
        whole_replay(world, pipeline)
    assert world.ledger.rows_so_far(pipeline.name, 2**62) == rows
    again = pruned(world, pipeline)
    assert (again.batches, again.checks, again.lineage_events) == (0, 0, 0)

    world.send_and_drain(pipeline, transfers(8, start=100))
    assert verified(world, pipeline)["ok"]


@pytest.mark.longest
def test_of_a_broker_that_is_away_nothing_is_taken_for_gone(world: World) -> None:
    pipeline = eight_batches(world)
    delete_up_to(world, pipeline, dict.fromkeys(range(4), 9))

    def away(topic: str) -> Any:
        raise BrokerAway(f"{topic}: no broker answers")

    found = prune(world.endpoints.postgres_url, pipeline.contract, away, execute=True)
    assert (found.batches, found.dead_letters) == (0, 0)
    assert found.checks > 0, "that depends on no broker"
    assert found.kept["unknown"] > 0
    assert "no broker answers" in (found.log_unknown or "")


@pytest.mark.longest
def test_open_dead_letters_unreported_batches_and_what_a_replay_is_being_built_of_stay(world: World) -> None:
    pipeline = eight_batches(world, bad=True)
    delete_up_to(world, pipeline, {0: 11, 1: 10, 2: 10, 3: 10})
    begun = "insert into tidegate.replay (pipeline, from_batch, fingerprint) values (%s, 1, '')"
    world.rows(begun, pipeline.name)
    assert set(pruned(world, pipeline).kept) == {"replay"}
    world.rows("delete from tidegate.replay where pipeline = %s", pipeline.name)
    first = "select min(batch_id) from tidegate.batch where pipeline = %s"
    world.rows(f"update tidegate.batch set reported_at = null where batch_id = ({first})", pipeline.name)
    found = pruned(world, pipeline)
    assert found.kept["unreported"] == 1
    assert len(world.dead_letters(pipeline)) == 1
    assert verified(world, pipeline)["ok"]


@pytest.mark.longest
def test_windows_cover_what_is_pruned_around_batches_that_are_kept(world: World) -> None:
    """No part of a merged range belongs to one window alone; nor do the batches that stayed between."""
    pipeline = world.new_pipeline()
    for number in range(6):
        world.send_and_drain(pipeline, [*transfers(39, start=39 * number), *([b"no JSON"] if number in (1, 3) else [])])
    aged(world, pipeline)
    ends = {at.partition: at.next_offset for at in world.ledger.positions(pipeline.name)}
    delete_up_to(world, pipeline, {partition: max(0, end - 1) for partition, end in ends.items()})
    before = verify(pipeline, world.endpoints, world.spark)
    assert before.ok, before.explanation
    done = pruned(world, pipeline)
    assert done.batches
    assert done.kept["dead_letters"] == 2
    report = verify_new(pipeline, world.endpoints, world.spark, window=1)
    assert report.ok, report.explanation


def test_a_settled_dead_letter_goes_when_its_message_is_gone_and_is_counted_for_ever(world: World) -> None:
    pipeline = world.new_pipeline("append", batch_messages=8)
    world.send_and_drain(pipeline, [b"no JSON", b"neither"], partition=0)
    aged(world, pipeline)
    settled = "status = 'discarded', status_at = now() - interval '60 days'"
    where = 'where pipeline = %s and "offset" = 0'
    world.rows(f"update tidegate.dead_letter set {settled} {where}", pipeline.name)
    counted = world.ledger.dead_letter_counts(pipeline.name, None)
    assert pruned(world, pipeline).kept["settled_letters"] == 1
    assert verified(world, pipeline)["dead_letters"] == 2
    delete_up_to(world, pipeline, {0: 1})
    before = verified(world, pipeline)
    assert pruned(world, pipeline).dead_letters == 1
    assert [letter["offset"] for letter in world.dead_letters(pipeline)] == [1]
    assert verified(world, pipeline) == before
    assert world.ledger.dead_letter_counts(pipeline.name, None) == counted


@pytest.mark.longest
def test_a_prune_that_is_ended_halfway_has_done_whole_pages_and_the_next_one_does_the_rest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune_ledger, "PAGE", 1)
    pipeline = eight_batches(world)
    delete_up_to(world, pipeline, dict.fromkeys(range(4), 9))
    before = verified(world, pipeline)
    third = world.rows("select batch_id from tidegate.batch where pipeline = %s order by batch_id", pipeline.name)[2]
    with psycopg.connect(world.endpoints.postgres_url) as session, ThreadPoolExecutor(1) as pool:
        session.execute("select from tidegate.batch where batch_id = %s for update", [third["batch_id"]])
        killed = pool.submit(pruned, world, pipeline)
        while not _ended(world):
            assert not killed.done(), killed.result()
        with pytest.raises(LedgerAway):
            killed.result(30)
    left = of(world, pipeline, "batch")
    assert verified(world, pipeline) == before
    assert pruned(world, pipeline).batches > 0
    assert of(world, pipeline, "batch") < left
    assert verified(world, pipeline) == before


@pytest.mark.longest
def test_a_sender_of_lineage_events_and_a_prune_wait_for_each_other_neither_way(world: World) -> None:
    """The sender may take long, and the prune locks the pipeline's row."""
    pipeline = eight_batches(world)
    with outbox(world.endpoints.postgres_url, pipeline.name) as sending:
        assert sending is not None
        first, *_, last = sending.waiting(100)
        sending.sent(first.sequence)
        assert pruned(world, pipeline).lineage_events >= 5
        sending.sent(last.sequence)
    assert of(world, pipeline, "lineage_event") == 1, "the one that had just left"


@pytest.mark.slow
def test_what_the_benchmark_of_growth_records_is_what_runs_record(world: World) -> None:
    pipeline = world.new_pipeline("append", partitions=1, batch_messages=MESSAGES)
    world.send(pipeline, [message(offset) for offset in range(200)], partition=0)
    view = KafkaBroker(world.endpoints.kafka_options()).describe(pipeline.contract.topic)
    checks = [CheckResult("url_pattern", pipeline.contract.row_table.name, "warning", True, {"failed": 0})]
    job = compose([pipeline]).resolve_job_def("drain")
    world.drain(pipeline, Budget(batches=1))
    with DagsterInstance.ephemeral() as instance:
        History(world.endpoints.postgres_url, pipeline.contract, view, checks, instance, job).write(19)
        key = table_key(pipeline.contract.row_table.name)
        assert len(instance.fetch_materializations(key, limit=30).records) == 19
    assert verified(world, pipeline)["rows"] == 200
    assert len(world.ledger.unreported(pipeline.contract)) == 1, "the real one"


@pytest.mark.longest
def test_the_command_shows_what_it_would_remove_and_why_the_rest_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = eight_batches(world)
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", world.endpoints.postgres_url)
    monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", world.endpoints.bootstrap_servers)
    monkeypatch.setattr("platform_defs.settings.contracts.find_contract", lambda _: pipeline.contract)
    answer = CliRunner().invoke(app, ["prune", pipeline.name])
    assert answer.exit_code == 0, answer.output
    assert f"{pipeline.name}: would remove " in answer.stdout
    assert "whose messages the topic still has" in answer.stdout
    assert f"To remove these: tidegate prune {pipeline.name} --execute" in answer.stdout
    (done,) = json.loads(CliRunner().invoke(app, ["prune", pipeline.name, "--execute", "-o", "json"]).stdout)[
        "pipelines"
    ]
    assert done["executed"]
    assert done["lineage_events"] == of(world, pipeline, "batch")
    again = CliRunner().invoke(app, ["prune", pipeline.name, "--execute"])
    assert "removed nothing; kept: " in again.stdout


def test_without_a_ledger_there_is_nothing_to_prune(world: World) -> None:
    contract = renamed(find_all().pipelines[0].contract, "none")
    with new_database(world.endpoints.postgres_url) as url:
        assert not prune(url, contract, pytest.fail, execute=True).any


def _ended(world: World) -> bool:
    """End a session that prunes and waits for a lock; return True if there was one."""
    return bool(
        world.rows(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'tidegate prune' and wait_event_type = 'Lock'"
        )
    )
