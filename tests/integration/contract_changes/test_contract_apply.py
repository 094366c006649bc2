"""A contract changes: the effect of apply on the tables, a run, another apply, and itself."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from platform_defs.contract.evolution.statements import Given
from platform_defs.contract.model.column_types import STRING, column_type
from platform_defs.contract.model.contract import BatchRule, Column, Contract, Field, RowRule, Table
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract_changes import evolve
from platform_defs.errors import BadInput, Fenced, OutcomeUnknown
from platform_defs.verify.verify import verify
from tests.integration.verify.test_verify import view
from tests.support.postgres.adoptions import adopt, restored
from tests.support.postgres.restricted_roles import clerk_of
from tests.support.waiting import BOUND
from tests.support.world import World


def views(world: World, count: int = 8, **properties: Any) -> Pipeline:
    """Return a pipeline with an append table and no transform, which has read `count` messages."""
    pipeline = world.new_pipeline("append", transform=None)
    pipeline = replace(pipeline, contract=replace(pipeline.contract, **properties))
    world.send_and_drain(pipeline, [view(number) for number in range(count)])
    return pipeline


def with_field(
    pipeline: Pipeline, name: str = "channel", version: str = "1.1.0", *, required: bool = False
) -> Pipeline:
    """Return the pipeline with one more field, and its column."""
    old = pipeline.contract
    rules = (RowRule(f"{name}_required", name, "required", None, ""),) if required else ()
    made = Field(name, STRING, required, rules)
    columns = (*old.row_table.columns, Column(name, STRING, required))
    return changed(pipeline, version, fields=(*old.fields, made), columns=columns)


def changed(
    pipeline: Pipeline,
    version: str,
    *,
    columns: tuple[Column, ...] | None = None,
    batch_rules: tuple[BatchRule, ...] | None = None,
    **others: Any,
) -> Pipeline:
    """Return the pipeline with another contract, and other columns or rules of its row table."""
    old = pipeline.contract
    table = replace(old.row_table, columns=columns or old.row_table.columns)
    if batch_rules is not None:  # which has no effect on the table
        table = replace(table, batch_rules=batch_rules)
    new: Contract = replace(old, version=version, tables=(table, *old.accumulates), **others)
    return replace(pipeline, contract=new)


def apply(world: World, pipeline: Pipeline, given: Given | None = None) -> evolve.Proposal:
    return evolve.apply(world.endpoints.postgres_url, pipeline.contract, given or Given(), "tester")


def columns(world: World, table: Table) -> dict[str, tuple[str, bool]]:
    """Return the type and NOT NULL flag of each column by name, without Tidegate's own columns."""
    asked = (
        "select attname, format_type(atttypid, atttypmod) as type, attnotnull from pg_attribute "
        "where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped and left(attname, 1) <> '_'"
    )
    return {row["attname"]: (row["type"], row["attnotnull"]) for row in world.rows(asked, table.name)}


def versions(world: World, pipeline: Pipeline) -> list[tuple[str, bool, bool]]:
    """Return (version, by command, in force) for each contract in the ledger."""
    asked = (
        "select c.version, c.by_command, p.contract_digest = c.digest as in_force from tidegate.contract as c "
        "join tidegate.pipeline as p on p.name = c.pipeline where c.pipeline = %s order by c.applied_at"
    )
    return [(row["version"], row["by_command"], row["in_force"]) for row in world.rows(asked, pipeline.name)]


def exact(world: World, pipeline: Pipeline) -> None:
    report = verify(pipeline, world.endpoints, world.spark)
    assert report.ok, report.explanation


def test_a_first_run_records_its_contract_and_pins_its_batches(world: World) -> None:
    pipeline = views(world)
    assert versions(world, pipeline) == [("1.0.0", False, True)]
    pinned = world.rows(
        "select b.contract_digest = c.digest as same, c.first_batch = b.batch_id as first from tidegate.batch as b "
        "join tidegate.contract as c on c.pipeline = b.pipeline where b.pipeline = %s",
        pipeline.name,
    )
    assert pinned == [{"same": True, "first": True}]


