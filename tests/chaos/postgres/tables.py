"""Changes that people make to tables, contracts and rules while a pipeline runs."""

import re
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import BadInput, Fenced, GateFailed
from tests.chaos.halts import resolve_halt
from tests.chaos.moments import Intruder
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.postgres.adoptions import adopt, restored
from tests.support.replays import execute
from tests.support.world import World, transfer, transfers

TYPES = {  # a column, its type in the contract, and another type that would fit its values
    "amount": ("numeric(18,2)", ("double precision", "numeric(18,4)", "numeric(20,2)")),
    "transfer_id": ("text", ("character varying(20)",)),
    "occurred_at": ("timestamp with time zone", ("timestamp without time zone",)),
}


@scenario(FaultClass.TABLE_ALTERED)
def column_altered_to_another_type(chaos: Chaos) -> Verdict:
    """Refused when a run begins, before anything is written; once the column is restored, the run continues."""
    world, pipeline = chaos.world, chaos.world.caught_up()
    world.send(pipeline, transfers(8, start=8))
    before, altered = _all_of(world, pipeline), 0
    for column, (right, others) in TYPES.items():
        for wrong in others:
            _alter(world, pipeline, column, wrong)
            with pytest.raises(BadInput, match=rf"column {column} of .* is {re.escape(wrong)}, but the contract says"):
                world.drain(pipeline)
            _alter(world, pipeline, column, right)
            altered += 1
    assert _all_of(world, pipeline) == before
    return chaos.judge(pipeline, altered, "refused before anything is written")


@scenario(FaultClass.TABLE_ALTERED, representative=True)
def column_altered_between_plan_and_publish(chaos: Chaos) -> Verdict:
    """The batch fails whole; its offsets stay, and are read again once the column is restored."""
    return _table_changed(
        chaos,
        "ALTER {table} ALTER amount TYPE double precision",
        "column amount of .* is double precision, but the contract says numeric",
        "ALTER {table} ALTER amount TYPE numeric(18,2)",
    )


@scenario(FaultClass.TABLE_ALTERED)
def column_dropped_between_plan_and_publish(chaos: Chaos) -> Verdict:
    """The batch fails whole; its offsets stay, and are read again once the column is back."""
    return _table_changed(
        chaos,
        "ALTER {table} DROP currency",
        "column currency of .* is missing",
        "ALTER {table} ADD currency text NOT NULL",
    )


@scenario(FaultClass.TABLE_ALTERED)
def column_that_must_be_filled_added_between_plan_and_publish(chaos: Chaos) -> Verdict:
    """A NOT NULL column that the contract does not know: the batch fails whole, until the column is dropped."""
    return _table_changed(
        chaos,
        "ALTER {table} ADD branch text NOT NULL",
        "column branch of .* has no default, but it is NOT NULL",
        "ALTER {table} DROP branch",
    )


@scenario(FaultClass.TABLE_ALTERED)
def column_altered_inside_the_publish_transaction(chaos: Chaos) -> Verdict:
    """Not possible: from the check of its types until COMMIT, no other session can alter the table."""
    world, pipeline = chaos.world, chaos.world.new_pipeline()
    world.drain(pipeline)  # the tables are created
    world.send(pipeline, transfers(80))
    refused: list[str] = []

    def alter(_: int) -> None:
        for table in pipeline.contract.tables:
            with world.session() as other:
                other.execute("SET lock_timeout = '200ms'")
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    other.execute(f"ALTER TABLE {table.name} ALTER {table.columns[1].name} TYPE varchar(99)")
            refused.append(table.name)

    intruder = Intruder("after_the_tables_are_checked", alter)
    (batch,) = intruder.drain(world, pipeline)
    assert (batch.rows, refused) == (160, [table.name for table in pipeline.contract.tables])
    return chaos.judge(pipeline, intruder.fired, "the ALTER has to wait")


@scenario(FaultClass.TABLE_ALTERED)
def second_pipeline_on_the_same_table(chaos: Chaos) -> Verdict:
    """Refused before it reads or writes anything, be it the row table or a sum."""
    world, first = chaos.world, chaos.world.caught_up()
    before = _all_of(world, first)
    for stolen in first.contract.tables:
        second = world.new_pipeline()
        others = tuple(table for table in second.contract.tables if table.disposition != stolen.disposition)
        tables = sorted((stolen, *others), key=lambda table: table.disposition == "accumulate")
        thief = replace(second, contract=replace(second.contract, tables=tuple(tables)))
        world.send(thief, transfers(8))
        with pytest.raises(BadInput, match=rf"table {stolen.name} belongs to pipeline {first.name}"):
            world.drain(thief)
        assert world.position(thief) == {}
        assert world.rows("select 1 from tidegate.batch where pipeline = %s", thief.name) == []
    assert _all_of(world, first) == before
    return chaos.judge(first, len(first.contract.tables), "refused before anything is written")


