"""Minima and maxima of accumulates, including those of text, are verified, in each window of an incremental check."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from platform_defs.contract.model.column_types import INTEGER, STRING, TIMESTAMP
from platform_defs.contract.model.contract import Aggregate, Column, Table
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.commit import row_writing
from platform_defs.verify.compare.report import Report
from platform_defs.verify.incremental import verify_new
from platform_defs.verify.source import snapshot as snapshots
from platform_defs.verify.source.snapshot import VERIFY, take_snapshot
from platform_defs.verify.verify import verify
from tests.integration.verify.test_verify import found, view
from tests.support.world import World

AGGREGATES = {
    "shortest": (INTEGER, Aggregate("shortest", "min", "duration_ms")),
    "latest": (TIMESTAMP, Aggregate("latest", "max", "viewed_at")),
    "first_referrer": (STRING, Aggregate("first_referrer", "min", "referrer")),
    "last_url": (STRING, Aggregate("last_url", "max", "url")),
}


def filled(world: World) -> Pipeline:
    """Return views by visitor in three batches; each visitor's extremes are in the first, the second or the third."""
    pipeline = world.new_pipeline("append", transform=None)
    columns = [Column("visitor", STRING, required=True)]
    columns += [Column(name, of, required=False) for name, (of, _) in AGGREGATES.items()]
    made = Table(
        f"{pipeline.name}.visitors",
        "accumulate",
        tuple(columns),
        group_by=("visitor",),
        aggregates=tuple(item for _, item in AGGREGATES.values()),
    )
    rows = replace(pipeline.contract.row_table, batch_rules=())
    pipeline = replace(pipeline, contract=replace(pipeline.contract, tables=(rows, made)))
    for turn in range(3):
        world.send_and_drain(pipeline, [_view(n, turn) for n in range(6)])
    return pipeline


def _view(number: int, turn: int) -> bytes:
    visitor, far = number % 3, (number % 3 == turn) * 5
    return view(
        10 * number + 5 - far,
        event_id=f"e{number}-{turn}",
        visitor=f"v{visitor}",
        url=f"https://example.org/{'Zaé'[number % 3]}{turn + far}",
        referrer=None if number > 3 else f"{'aBé'[visitor]}{5 - far}",
        viewed_at=f"2026-11-01T1{far}:00:0{number}Z",
    )


def in_windows(pipeline: Pipeline, world: World, seconds: float = 60.0) -> Report:
    return verify_new(pipeline, world.endpoints, window=1, seconds=seconds)


@contextmanager
def changed(world: World, pipeline: Pipeline, column: str, value: str) -> Iterator[None]:
    """Give visitor v0, whose extremes are from the first batch, another value in a column while the block runs."""
    table = pipeline.contract.accumulates[0].name
    (kept,) = world.rows(f"SELECT {column} AS value FROM {table} WHERE visitor = 'v0'")
    world.rows(f"UPDATE {table} SET {column} = {value} WHERE visitor = 'v0'")
    yield
    world.rows(f"UPDATE {table} SET {column} = %s WHERE visitor = 'v0'", kept["value"])


WRONG = {  # worse than the rows of the first batch, and better than all others
    "shortest": "3",
    "latest": "'2026-11-01T14:00:00Z'",
    "first_referrer": "'a3'",
    "last_url": "'https://example.org/Z4'",
}


@pytest.mark.longest
def test_a_wrong_minimum_or_maximum_is_found_by_each_check_until_it_is_right(world: World) -> None:
    pipeline = filled(world)
    for column, value in WRONG.items():
        world.rows(f"DELETE FROM tidegate.verified WHERE pipeline = '{pipeline.name}'")
        with changed(world, pipeline, column, value):
            for _ in range(2):
                report = in_windows(pipeline, world)
                assert found(report) == {"wrong": 1}
                assert column in report.samples[0].what
            assert not in_windows(pipeline, world, seconds=0.0).ok, "a check that has time for one window only"
        report = in_windows(pipeline, world)
        assert report.ok, report
        assert report.new is not None
        assert (report.new.snapshots, report.messages, report.new.left) == (3, 18, 0)


@pytest.mark.longest
def test_minima_and_maxima_of_text_are_those_of_the_rows_key_by_key(world: World) -> None:
    pipeline = filled(world)
    exact = verify(pipeline, world.endpoints)
    assert (exact.ok, exact.keys) == (True, 3), exact
    for column, value in [*WRONG.items(), ("first_referrer", "'0'"), ("last_url", "NULL")]:
        with changed(world, pipeline, column, value):
            report = verify(pipeline, world.endpoints)
        assert found(report) == {"wrong": 1}
        assert report.samples[0].what.startswith(f"{pipeline.name}.visitors (visitor 'v0'): {column} is ")


@pytest.mark.slow
def test_texts_are_sorted_by_postgres_in_portions_and_are_in_no_statement(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = filled(world)
    (table,) = pipeline.contract.accumulates
    texts = [f"{letter}{number * 7 % 50} secret" for number in range(50) for letter in "aBéZ-"]
    with take_snapshot(world.endpoints.postgres_url, pipeline.contract) as snapshot:
        wanted = snapshot.in_order(table, "last_url", texts)
        assert (sorted(wanted), snapshot.in_order(table, "last_url", [])) == (sorted(texts), [])
        for characters in (1, 100, 1_000):
            monkeypatch.setattr(snapshots, "PORTION", characters)
            assert snapshot.in_order(table, "last_url", texts) == wanted
        statements = world.rows("SELECT query FROM pg_stat_activity WHERE application_name = %s", VERIFY)
        assert statements
        assert not any("secret" in str(row["query"]) for row in statements)


MUTANTS = {
    "the last batch's": "{0} = excluded.{0}",
    "the first batch's": "{0} = t.{0}",
    "the other way round": "{0} = CASE WHEN t.{0} < excluded.{0} THEN excluded.{0} ELSE t.{0} END",
}


@pytest.mark.slow
@pytest.mark.parametrize("merge", MUTANTS.values(), ids=MUTANTS)
def test_a_merge_that_keeps_the_wrong_minimum_of_texts_is_found(
    world: World, merge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(row_writing._MERGE, "min", merge)
    pipeline = filled(world)
    for report in (verify(pipeline, world.endpoints), in_windows(pipeline, world), in_windows(pipeline, world)):
        assert not report.ok
        assert any("first_referrer" in sample.what for sample in report.samples)
