"""Transforms of one run are isolated in Spark: each call has its own views, functions and options."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Barrier
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import BadInput
from platform_defs.verify.verify import verify
from tests.support.world import World, transfer

OWN = ["_partition", "_offset"]
LOOKUP = "debit_account string, found string"
Transform = Callable[[DataFrame], DataFrame]
Meet = Callable[[], object]


@pytest.fixture
def run(world: World) -> World:
    """Return the world with one session for all transforms, as in a run."""
    session = world.spark()
    return replace(world, spark=lambda: session)


def single_entry(world: World, transform: Transform) -> Pipeline:
    """Return a pipeline with one row per transfer, without batch rules and balances."""
    pipeline = world.new_pipeline(transform=transform)
    table = replace(pipeline.contract.row_table, batch_rules=())
    return replace(pipeline, contract=replace(pipeline.contract, tables=(table,)))


def rows(messages: DataFrame, account: Any) -> DataFrame:
    return messages.select("transfer_id", account.alias("account"), "amount", "currency", "occurred_at", *OWN)


def by_view(name: str, meet: Meet) -> Transform:
    """Look the account up in a view that has the same name for every transform."""

    def transform(messages: DataFrame) -> DataFrame:
        spark = messages.sparkSession
        spark.createDataFrame([("A00001", name)], LOOKUP).createOrReplaceTempView("lookup")
        meet()
        found = F.broadcast(spark.sql("select * from lookup"))
        return rows(messages.join(found, "debit_account", "left"), F.col("found"))

    return transform


def by_function(name: str, meet: Meet) -> Transform:
    """Call a function that every transform registers under the same name, in whatever session Spark provides."""

    def transform(messages: DataFrame) -> DataFrame:
        spark = SparkSession.builder.getOrCreate()
        spark.udf.register("label", lambda _: name, "string")
        messages.createOrReplaceTempView("messages")
        meet()
        return rows(spark.sql("select *, label(debit_account) as found from messages"), F.col("found"))

    return transform


def by_time_zone(name: str, meet: Meet) -> Transform:
    """Format a time in a zone that it sets: 11:00 in Zurich, 10:00 with the default."""

    def transform(messages: DataFrame) -> DataFrame:
        if name == "11":
            SparkSession.builder.config("spark.sql.session.timeZone", "Europe/Zurich").getOrCreate()
        meet()
        return rows(messages, F.date_format("occurred_at", "HH"))

    return transform


def by_ansi(name: str, meet: Meet) -> Transform:
    """Cast a text that is not a number: NULL if errors are turned off."""

    def transform(messages: DataFrame) -> DataFrame:
        if name == "none":
            active = SparkSession.getActiveSession()
            assert active is not None
            active.conf.set("spark.sql.ansi.enabled", "false")
        meet()
        number = F.coalesce(F.col("memo").cast("int").cast("string"), F.lit("none"))
        return rows(messages, number)

    return transform


@dataclass(frozen=True)
class Case:
    transform: Callable[[str, Meet], Transform]
    names: tuple[str, str]  # the accounts that the two pipelines must find
    dead: int = 0  # letters in the second


CASES = {
    "view": Case(by_view, ("Ada", "Bo")),
    "function": Case(by_function, ("Ada", "Bo")),
    "time zone": Case(by_time_zone, ("11", "10")),
    "errors": Case(by_ansi, ("none", "7"), dead=1),
}


def accounts(world: World, pipeline: Pipeline) -> set[str]:
    return {row["account"] for row in world.rows(f"select account from {pipeline.contract.row_table.name}")}


class Meeting:
    """A barrier at which the first call of each transform waits for the other's; later calls go past."""

    def __init__(self, parties: int) -> None:
        self._barrier, self._met = Barrier(parties), set[str]()

    def of(self, name: str) -> Meet:
        def meet() -> None:
            if name not in self._met:
                self._met.add(name)
                self._barrier.wait(120)

        return meet

    def again(self) -> None:
        self._met.clear()


@pytest.mark.longest
@pytest.mark.parametrize(
    "parties", [pytest.param(2, id="at once"), pytest.param(1, id="one after another", marks=pytest.mark.longest)]
)
@pytest.mark.parametrize("name", CASES)
def test_what_one_transform_does_in_spark_changes_no_row_of_another(run: World, name: str, parties: int) -> None:
    case, meeting = CASES[name], Meeting(parties)
    first, second = (single_entry(run, case.transform(one, meeting.of(one))) for one in case.names)
    memos = ["x", "7"] if case.dead else ["7", "7"]
    for pipeline in (first, second):
        run.send(pipeline, [transfer(n, memo=memo) for n, memo in enumerate(memos)], partition=0)
    with ThreadPoolExecutor(parties) as threads:
        _, batches = [*threads.map(run.drain, (first, second))]
    assert accounts(run, first) - {"7"} == {case.names[0]}
    assert accounts(run, second) == {case.names[1]}
    assert sum(batch.dead_letters for batch in batches) == case.dead
    meeting.again()
    with ThreadPoolExecutor(parties) as threads:
        reports = threads.map(lambda one: verify(one, run.endpoints, run.spark), (first, second))
        assert [report.explanation for report in reports if not report.ok] == []


@pytest.mark.slow
def test_nothing_that_a_transform_does_in_spark_is_there_in_its_next_batch(run: World) -> None:
    calls = list[int]()

    def once(messages: DataFrame) -> DataFrame:
        calls.append(len(calls))
        if len(calls) == 1:
            messages.sparkSession.conf.set("spark.sql.session.timeZone", "Europe/Zurich")
            messages.createOrReplaceTempView("left_over")
        assert messages.sparkSession.catalog.tableExists("left_over") == (len(calls) == 1)
        return rows(messages, F.date_format("occurred_at", "HH"))

    pipeline = single_entry(run, once)
    for hour in ("11", "10"):
        run.send_and_drain(pipeline, [transfer(len(calls))], partition=0)
        assert hour in accounts(run, pipeline)


def test_whatever_session_a_transform_asks_for_is_its_own(run: World) -> None:
    asked = list[bool]()

    def asking(messages: DataFrame) -> DataFrame:
        own: Any = messages.sparkSession
        found: list[Any] = [SparkSession.builder.getOrCreate(), SparkSession.getActiveSession(), SparkSession.active()]
        asked.extend(one._jsparkSession.equals(own._jsparkSession) for one in found)
        return rows(messages, F.col("debit_account"))

    pipeline = single_entry(run, asking)
    run.send_and_drain(pipeline, [transfer(0)])
    assert asked
    assert all(asked)
    context: Any = SparkSession.builder.getOrCreate()
    assert context._jsparkSession.equals(run.spark()._jsparkSession)  # pyright: ignore[reportAttributeAccessIssue]


def test_a_view_that_all_sessions_share_is_refused(run: World) -> None:
    def shared(messages: DataFrame) -> DataFrame:
        spark = messages.sparkSession
        spark.createDataFrame([("A00001", "Ada")], LOOKUP).createOrReplaceGlobalTempView("g")
        found = F.broadcast(spark.sql("select * from global_temp.g"))
        return rows(messages.join(found, "debit_account", "left"), F.col("found"))

    pipeline = single_entry(run, shared)
    run.send(pipeline, [transfer(0)])
    with pytest.raises(BadInput, match=r"global_temp.g, .*createOrReplaceTempView"):
        run.drain(pipeline)