@scenario(FaultClass.TABLE_ALTERED)
def trigger_that_swallows_rows(chaos: Chaos) -> Verdict:
    """Refused, whether it is there when a run begins or comes between plan and publish: no offset moves past a row."""
    world, pipeline = chaos.world, chaos.world.caught_up()
    before, name = _all_of(world, pipeline), pipeline.name
    world.rows(f"create function {name}.nothing() returns trigger language plpgsql as 'begin return null; end'")
    for number, table in enumerate(table.name for table in pipeline.contract.tables):
        swallow = f"create trigger quiet before insert on {table} for each row execute function {name}.nothing()"
        world.send(pipeline, transfers(8, start=8 + 8 * number))
        refused = pytest.raises(BadInput, match=r"trigger quiet on .* may drop or change rows.*drop trigger")
        with refused:
            Intruder("before_publish", lambda _, create=swallow: world.rows(create)).drain(world, pipeline)
        with refused:
            world.drain(pipeline)
        assert (set(world.position(pipeline).values()), _all_of(world, pipeline)) == ({2}, before)
        world.rows(f"drop trigger quiet on {table}")
    return chaos.judge(pipeline, 4, "refused until it is dropped")


@scenario(FaultClass.TABLE_LEFT_OUT, representative=True)
def accumulate_taken_out_and_put_back(chaos: Chaos) -> Verdict:
    """Refused with the command that rebuilds it; until then nothing is added to sums that lack a batch."""
    world, pipeline = chaos.world, chaos.world.caught_up()
    rows_alone = replace(pipeline, contract=replace(pipeline.contract, tables=pipeline.contract.tables[:1]))
    world.send(pipeline, transfers(8, start=8))
    (left_out,) = world.drain(rows_alone)
    before = _all_of(world, pipeline)
    world.send(pipeline, transfers(8, start=16))
    message = (
        rf"was last written by batch \d+.*published up to batch {left_out.batch_id}.*tidegate replay {pipeline.name}"
    )
    with pytest.raises(BadInput, match=message):
        world.drain(pipeline)
    assert _all_of(world, pipeline) == before
    execute(world, pipeline)
    return chaos.judge(pipeline, 1, "refused until it is rebuilt")


@scenario(FaultClass.POSTGRES_RESTORED)
def dump_restored_into_another_database(chaos: Chaos) -> Verdict:
    """Every table has another OID, and the ids begin again: refused until the tables are verified and adopted."""
    pipeline = chaos.world.caught_up()
    chaos.world.send(pipeline, transfers(8, start=8))
    with restored(chaos.world, pipeline) as world:
        before = _all_of(world, pipeline)
        world.rows("alter sequence tidegate.batch_id restart")  # as logical replication leaves it
        with pytest.raises(BadInput, match=f"tidegate adopt {pipeline.name}"):
            world.drain(pipeline)
        decided = adopt(world, pipeline)
        assert (len(decided.bindings), "tidegate.batch_id" in str(decided.sequences)) == (2, True)
        assert _all_of(world, pipeline) == before
        (batch,) = world.drain(pipeline)
        assert batch.batch_id > (decided.newest_batch or 0)
        return replace(chaos, world=world).judge(pipeline, 1, "adopted, then read on")


@scenario(FaultClass.GATE_FAILS, representative=True)
def gate_that_fails(chaos: Chaos) -> Verdict:
    """Nothing is published, offsets stay, retries are backed off; after a fix the same ranges are evaluated."""
    world, pipeline = chaos.world, chaos.world.new_pipeline()
    strict, waits = with_impossible_sum(pipeline), list[int]()
    world.send(pipeline, transfers(40))
    pending: list[Any] = []
    for attempt in range(3):
        with pytest.raises(GateFailed, match="postings_sum_to_zero") as failure:
            world.drain(strict)
        assert [c.name for c in failure.value.results if not c.passed] == ["postings_sum_to_zero"]
        status = _try(world, pipeline)
        assert status["failed_tries"] == attempt + 1
        waits.append(status["wait"])
        pending.append(status["pending"])
        world.send(pipeline, transfers(100, start=40 + 100 * attempt))  # dilutes nothing
    assert waits == [1, 2, 4]
    assert pending[0] == pending[1] == pending[2]
    assert set(world.position(pipeline).values()) == {0}
    assert _all_of(world, pipeline) == [[], []]
    assert world.rows("select 1 from tidegate.batch where pipeline = %s", pipeline.name) == []
    assert world.rows("select 1 from tidegate.check_result where table_name like %s", f"{pipeline.name}.%") == []
    assert [batch.messages for batch in world.drain(pipeline)] == [40, 300]
    return chaos.judge(pipeline, len(pending), "the same offsets, judged again")


@scenario(FaultClass.GATE_FAILS)
def gate_that_a_person_overrules(chaos: Chaos) -> Verdict:
    """One batch is published although its check is red, the next one is dead-lettered. A decision applies to its batch
    alone, whichever run is working on it meanwhile.
    """
    world, pipeline = chaos.world, with_impossible_sum(chaos.world.new_pipeline())
    world.send(pipeline, transfers(40))
    with pytest.raises(GateFailed):
        world.drain(pipeline)
    intruder = Intruder("before_publish", lambda _: resolve_halt(world, pipeline, batch="publish"))
    with pytest.raises(Fenced):  # validated by a corrected contract, and overtaken by the decision
        intruder.drain(world, _without_rules(pipeline))
    assert [batch.rows for batch in world.drain(pipeline)] == [80]
    world.send(pipeline, [*transfers(8, start=40), b"garbage"])
    with pytest.raises(GateFailed):
        world.drain(pipeline)
    resolve_halt(world, pipeline, batch="dead-letters")
    assert [(batch.rows, batch.dead_letters) for batch in world.drain(pipeline)] == [(0, 9)]
    return chaos.judge(pipeline, intruder.fired, "one batch published, one set aside")


