"""Tables whose OIDs differ from the ledger: refused, until `tidegate adopt` has verified and re-attached them."""

import json
from contextlib import closing
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from platform_defs.adopt import adopt as adoption
from platform_defs.cli.main import app
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.lease.lease import acquire
from platform_defs.errors import BadInput, ChangedMeanwhile
from tests.integration.verify.test_verify import view
from tests.support.postgres.adoptions import adopt, proposed
from tests.support.replays import bank, exact, execute, views
from tests.support.world import World


def copied(world: World, pipeline: Pipeline, index: int = 0) -> str:
    """Replace a table of the pipeline by a copy, as from a backup; return its name."""
    table = pipeline.contract.tables[index].name
    world.rows(f"alter table {table} rename to original")
    world.rows(f"create table {table} (like {pipeline.name}.original including all)")
    world.rows(f"insert into {table} select * from {pipeline.name}.original")
    world.rows(f"drop table {pipeline.name}.original")
    return table


@pytest.mark.slow
def test_a_table_that_was_put_back_is_refused_until_it_is_adopted(world: World) -> None:
    pipeline = views(world, batches=2)
    before = exact(world, pipeline)
    table = copied(world, pipeline)
    world.send(pipeline, [view(number) for number in range(16, 24)])
    with pytest.raises(BadInput, match=f"tidegate adopt {pipeline.name}"):
        world.drain(pipeline)
    decided = adopt(world, pipeline)
    assert [(item.table, item.was != item.becomes) for item in decided.bindings] == [(table, True)]
    assert decided.digest == before
    assert [batch.messages for batch in world.drain(pipeline)] == [8]
    exact(world, pipeline)
    assert adoption.propose(world.endpoints.postgres_url, pipeline.contract) is None
    (kept,) = world.rows("select * from tidegate.adoption where pipeline = %s", pipeline.name)
    assert (kept["reason"], kept["adopted_by"], kept["actions"]["digest"]) == ("a test", "tester", before)


def test_a_table_that_lacks_rows_is_not_adopted(world: World) -> None:
    pipeline = views(world, batches=1)
    world.rows(f"delete from {copied(world, pipeline)} where _offset = 1")
    with pytest.raises(BadInput, match=r"4 lost.*Only complete tables can be adopted"):
        adopt(world, pipeline)
    with pytest.raises(BadInput, match="tidegate adopt"):
        acquire(world.ledger.url, pipeline.contract)


def test_rows_that_no_batch_published_are_not_adopted(world: World) -> None:
    pipeline = world.new_pipeline("append", transform=None)
    world.ledger.migrate()
    acquire(world.ledger.url, pipeline.contract).close()
    table = copied(world, pipeline)
    world.rows(f"alter table {table} alter _batch_id drop not null, alter _partition drop not null")
    columns = "event_id, visitor, url, viewed_at, _offset"
    world.rows(f"insert into {table} ({columns}) values ('e', 'v', 'u', now(), 0)")
    with pytest.raises(BadInput, match="it has rows"):
        adopt(world, pipeline)
    world.rows(f"truncate {table}")
    adopt(world, pipeline)
    world.drain(pipeline)


@pytest.mark.longest
def test_numbers_that_two_pipelines_tables_have_exchanged_are_put_right(world: World) -> None:
    """After a restore, a table may well have the OID that another one had."""
    one, other = views(world, batches=1), views(world, batches=1)
    oids = {p.name: f"{p.contract.row_table.name}'::regclass" for p in (one, other)}
    world.rows("update tidegate.output set table_oid = null where pipeline = any(%s)", [one.name, other.name])
    world.rows(f"update tidegate.output set table_oid = '{oids[other.name]} where pipeline = '{one.name}'")
    world.rows(f"update tidegate.output set table_oid = '{oids[one.name]} where pipeline = '{other.name}'")
    for pipeline in (one, other):
        with pytest.raises(BadInput, match=f"tidegate adopt {pipeline.name}"):
            acquire(world.ledger.url, pipeline.contract)
        adopt(world, pipeline)
        world.drain(pipeline)
    exact(world, one)
    exact(world, other)


