"""A contract comes into force again: verify compares each batch by the columns that the table had at its time."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from platform_defs.contract.evolution.statements import Given
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.postgres.connection import queries
from platform_defs.verify.compare.report import Report
from platform_defs.verify.incremental import verify_new
from platform_defs.verify.verify import verify
from tests.integration.contract_changes.test_contract_apply import apply, changed, views, with_field
from tests.integration.contract_changes.test_contract_columns import optional_tier, renamed, upserted, without
from tests.integration.verify.test_verify import customer, view
from tests.support.replays import execute
from tests.support.world import World

NEW = [view(n, channel=f"of {n}") for n in range(10, 14)]


def second_of(pipeline: Pipeline, without_column: str) -> Pipeline:
    """Return the pipeline without a column. Its version has no order, so that the first one can come again."""
    return changed(without(pipeline, without_column), "r2")


def came_again(world: World, *, dropped: bool) -> Pipeline:
    """Return a pipeline whose first contract has a column `channel`, the second does not, and the third is the first
    one again: 8 messages without a value, and then 1, 1 and 4 messages of each contract.
    """
    first = changed(with_field(views(world)), "r1")
    apply(world, first)
    world.send_and_drain(first, [view(8, channel="of 8")])
    second = second_of(first, "channel")
    apply(world, second, Given(drop=frozenset({"channel"})) if dropped else None)
    world.send_and_drain(second, [view(9)])
    apply(world, first)
    world.send_and_drain(first, NEW)
    return first


def upsert_again(world: World) -> Pipeline:
    """Return an upsert whose column `tier` was dropped by a second contract; the first one is in force again: key C2 is
    of the first time, C1 and C3 are of the second.
    """
    first = optional_tier(world.new_pipeline("upsert"), "r1")
    upserted(world, first, ("C1", customer(1)), ("C2", customer(2)))
    apply(world, second_of(first, "tier"), Given(drop=frozenset({"tier"})))
    apply(world, first)
    upserted(world, first, ("C1", customer(1)), ("C3", customer(3)))
    return first


def without_renames(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline under the same version, with no `renamedFrom`; the digest of its contract is the same."""
    columns = tuple(replace(column, renamed_from="") for column in pipeline.contract.row_table.columns)
    return changed(pipeline, pipeline.contract.version, columns=columns)


def corrupt(world: World, pipeline: Pipeline, column: str) -> None:
    world.rows(f"update {pipeline.contract.row_table.name} set {column} = 'WRONG' where {column} is not null")


def checked(world: World, pipeline: Pipeline) -> list[Report]:
    """Return what `verify` and `verify --new` report, the latter from the first message on."""
    world.rows("delete from tidegate.verified where pipeline = %s", pipeline.name)
    return [
        verify(pipeline, world.endpoints, world.spark),
        verify_new(pipeline, world.endpoints, world.spark),
    ]


def counts(report: Report) -> tuple[bool, int, int, Mapping[str, int]]:
    return report.ok, report.wrong, report.unverifiable, report.not_compared


def unattributed(world: World, pipeline: Pipeline) -> None:
    """Remove the batches' application numbers, as in a ledger that did not record them."""
    world.rows("update tidegate.batch set contract_application = null where pipeline = %s", pipeline.name)


@pytest.mark.longest
@pytest.mark.parametrize("dropped", [True, False])
def test_a_column_of_a_contract_that_came_again_is_compared(world: World, dropped: bool) -> None:
    pipeline = came_again(world, dropped=dropped)
    partly = {"channel": 1} if dropped else {}  # the message of the first time: its value is gone
    for report in checked(world, pipeline):
        assert counts(report) == (True, 0, len(partly), partly), report.explanation
        assert ("1 message was not compared in column channel" in report.explanation) is dropped
    corrupt(world, pipeline, "channel")
    for report in checked(world, pipeline):
        assert counts(report) == (False, 4 if dropped else 5, len(partly), partly), report.explanation


@pytest.mark.longest
@pytest.mark.parametrize("dropped", [True, False])
def test_a_batch_of_an_unknown_application_is_not_certified_in_columns_that_changed(
    world: World, dropped: bool
) -> None:
    pipeline = came_again(world, dropped=dropped)
    unattributed(world, pipeline)
    partly = {"channel": 5} if dropped else {}
    corrupt(world, pipeline, "channel")
    for report in checked(world, pipeline):
        assert counts(report) == (dropped, 0 if dropped else 5, 5 if dropped else 0, partly), report.explanation
        assert ("5 messages were not compared in column channel" in report.explanation) is dropped
    corrupt(world, pipeline, "url")
    for report in checked(world, pipeline):
        assert report.wrong == 14, "every other column is compared"


@pytest.mark.longest
def test_a_column_of_an_upsert_whose_contract_came_again_is_compared(world: World) -> None:
    pipeline = upsert_again(world)
    for report in checked(world, pipeline):
        assert counts(report) == (True, 0, 1, {"tier": 1}), report.explanation
    corrupt(world, pipeline, "tier")
    for report in checked(world, pipeline):
        assert counts(report) == (False, 2, 1, {"tier": 1}), report.explanation
    unattributed(world, pipeline)
    for report in checked(world, pipeline):
        assert counts(report) == (True, 0, 3, {"tier": 3}), report.explanation
        assert "3 messages were not compared in column tier" in report.explanation