@pytest.mark.slow
def test_a_column_is_added_by_a_person_and_not_by_a_run(world: World) -> None:
    before = views(world)
    after = with_field(before)
    with pytest.raises(BadInput, match=f"tidegate contract apply {before.name} --yes"):
        world.drain(after)
    assert "channel" not in columns(world, before.contract.row_table)
    done = apply(world, after)
    assert [item.sql for item in done.plan.statements] == [
        f'ALTER TABLE "{before.name}"."page_views" ADD COLUMN "channel" text'
    ]
    assert columns(world, after.contract.row_table)["channel"] == ("text", False)
    assert versions(world, after) == [("1.0.0", False, False), ("1.1.0", True, True)]
    (batch,) = world.send_and_drain(after, [view(8, channel="web"), view(9)])
    assert (batch.messages, batch.dead_letters) == (2, 0)
    assert world.rows(f"select count(*) as n from {after.contract.row_table.name} where channel = 'web'") == [{"n": 1}]
    exact(world, after)
    assert apply(world, after).empty


@pytest.mark.slow
def test_a_run_applies_what_is_free_where_the_contract_lets_it(world: World) -> None:
    before = views(world, evolution="additive")
    after = with_field(before)
    (batch,) = world.send_and_drain(after, [view(8, channel="web")])
    assert batch.rows == 1
    assert versions(world, after) == [("1.0.0", False, False), ("1.1.0", False, True)]
    exact(world, after)
    demanding = with_field(after, "device", "2.0.0", required=True)
    with pytest.raises(BadInput, match="tidegate contract diff"):
        world.drain(demanding)
    unnumbered = with_field(after, "device", "1.1.0")
    with pytest.raises(BadInput, match=r"Write version: 1\.2\.0"):
        world.drain(unnumbered)


def test_a_run_adds_no_field_that_messages_without_a_schema_may_have_already(world: World) -> None:
    """JSON has none: for fields that the contract did not name, the ledger only has the number of messages."""
    before = views(world, evolution="additive")
    world.send(before, [view(8, channel=5)])
    assert [batch.rows for batch in world.drain(before)] == [1]
    after = with_field(before)
    with pytest.raises(BadInput, match=r"1 message in its latest batches.*contract diff .*--messages 1000"):
        world.drain(after)
    assert "channel" not in columns(world, before.contract.row_table)
    apply(world, after)
    assert world.drain(after) == []


def test_a_required_column_gets_a_value_in_old_rows(world: World) -> None:
    before = views(world)
    after = with_field(before, version="2.0.0", required=True)
    with pytest.raises(BadInput, match="--fill channel="):
        apply(world, after)
    apply(world, after, Given(fill={"channel": "'unknown'"}))
    assert columns(world, after.contract.row_table)["channel"] == ("text", True)
    default = "select count(*) as n from pg_attrdef where adrelid = to_regclass(%s)"
    assert world.rows(default, after.contract.row_table.name) == [{"n": 0}]
    (batch,) = world.send_and_drain(after, [view(8, channel="web"), view(9)])
    assert (batch.rows, batch.dead_letters) == (1, 1)
    found = world.rows(f"select channel, count(*) as n from {after.contract.row_table.name} group by 1 order by 1")
    assert found == [{"channel": "unknown", "n": 8}, {"channel": "web", "n": 1}]
    exact(world, after)


def test_a_version_that_a_person_applied_stays_what_it_is(world: World) -> None:
    before = views(world)
    with pytest.raises(BadInput, match=r"require a minor version"):
        apply(world, with_field(before, version="1.0.1"))
    with pytest.raises(BadInput, match=r"still 1\.0\.0"):
        apply(world, with_field(before, version="1.0.0"))
    after = with_field(before)
    apply(world, after)
    with pytest.raises(BadInput, match="older file"):
        world.drain(before)
    relaxed = changed(after, "1.1.0", batch_rules=())
    with pytest.raises(BadInput, match=r"still 1\.1\.0.*by tester"):
        world.drain(relaxed)
    assert versions(world, after) == [("1.0.0", False, False), ("1.1.0", True, True)]
    exact(world, after)


