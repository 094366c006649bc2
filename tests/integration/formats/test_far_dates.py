"""Dates that Postgres and Spark can store and Python cannot: infinity, and years outside of 1 to 9999."""

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.verify.verify import verify
from tests.integration.transforms.test_row_local import rows, single_entry
from tests.integration.verify.test_verify import customer, found, send_customers, view
from tests.support.world import World, transfer

FAR = {
    "infinity": "'infinity'",
    "-infinity": "'-infinity'",
    "10001-01-01": "'10001-01-01",
    "4000-01-01 BC": "'-3999-01-01",
}


def berlin(messages: DataFrame) -> DataFrame:
    made = rows(messages, F.col("debit_account"))
    return made.withColumn("occurred_at", F.from_utc_timestamp("occurred_at", "Europe/Berlin"))


@pytest.mark.slow
def test_a_transform_may_make_years_after_9999_and_another_value_beside_one_is_reported(world: World) -> None:
    pipeline = single_entry(world, berlin, partitions=1)
    world.send_and_drain(pipeline, [transfer(n, occurred_at="9999-12-31T23:59:59Z") for n in range(3)], partition=0)
    table = pipeline.contract.row_table.name
    years = world.rows(f"select extract(year from occurred_at at time zone 'UTC')::int as year from {table}")
    assert [row["year"] for row in years] == [10000] * 3
    exact = verify(pipeline, world.endpoints, world.spark)
    assert (exact.ok, exact.rows) == (True, 3)
    _set(world, pipeline, "account = 'x'", "_offset = 1")
    report = verify(pipeline, world.endpoints, world.spark)
    assert found(report) == {"wrong": 1}
    assert "account is 'x'" in report.samples[0].what
    assert "occurred_at" not in report.samples[0].what


@pytest.mark.slow
@pytest.mark.parametrize(("value", "message"), FAR.items())
def test_a_date_that_python_cannot_hold_is_a_wrong_value(world: World, value: str, message: str) -> None:
    views, customers = world.new_pipeline("append", partitions=1), world.new_pipeline("upsert", partitions=1)
    world.send(views, [view(n) for n in range(5)], partition=0)
    send_customers(world, customers, [(f"C{n}", customer(n)) for n in range(1, 6)])
    for pipeline, column, where in ((views, "viewed_at", "_offset = 3"), (customers, "signed_up", "_key = 'C3'")):
        world.drain(pipeline)
        _set(world, pipeline, f"{column} = '{value}'", where)
        report = verify(pipeline, world.endpoints, world.spark)
        assert found(report) == {"wrong": 1}
        assert f"{column} is {message}" in report.samples[0].what


def _set(world: World, pipeline: Pipeline, change: str, where: str) -> None:
    world.rows(f"update {pipeline.contract.row_table.name} set {change} where {where}")