@pytest.mark.longest
def test_a_column_that_is_dropped_voids_what_was_compared_before(world: World) -> None:
    first = changed(with_field(views(world)), "r1")
    apply(world, first)
    world.send_and_drain(first, [view(8, channel="of 8")])
    assert counts(verify_new(first, world.endpoints, world.spark)) == (True, 0, 0, {})
    apply(world, second_of(first, "channel"), Given(drop=frozenset({"channel"})))
    apply(world, first)
    report = verify_new(first, world.endpoints, world.spark)
    assert counts(report) == (True, 0, 1, {"channel": 1}), report.explanation
    assert "It started from the first message, because a column was dropped" in report.explanation
    for _ in range(3):  # contracts that take turns drop nothing
        apply(world, second_of(first, "channel"))
        apply(world, first)
    assert "no new batches since the last check" in verify_new(first, world.endpoints, world.spark).explanation


@pytest.mark.longest
def test_batches_keep_their_application_when_the_log_loses_it(world: World) -> None:
    pipeline = came_again(world, dropped=True)
    for _ in range(3):
        apply(world, second_of(pipeline, "channel"))
        apply(world, pipeline)
        world.send_and_drain(pipeline, [NEW[0]])
    log = {row["number"] for row in world.rows("select number from tidegate.contract_application")}
    asked = "select contract_application as number from tidegate.batch where pipeline = %s"
    assert not {row["number"] for row in world.rows(asked, pipeline.name)} <= log
    corrupt(world, pipeline, "channel")
    assert counts(verify(pipeline, world.endpoints, world.spark)) == (False, 7, 1, {"channel": 1})


@pytest.mark.longest
def test_a_replay_makes_its_batches_under_the_application_that_it_records(world: World) -> None:
    pipeline = came_again(world, dropped=True)
    execute(world, pipeline)
    for report in checked(world, pipeline):
        assert counts(report) == (True, 0, 0, {}), report.explanation
    corrupt(world, pipeline, "channel")
    for report in checked(world, pipeline):
        assert counts(report) == (False, 5, 0, {}), report.explanation


def test_a_renamed_column_of_an_unknown_application_is_named(world: World) -> None:
    before = views(world)
    after = renamed(before, "url", "address")
    apply(world, after, Given(breaking=True))
    for report in checked(world, after):
        assert counts(report) == (True, 0, 0, {}), report.explanation
    unattributed(world, after)
    corrupt(world, after, "address")
    for report in checked(world, after):
        assert counts(report) == (True, 0, 8, {"address": 8}), report.explanation


@pytest.mark.longest
def test_a_renamed_column_is_compared_once_the_contract_no_longer_names_the_rename(world: World) -> None:
    before = views(world)
    (batch,) = world.send_and_drain(before, [view(8)])
    after = renamed(before, "url", "address")
    apply(world, after, Given(breaking=True))
    later = without_renames(after)
    execute(world, later, str(batch.batch_id))  # records the contract; 8 messages keep their rows from the first one
    for report in checked(world, later):
        assert counts(report) == (True, 0, 0, {}), report.explanation
    corrupt(world, later, "address")
    for report in checked(world, later):
        assert counts(report) == (False, 9, 0, {}), report.explanation


@pytest.mark.slow
def test_a_renamed_column_is_compared_where_its_contract_named_no_rename_the_first_time(world: World) -> None:
    first = changed(views(world), "r1")
    apply(world, first)
    after = changed(renamed(first, "url", "address"), "r2")
    apply(world, without_renames(after), Given(fill={"address": "'none'"}))
    apply(world, first, Given(drop=frozenset({"address"})))
    apply(world, after, Given(breaking=True))
    for report in checked(world, after):
        assert counts(report) == (True, 0, 0, {}), report.explanation
    corrupt(world, after, "address")
    for report in checked(world, after):
        assert counts(report) == (False, 8, 0, {}), report.explanation


MUTANTS: dict[str, tuple[str, str, str]] = {
    "a batch names no application": ("write_batch", "max(number)", "max(number) FILTER (WHERE false)"),
    "a batch names the first one": ("write_batch", "max(number)", "min(number)"),
}


@pytest.mark.longest
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_batch_that_names_another_application_is_certified_in_no_more_columns(
    world: World, mutant: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    statement, part, instead = mutant
    assert queries()[statement].count(part) == 1
    monkeypatch.setitem(_statements(), statement, queries()[statement].replace(part, instead))
    pipeline = came_again(world, dropped=True)
    corrupt(world, pipeline, "channel")
    for report in checked(world, pipeline):
        assert counts(report) == (True, 0, 5, {"channel": 5}), report.explanation


def _statements() -> dict[str, Any]:
    found: Any = queries()
    return found


@pytest.mark.longest
def test_a_column_that_was_renamed_when_its_contract_comes_again_is_counted(world: World) -> None:
    """Rows from the first time have the value in the new column, and verify does not compare the old one."""
    first = changed(with_field(views(world)), "r1")
    apply(world, first)
    world.send_and_drain(first, [view(8, channel="of 8")])
    second = changed(renamed(first, "channel", "way"), "r2")
    apply(world, second, Given(breaking=True))
    world.send_and_drain(second, [view(9, channel="of 9")])
    apply(world, first)
    world.send_and_drain(first, NEW)
    for report in checked(world, first):
        assert report.not_compared.get("channel", 0) >= 1, report.explanation
        assert report.unverifiable >= 1