def test_versions_have_to_fit_once_a_person_has_applied_one_though_runs_take_the_next(world: World) -> None:
    before = views(world)
    after = with_field(before)
    apply(world, after)
    relaxed = changed(after, "1.2.0", batch_rules=())
    world.drain(relaxed)  # by itself
    assert versions(world, after)[-1] == ("1.2.0", True, True)
    with pytest.raises(BadInput, match="older file"):
        world.drain(after)
    with pytest.raises(BadInput, match=r"still 1\.2\.0"):
        world.drain(changed(relaxed, "1.2.0", batch_rules=after.contract.row_table.batch_rules))


@pytest.mark.slow
def test_a_change_that_asks_nothing_of_the_tables_is_taken_by_a_run_as_before(world: World) -> None:
    before = views(world)
    after = changed(before, "1.0.0", batch_rules=())
    world.send(after, [view(8)])
    assert len(world.drain(after)) == 1
    assert versions(world, after) == [("1.0.0", False, False), ("1.0.0", False, True)]
    exact(world, after)


def test_nulls_in_old_rows_refuse_a_column_that_is_to_be_required(world: World) -> None:
    before = views(world)
    optional = next(c for c in before.contract.row_table.columns if not c.required)
    world.rows(f"update {before.contract.row_table.name} set {optional.name} = null where _offset = 0")
    columns_ = tuple(replace(c, required=c.required or c == optional) for c in before.contract.row_table.columns)
    fields = tuple(replace(f, required=f.required or f.name == optional.name) for f in before.contract.fields)
    after = changed(before, "2.0.0", columns=columns_, fields=fields)
    with pytest.raises(BadInput, match=rf"{optional.name} is NULL in \d rows?:"):
        apply(world, after)
    assert not columns(world, before.contract.row_table)[optional.name][1]


@pytest.mark.slow
def test_a_batch_in_progress_is_fenced_and_read_again(world: World) -> None:
    before = views(world)
    world.send(before, [view(number) for number in range(8, 12)])
    after = with_field(before)
    with world.open_run(before) as context:
        apply(world, after)
        with pytest.raises(Fenced):
            context.ledger.add_positions([], context.ledger.positions())
    (batch,) = world.drain(after)
    assert batch.rows == 4
    exact(world, after)