@pytest.mark.slow
def test_a_table_that_another_pipeline_has_is_not_taken_from_it(world: World) -> None:
    one, other = views(world, batches=1), views(world, batches=1)
    table = one.contract.row_table
    world.rows("update tidegate.output set table_name = %s where pipeline = %s", table.name, other.name)
    thief = replace(other.contract, tables=(table,))
    with pytest.raises(BadInput, match=f"belongs to pipeline {one.name}"):
        adoption.propose(world.endpoints.postgres_url, thief)


def test_what_has_changed_since_it_was_shown_is_not_carried_out(world: World) -> None:
    pipeline = views(world, batches=1)
    copied(world, pipeline)
    decided = proposed(world, pipeline)
    copied(world, pipeline)
    with pytest.raises(ChangedMeanwhile, match="has changed since this was shown"):
        adoption.adopt(world.endpoints.postgres_url, pipeline.contract, decided, "a test", "tester")


def test_sequences_that_a_copy_left_behind_are_set(world: World) -> None:
    pipeline = views(world, batches=1)
    copied(world, pipeline)
    with world.session() as session, session.transaction(force_rollback=True):  # no other session may see them go back
        session.execute("alter sequence tidegate.batch_id restart")
        session.execute("alter table tidegate.lineage_event alter sequence restart")
        steps = {item.sequence: item for item in adoption.sequences_behind(session)}
        assert set(steps) == {"tidegate.batch_id", "tidegate.lineage_event_sequence_seq"}
        for step in steps.values():
            adoption.advance(session, step)
        (newest,) = session.execute("select max(batch_id) from tidegate.batch").fetchone()
        assert session.execute("select nextval('tidegate.batch_id')").fetchone() == (newest + 1,)
        assert adoption.sequences_behind(session) == []


@pytest.mark.longest
def test_a_sum_that_was_left_out_is_bound_and_then_has_to_be_rebuilt(world: World) -> None:
    pipeline = bank(world, batches=1)
    rows_alone = replace(pipeline, contract=replace(pipeline.contract, tables=pipeline.contract.tables[:1]))
    world.send(pipeline, [b"not json"])
    world.drain(rows_alone)
    for index in range(2):
        copied(world, pipeline, index)
    decided = adopt(world, pipeline)
    assert (len(decided.bindings), decided.unverified) == (2, (pipeline.contract.accumulates[0].name,))
    with pytest.raises(BadInput, match="tidegate replay"):
        world.drain(pipeline)
    execute(world, pipeline)
    exact(world, pipeline)


@pytest.mark.longest
def test_the_command_shows_first_and_does_just_what_it_showed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = views(world, batches=1)
    monkeypatch.setattr("platform_defs.settings.contracts.find_pipeline", lambda _: pipeline)
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", world.endpoints.postgres_url)
    monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", world.endpoints.bootstrap_servers)
    command = ["adopt", pipeline.name]
    assert "nothing to do" in CliRunner().invoke(app, command).stdout
    table = copied(world, pipeline)
    shown = json.loads(CliRunner().invoke(app, [*command, "-o", "json"]).stdout)
    assert ([item["table"] for item in shown["bindings"]], shown["adopted"]) == ([table], False)
    assert "is exact" in shown["found"]
    assert shown["fingerprint"] in shown["command"]
    answer = CliRunner().invoke(app, command)
    assert table in answer.stdout
    assert isinstance(CliRunner().invoke(app, [*command, "--expect", "another"]).exception, BadInput)
    with pytest.raises(BadInput):
        acquire(world.ledger.url, pipeline.contract)
    done = [*command, "--execute", "--reason", "restored", "--expect", shown["fingerprint"], "-o", "json"]
    assert json.loads(CliRunner().invoke(app, done).stdout)["adopted"]
    with closing(acquire(world.ledger.url, pipeline.contract)):
        pass
