"""Messages on which the transform now fails are counted, and end no comparison."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from platform_defs.contract.model.column_types import STRING
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import BadInput, SparkAway
from platform_defs.verify.compare.expected import Expected
from platform_defs.verify.compare.report import Report
from platform_defs.verify.incremental import verify_new
from platform_defs.verify.source.contract_versions import ContractVersions
from platform_defs.verify.source.partitions import Pinned
from platform_defs.verify.verify import start_spark, verify
from tests.integration.verify.test_verify import view
from tests.support.commands import run, tidegate
from tests.support.world import World
from tests.unit.verify.test_expected import contract

AWAY = Path("/nonexistent")  # replaced by a test: while it exists, the server that `calling` calls is unavailable
FAILING = set[int]()  # durations that `flapping` fails on


def failing_on(*durations: int):
    """Return a transform that fails on views of these durations, and leaves others unchanged."""

    def transform(messages: DataFrame) -> DataFrame:
        bad = F.col("duration_ms").isin(*durations)
        checked = F.when(bad, F.raise_error(F.lit("no such duration"))).otherwise(F.col("duration_ms"))
        return messages.withColumn("duration_ms", checked.cast("bigint"))

    return transform


def unchanged(messages: DataFrame) -> DataFrame:
    return messages


def calling(messages: DataFrame) -> DataFrame:
    """Call a server that may be unavailable."""
    return failing_on(*range(200))(messages) if AWAY.exists() else messages


def flapping(messages: DataFrame) -> DataFrame:
    """Fail on FAILING, and on 150 until it is tried alone."""
    made = failing_on(*FAILING)(messages) if FAILING else messages
    if 150 in FAILING and [row["duration_ms"] for row in messages.collect()] == [150]:
        FAILING.discard(150)
    return made


def misspelt(messages: DataFrame) -> DataFrame:
    return messages.select("no_such_column")


def filled(world: World, transform=unchanged) -> Pipeline:
    pipeline = world.new_pipeline("append", transform=transform, partitions=1)
    world.send_and_drain(pipeline, [view(n) for n in range(200)], partition=0)
    return pipeline


def now(pipeline: Pipeline, transform) -> Pipeline:
    return Pipeline(pipeline.contract, transform)


def counts(report: Report) -> tuple[bool, int, int, int]:
    return report.ok, report.messages, report.rows, report.unverifiable


@pytest.mark.longest
def test_messages_that_a_changed_transform_fails_on_are_unverifiable_and_all_others_are_compared(world: World) -> None:
    pipeline = filled(world)
    changed = now(pipeline, failing_on(7, 150))
    for report in (
        verify(changed, world.endpoints, world.spark),
        verify_new(changed, world.endpoints, world.spark),
    ):
        assert counts(report) == (True, 200, 198, 2), report
        assert "the transform no longer accepts them" in report.explanation
    world.rows(f"UPDATE {pipeline.contract.row_table.name} SET visitor = 'eve' WHERE _offset = 8 RETURNING 1")
    world.rows(f"DELETE FROM {pipeline.contract.row_table.name} WHERE _offset IN (7, 149) RETURNING 1")
    report = verify(changed, world.endpoints, world.spark)
    assert (report.wrong, report.lost, report.unverifiable) == (1, 1, 2), "offset 7 cannot be compared, and may be lost"


@pytest.mark.longest
def test_where_a_changed_transform_fails_on_all_messages_all_are_unverifiable(world: World) -> None:
    changed = now(filled(world), failing_on(*range(200)))
    assert counts(verify(changed, world.endpoints, world.spark)) == (True, 200, 0, 200)


@pytest.mark.longest
def test_where_the_same_transform_fails_on_all_messages_nothing_is_compared_nor_certified(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = filled(world, calling)
    monkeypatch.setitem(globals(), "AWAY", tmp_path)
    with pytest.raises(BadInput, match=r"fails on partition 0, offsets 0 to \d+, even on a retry.*no such duration"):
        verify_new(pipeline, world.endpoints, world.spark)
    monkeypatch.undo()
    assert counts(verify_new(pipeline, world.endpoints, world.spark)) == (True, 200, 200, 0)


@pytest.mark.longest
@pytest.mark.parametrize(("failing", "certified"), [({7, 150}, False), ({150}, True)])
def test_what_the_same_transform_fails_on_is_tried_again_and_then_nothing_is_certified(
    world: World, failing: set[int], certified: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """150 works when it is tried again, and 7 does not until the outage is over."""
    pipeline = filled(world, flapping)
    monkeypatch.setitem(globals(), "FAILING", failing)
    if not certified:
        with pytest.raises(BadInput, match=r"fails on partition 0, offsets 7 to 7,.*no such duration"):
            verify_new(pipeline, world.endpoints, world.spark)
        monkeypatch.undo()
    assert counts(verify_new(pipeline, world.endpoints, world.spark)) == (True, 200, 200, 0)


@pytest.mark.slow
def test_a_transform_that_cannot_run_is_no_fault_of_messages(world: World) -> None:
    with pytest.raises(BadInput, match=r"the transform raises AnalysisException.*no_such_column"):
        verify(now(filled(world), misspelt), world.endpoints, world.spark)


def spark_dies_in_the_transform() -> None:
    """Run in a separate process, whose Spark is killed."""
    session = start_spark()
    jvm: Any = session.sparkContext._jvm
    pid = jvm.java.lang.ProcessHandle.current().pid()

    def killing(messages: DataFrame) -> DataFrame:
        return messages.withColumn("a", F.udf(lambda _: str(os.kill(pid, signal.SIGKILL)), "string")("a"))

    one = contract({"a": ("string", "a")})
    versions = ContractVersions(one, {None: one}, {"a": STRING})
    expected = Expected(Pipeline(one, killing), lambda: session, versions, Pinned(), other_transform=True, hides=False)
    with pytest.raises(SparkAway, match="run the command again"):
        expected.rows(0, np.array([7]), pa.table({"a": ["x"]}))


@pytest.mark.longest
def test_where_spark_ends_nothing_is_counted_as_unverifiable() -> None:
    module = spark_dies_in_the_transform.__module__
    called = run(f"from {module} import spark_dies_in_the_transform", "spark_dies_in_the_transform()")
    assert called.code == 0, called.stderr


@pytest.mark.slow
def test_what_could_not_be_compared_has_an_exit_code_and_a_document_of_its_own() -> None:
    called = tidegate("verify", "nothing", "-o", "json")
    assert (called.code, called.document["ok"], called.document["pipeline"]) == (3, None, "nothing")
    assert "there is no pipeline 'nothing'" in called.document["error"]
    assert called.stderr.strip() == called.document["error"]