def test_of_two_at_once_one_applies_and_the_other_finds_nothing_to_do(world: World) -> None:
    before = views(world)
    after = with_field(before)
    done: list[evolve.Proposal] = []
    threads = [threading.Thread(target=lambda: done.append(apply(world, after))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND)
    assert sorted(item.empty for item in done) == [False, True]
    exact(world, after)


def test_a_session_that_is_lost_leaves_nothing_or_all_of_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = views(world)
    after = with_field(before)
    ended = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"

    def end_it(point: str) -> None:
        if point == "apply_recorded":
            world.rows(ended, f"tidegate apply {before.name}")

    with monkeypatch.context() as patched:
        patched.setattr("platform_defs.engine.interfaces.crash_points.reach", end_it)
        with pytest.raises(OutcomeUnknown, match="Apply it again"):
            apply(world, after)
    assert "channel" not in columns(world, before.contract.row_table)
    assert not apply(world, after).empty
    exact(world, after)


@pytest.mark.longest
def test_what_depends_on_a_column_is_named(world: World) -> None:
    before = views(world)
    table = before.contract.row_table
    kept = table.columns[-1].name
    world.rows(f"create view {before.name}.seen as select {kept} from {table.name}")
    after = changed(before, "2.0.0", columns=table.columns[:-1])
    with pytest.raises(BadInput, match=r"view .*seen"):
        apply(world, after, Given(drop=frozenset({kept})))
    assert versions(world, before) == [("1.0.0", False, True)]
    apply(world, after)  # without --drop the column stays
    world.send_and_drain(after, [view(8)])
    exact(world, after)


@pytest.mark.slow
def test_who_may_not_alter_the_table_is_told_so(world: World) -> None:
    before = views(world)
    after = with_field(before)
    world.rows(f"create role {before.name}_owner")
    clerk = clerk_of(world, before)
    world.rows(f"alter table {before.contract.row_table.name} owner to {before.name}_owner")
    with pytest.raises(BadInput, match="Only a table's owner may change it"):
        evolve.apply(clerk, after.contract, Given(), "tester")
    assert versions(world, before) == [("1.0.0", False, True)]


def test_a_partitioned_table_of_a_users_own_is_changed_with_its_partitions(world: World) -> None:
    pipeline = world.new_pipeline("append", transform=None)
    table = pipeline.contract.row_table.name
    listed = ", ".join(f"{c.name} {c.type.postgres}" for c in pipeline.contract.row_table.columns)
    own = "_batch_id bigint not null, _partition integer not null, _offset bigint not null"
    world.rows(f"create schema {pipeline.name}")
    world.rows(f"create table {table} ({listed}, {own}) partition by hash (_offset)")
    for number in range(2):
        world.rows(
            f"create table {table}_{number} partition of {table} for values with (modulus 2, remainder {number})"
        )
    world.send_and_drain(pipeline, [view(number) for number in range(8)])
    after = with_field(pipeline)
    done = apply(world, after)
    assert len(done.plan.statements) == 1  # not what else the table lacks: that is the user's choice
    world.send_and_drain(after, [view(8, channel="web")])
    exact(world, after)


@pytest.mark.slow
def test_a_run_refuses_to_show_what_was_classified_though_the_version_is_the_same(world: World) -> None:
    shown = views(world)
    first, *others = shown.contract.fields
    hidden = changed(shown, shown.contract.version, fields=(replace(first, classification="pii"), *others))
    world.send(shown, [view(100)])
    world.drain(hidden)
    assert versions(world, shown) == [("1.0.0", False, True)]
    world.send(shown, [view(101)])
    with pytest.raises(
        BadInput,
        match=rf"field {first.name} is no longer classified.*Nothing was written.*"
        rf"tidegate contract apply {shown.name} --allow declassify --yes.*Write version: 2\.0\.0",
    ):
        world.drain(shown)
    newer = changed(shown, "2.0.0")
    with pytest.raises(BadInput, match="--allow declassify"):
        world.drain(newer)
    apply(world, newer, Given(declassify=True))
    world.drain(newer)
    exact(world, newer)


@pytest.mark.longest
def test_a_ledger_restored_from_before_a_change_asks_for_the_change_again(world: World) -> None:
    before = views(world)
    after = with_field(before)
    with restored(world, before) as other:
        adopt(other, before)
        with pytest.raises(BadInput, match="tidegate contract apply"):
            other.drain(after)
        apply(other, after)
        other.send(after, [view(8, channel="web")])
        assert len(other.drain(after)) == 1
        exact(other, after)


@pytest.mark.longest
def test_more_digits_a_new_name_and_no_demand_in_one(world: World) -> None:
    before = views(world)
    table = before.contract.row_table
    wide = column_type("decimal(20,2)")
    first = next(c for c in table.columns if c.name == "visitor")
    columns_ = tuple(replace(c, name="seen_by", renamed_from=c.name) if c == first else c for c in table.columns)
    fields = tuple(
        replace(f, name="seen_by", physical_path=f.path, rules=tuple(replace(r, field="seen_by") for r in f.rules))
        if f.name == first.name
        else f
        for f in before.contract.fields
    )
    after = changed(
        before,
        "2.0.0",
        columns=(*columns_, Column("price", wide, False)),
        fields=(*fields, Field("price", wide, False, ())),
    )
    with pytest.raises(BadInput, match="--allow breaking"):
        apply(world, after)
    apply(world, after, Given(breaking=True))
    world.send_and_drain(after, [view(8, price="123456789012345678.25")])
    exact(world, after)
    wider = column_type("decimal(24,2)")
    columns_ = tuple(
        replace(c, type=wider, renamed_from="") if c.name == "price" else c for c in after.contract.row_table.columns
    )
    fields = tuple(replace(f, type=wider) if f.name == "price" else f for f in after.contract.fields)
    widened = changed(after, "2.1.0", columns=columns_, fields=fields)
    apply(world, widened)
    assert columns(world, table)["price"] == ("numeric(24,2)", False)
    world.send_and_drain(widened, [view(9, price="1234567890123456789012.25")])
    exact(world, widened)
