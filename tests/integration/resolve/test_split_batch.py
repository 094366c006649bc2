"""A batch that is too large is split: the same tables, in smaller batches, even if a run is working on it."""

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import plan_batch
from platform_defs.errors import BadInput, ChangedMeanwhile, Fenced
from platform_defs.errors.halts import KeepsFailing
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.resolve import split_batch
from platform_defs.settings.contracts import find_pipeline
from platform_defs.verify.source.ledger import read_basis
from platform_defs.verify.verify import verify
from tests.chaos.processes.dagster import views
from tests.integration.cli.test_cli import answer, tidegate
from tests.support.kafka.logs import delete_records
from tests.support.world import World, transfers

MESSAGES = 100  # per part


@pytest.mark.longest
def test_a_batch_that_is_cut_becomes_the_same_rows_and_its_run_is_fenced(world: World) -> None:
    """Also a batch that has halted the pipeline. Messages sent since are another batch."""
    pipeline = world.new_pipeline()
    world.send(pipeline, [*transfers(800), b"not json"])
    with world.open_run(pipeline) as context:
        pending = plan_batch(pipeline.contract, context)
        assert pending is not None
        context.ledger.halt(KeepsFailing(10, "LedgerAway", "canceling statement due to statement timeout"))
        decided = split_batch.propose(world.ledger, pipeline.name, MESSAGES)
        assert decided.offsets == 801
        split_batch.cut(world.endpoints.postgres_url, decided, "too slow", "a person")
        with pytest.raises(Fenced):
            context.ledger.open_staging(pending)
    batches = world.send_and_drain(pipeline, transfers(50, start=800))
    assert [batch.messages for batch in batches][-1] == 50
    assert sum(batch.messages for batch in batches) == 851
    assert all(batch.messages <= MESSAGES + 4 for batch in batches)
    assert len(batches) == decided.parts + 1 == 10
    report = verify(pipeline, world.endpoints, world.spark)
    assert report.ok, report.explanation
    (row,) = world.rows("select * from tidegate.settlement where pipeline = %s", pipeline.name)
    assert (row["halt_code"], row["reason"], row["settled_by"]) == ("recut", "too slow", "a person")
    assert row["actions"] == {"messages": MESSAGES, "batches": decided.parts}


@pytest.mark.slow
def test_what_is_cut_is_what_was_shown(world: World) -> None:
    world.ledger.migrate()
    pipeline = world.new_pipeline()
    with pytest.raises(BadInput, match="there is nothing to split"):
        split_batch.propose(world.ledger, pipeline.name, MESSAGES)
    world.send(pipeline, transfers(40))
    _plan(world, pipeline)
    decided = split_batch.propose(world.ledger, pipeline.name, 8)
    assert decided.parts == 5
    _plan(world, pipeline)  # under another epoch
    with pytest.raises(ChangedMeanwhile, match="Check again"):
        split_batch.cut(world.endpoints.postgres_url, decided, "too slow", "a person")
    with world.session() as session:
        verified_for = read_basis(session, pipeline.name)
        split_batch.cut(
            world.endpoints.postgres_url, split_batch.propose(world.ledger, pipeline.name, 8), "too slow", "a person"
        )
        assert read_basis(session, pipeline.name) == verified_for, "nothing that was compared has changed"
    again = split_batch.propose(world.ledger, pipeline.name, 4)  # the whole of it
    assert (again.offsets, again.parts) == (40, 10)


@pytest.mark.slow
def test_a_batch_whose_messages_are_gone_from_the_log_is_not_split(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    _plan(world, pipeline)
    decided, broker = split_batch.propose(world.ledger, pipeline.name, 8), KafkaBroker(world.endpoints.kafka_options())
    split_batch.refuse_unreadable(decided, pipeline.contract, world.ledger, broker)
    delete_records(world, pipeline, {0: 4})
    with pytest.raises(BadInput, match=r"can no longer be read \(retention_passed\): .*Start a run, which halts"):
        split_batch.refuse_unreadable(decided, pipeline.contract, world.ledger, broker)


@pytest.mark.longest
def test_the_command_shows_first_and_cuts_what_it_showed(world: World) -> None:
    pipeline = find_pipeline("web_page_views")
    if pipeline.contract.topic not in world.admin().list_topics(timeout=10).topics:
        world.create_topic(pipeline.contract.topic)
    world.drain(pipeline)
    assert tidegate("split-batch", pipeline.name, "--messages", "8").returncode == 1
    world.send(pipeline, views(40))
    _plan(world, pipeline)
    shown = answer("split-batch", pipeline.name, "--messages", "8")
    assert (shown["offsets"], shown["batches"]) == (40, 5)
    assert shown["command"].endswith(f"--execute --expect {shown['fingerprint']} --reason '...'")
    for_a_person = tidegate("split-batch", pipeline.name, "--messages", "8")
    assert "of 40 offsets becomes about 5 batches" in for_a_person.stdout
    done = ["split-batch", pipeline.name, "--messages", "8", "--execute", "--reason", "too slow", "--expect"]
    refused = tidegate(*done, "anything")
    again = f"nothing was changed. Check again: tidegate split-batch {pipeline.name} --messages 8"
    assert (refused.returncode, again in " ".join(refused.stderr.split())) == (1, True)
    assert answer(*done, shown["fingerprint"])["settlement_id"] > 0
    assert [batch.messages for batch in world.drain(pipeline)] == [8] * 5


def _plan(world: World, pipeline: Pipeline) -> None:
    with world.open_run(pipeline) as context:
        assert plan_batch(pipeline.contract, context)