@scenario(FaultClass.CONTRACT_CHANGED, representative=True)
def contract_changed_between_plan_and_publish(chaos: Chaos) -> Verdict:
    """The offsets stay as planned; one contract validates all of them, that of the publishing run. The other run is
    fenced.
    """
    world, first = chaos.world, chaos.world.new_pipeline()
    second = _second_version(first)
    small, large = transfers(20), [transfer(n, "500.00") for n in range(20, 28)]
    places = world.send(first, [*small, *large])
    made: list[Any] = []

    def next_run_has_another_contract(_: int) -> None:
        planned = _try(world, first)["pending"]["batch_id"]
        world.send(first, transfers(8, start=100))
        made.extend([planned, *world.drain(second)])

    intruder = Intruder("before_publish", next_run_has_another_contract)
    with pytest.raises(Fenced):
        intruder.drain(world, first)
    planned, taken_over, rest = made
    assert (taken_over.batch_id, taken_over.messages, taken_over.dead_letters, rest.messages) == (planned, 28, 8, 8)
    assert sorted((d["partition"], d["offset"]) for d in world.dead_letters(first)) == sorted(places[20:])
    assert {d["error_class"] for d in world.dead_letters(first)} == {"amount_maximum"}
    versions = "select distinct contract_version as v from tidegate.batch where pipeline = %s"
    assert world.rows(versions, first.name) == [{"v": "2.0.0"}]
    return chaos.judge(second, intruder.fired, "judged whole by the second version")


def _table_changed(chaos: Chaos, change: str, text: str, back: str) -> Verdict:
    """Change the staged row table: refused; nothing of the batch is there. Then change it back."""
    world, pipeline = chaos.world, chaos.world.new_pipeline()
    table = f"TABLE {pipeline.contract.row_table.name}"
    world.drain(pipeline)  # the tables are created
    world.send(pipeline, transfers(40))
    intruder = Intruder("before_publish", lambda _: world.rows(change.format(table=table)))
    with pytest.raises(BadInput, match=text):
        intruder.drain(world, pipeline)
    assert (world.position(pipeline), _all_of(world, pipeline)) == (dict.fromkeys(range(4), 0), [[], []])
    pending = _try(world, pipeline)["pending"]
    world.rows(back.format(table=table))
    (batch,) = world.drain(pipeline)
    assert (batch.batch_id, batch.messages) == (pending["batch_id"], 40)
    return chaos.judge(pipeline, intruder.fired, "the batch fails whole")


def _alter(world: World, pipeline: Pipeline, column: str, kind: str) -> None:
    world.rows(f"ALTER TABLE {pipeline.contract.row_table.name} ALTER {column} TYPE {kind}")


def _all_of(world: World, pipeline: Pipeline) -> list[Any]:
    return [world.table(pipeline, index) for index in range(len(pipeline.contract.tables))]


def _try(world: World, pipeline: Pipeline) -> dict[str, Any]:
    """Return the pending batch, its failed tries, and the remaining back-off in half minutes, rounded up."""
    asked = "select pending, failed_tries, ceil(extract(epoch from retry_at - now()) / 30)::int as wait"
    (row,) = world.rows(f"{asked} from tidegate.pipeline where name = %s", pipeline.name)
    return row


def _without_rules(pipeline: Pipeline) -> Pipeline:
    table = replace(pipeline.contract.row_table, batch_rules=())
    return replace(pipeline, contract=replace(pipeline.contract, tables=(table, *pipeline.contract.accumulates)))


def with_impossible_sum(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with a sum rule that no batch of transfers passes."""
    table = pipeline.contract.row_table
    rules = tuple(
        (
            replace(rule, arguments={**rule.arguments, "min_value": 1, "max_value": 1})
            if rule.name == "postings_sum_to_zero"
            else rule
        )
        for rule in table.batch_rules
    )
    tables = (replace(table, batch_rules=rules), *pipeline.contract.accumulates)
    return replace(pipeline, contract=replace(pipeline.contract, tables=tables))


def _second_version(pipeline: Pipeline) -> Pipeline:
    """Return the same contract with a maximum of 400 per transfer."""
    from decimal import Decimal

    def stricter(item: Any) -> Any:
        rules = tuple(replace(r, argument=Decimal("400.00")) if r.kind == "maximum" else r for r in item.rules)
        return replace(item, rules=rules)

    fields = tuple(map(stricter, pipeline.contract.fields))
    return replace(pipeline, contract=replace(pipeline.contract, version="2.0.0", fields=fields))
