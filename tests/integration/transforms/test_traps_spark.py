"""Spark's known traps for a transform that looks beyond one message, and for tasks that fail."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.interfaces.source_and_staging import Coverage
from platform_defs.engine.job.stage import one_attempt_each
from platform_defs.engine.job.transform_rules import check_row_local
from platform_defs.errors import BadInput, Halt, MessagesSuspected, StagingLost, TransformBroken
from platform_defs.offsets import OffsetRange
from tests.support.waiting import within
from tests.support.world import World, transfer, transfers

Transform = Callable[[DataFrame], DataFrame]
OWN = ["_partition", "_offset"]
SCHEMA = "account string, amount decimal(18,2), _partition int, _offset bigint"


@pytest.fixture
def messages(spark: Callable[[], SparkSession]) -> Iterator[DataFrame]:
    """Yield a stand-in for the decoded messages: planned upon, never run."""
    yield spark().range(0, 1, 1, 1).mapInArrow(_as_it_is, SCHEMA)
    spark().catalog.clearCache()


def _as_it_is(batches: Any) -> Any:
    yield from batches


def lookup(messages: DataFrame) -> DataFrame:
    return messages.sparkSession.createDataFrame([("A00001", "Ada")], "account string, name string")


def doubled(messages: DataFrame) -> DataFrame:
    return messages.alias("a").join(F.broadcast(messages.alias("b")), "account")


def counted(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:  # pyright: ignore
    yield from batches


def kept(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:  # pyright: ignore
    yield from batches


def of_series(messages: DataFrame) -> DataFrame:
    function: Any = F.pandas_udf(counted, "string")  # pyright: ignore
    return messages.withColumn("x", F.upper(function("account")))


def of_arrays(messages: DataFrame) -> DataFrame:
    function: Any = F.arrow_udf(kept, "string")  # pyright: ignore
    return messages.where(F.coalesce(function("account"), F.lit("")) != "")


class Numbered:
    """A table function: its object sees all messages of a task."""

    def __init__(self) -> None:
        self._seen = 0

    def eval(self, _: Any) -> Iterator[tuple[int]]:
        self._seen += 1
        yield (self._seen,)


def by_sql(messages: DataFrame) -> DataFrame:
    messages.createOrReplaceTempView("m")
    messages.sparkSession.udtf.register("numbered", F.udtf(Numbered, returnType="n int"))  # pyright: ignore
    return messages.sparkSession.sql("select * from m, lateral numbered(account)")


# ── Refused transforms, and the messages ─────────────────────────────────────────────────────────────────────────────

OPERATORS: dict[str, tuple[Transform, str]] = {
    "groupBy": (lambda m: m.groupBy("account").agg(F.sum("amount")), "uses Aggregate.*accumulate table"),
    "agg": (lambda m: m.agg(F.max("_offset")), "uses Aggregate.*accumulate table"),
    "pivot": (lambda m: m.groupBy("_offset").pivot("account", ["A"]).count(), "uses Aggregate"),
    "applyInPandas": (lambda m: m.groupBy("account").applyInPandas(lambda p: p, SCHEMA), "uses FlatMapGroupsInPandas"),
    "window": (
        lambda m: m.withColumn("n", F.row_number().over(Window.partitionBy("account").orderBy("_offset"))),
        "uses Window.*downstream asset",
    ),
    "orderBy": (lambda m: m.orderBy("_offset"), "uses Sort.*sort when you read them"),
    "sortWithinPartitions": (lambda m: m.sortWithinPartitions("_offset"), "uses Sort"),
    "distinct": (lambda m: m.distinct(), "uses Deduplicate.*upsert"),
    "dropDuplicates": (lambda m: m.dropDuplicates(["account"]), "uses Deduplicate.*upsert"),
    "limit": (lambda m: m.limit(3), "uses GlobalLimit.*use a filter"),
    "offset": (lambda m: m.offset(3), "uses Offset.*use a filter"),
    "sample": (lambda m: m.sample(fraction=0.5, seed=1), "uses Sample.*use a filter"),
    "repartition": (lambda m: m.repartition(3), "uses Repartition,.*do not repartition"),
    "repartition by": (lambda m: m.repartition("account"), "uses RepartitionByExpression.*do not repartition"),
    "coalesce": (lambda m: m.coalesce(1), "uses Repartition,.*do not repartition"),
    "union with itself": (lambda m: m.union(m), "uses Union.*explode"),
    "intersect": (lambda m: m.intersect(m), "uses Intersect"),
    "self join": (lambda m: m.alias("a").join(m.alias("b"), "account"), r"uses Join \(inner\).*broadcast\(lookup\)"),
    "self join, broadcast": (doubled, r"uses Join \(inner\)"),
    "join without broadcast": (lambda m: m.join(lookup(m), "account"), r"uses Join \(inner\).*broadcast\(lookup\)"),
    "messages on the right": (lambda m: F.broadcast(lookup(m)).join(m, "account"), "uses Join.*messages.join"),
    "messages broadcast": (lambda m: lookup(m).join(F.broadcast(m), "account"), "uses Join.*messages.join"),
    "right join": (lambda m: m.join(F.broadcast(lookup(m)), "account", "right"), r"uses Join \(right outer\)"),
    "full join": (lambda m: m.join(F.broadcast(lookup(m)), "account", "full"), r"uses Join \(full outer\)"),
    "lateral join": (lambda m: m.lateralJoin(m.sparkSession.range(3)), "uses LateralJoin"),
    "mapInPandas": (lambda m: m.mapInPandas(_as_it_is, SCHEMA), "uses MapInPandas.*UDF"),
    "mapInArrow": (lambda m: m.mapInArrow(_as_it_is, SCHEMA), "uses MapInArrow.*UDF"),
    "pandas_udf over an iterator": (of_series, "uses counted, a function over an Iterator.*Series.*functools.cache"),
    "arrow_udf over an iterator": (of_arrays, "uses kept, a function over an Iterator"),
    "a table function": (by_sql, "uses LateralJoin"),
    "scalar subquery": (lambda m: m.withColumn("x", lookup(m).select(F.max("name")).scalar()), "uses a subquery"),
    "exists": (lambda m: m.where(lookup(m).exists()), "uses a subquery"),
    "in": (lambda m: m.where(F.col("account").isin(lookup(m).select("account"))), "uses a subquery"),
    "another DataFrame": (lambda m: m.sparkSession.range(1), "not built from the messages it is given"),
    "through an RDD": (
        lambda m: m.sparkSession.createDataFrame(m.rdd, m.schema),
        "not built from the messages it is given",
    ),
    "cache": (lambda m: m.cache(), r"caches the messages.*\.cache\(\)"),
    "persist": (lambda m: m.where("amount > 0").persist().select("account", *OWN), "caches the messages"),
    "an offset of its own": (lambda m: m.withColumn("_offset", F.col("_offset") + 1), r"computes _offset.*pass it"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_a_transform_that_looks_beyond_one_message_is_refused_by_name_and_told_what_to_do(
    messages: DataFrame, name: str
) -> None:
    transform, text = OPERATORS[name]
    with pytest.raises(BadInput, match=text) as refusal:
        check_row_local(messages, transform(messages), where="transform.py")
    assert re.match(r"transform.py( \(_offset\))?: the transform ", str(refusal.value))


VARYING = [
    "rand()",
    "randn()",
    "uuid()",
    "shuffle(array(1, 2))",
    "monotonically_increasing_id()",
    "spark_partition_id()",
    "input_file_name()",
    "now()",
    "current_timestamp()",
    "current_date()",
    "curdate()",
    "current_time()",
    "localtimestamp()",
    "unix_timestamp()",
    "date_add(now(), 1)",
    "user()",
]


@pytest.mark.slow
@pytest.mark.parametrize("expression", VARYING)
def test_an_expression_that_gives_another_result_each_time_is_refused(messages: DataFrame, expression: str) -> None:
    for result in (messages.withColumn("x", F.expr(expression)), messages.where(F.expr(f"{expression} is not null"))):
        with pytest.raises(BadInput, match=r"whose result differs each time.*Derive the value from the message"):
            check_row_local(messages, result, where="transform.py")


def test_a_function_said_to_be_nondeterministic_is_refused(messages: DataFrame) -> None:
    guess = F.udf(lambda account: account, "string").asNondeterministic()
    with pytest.raises(BadInput, match="whose result differs each time"):
        check_row_local(messages, messages.select(guess("account"), *OWN), where="transform.py")


@pytest.mark.parametrize("column", ["rand()", "current_timestamp()"])
def test_a_lookup_that_is_another_one_each_time_is_refused(messages: DataFrame, column: str) -> None:
    varying = F.broadcast(lookup(messages).withColumn("x", F.expr(column)))
    with pytest.raises(BadInput, match="joins a lookup that differs each time"):
        check_row_local(messages, messages.join(varying, "account"), where="transform.py")


ALLOWED: dict[str, Transform] = {
    "select": lambda m: m.select(F.upper("account").alias("account"), *OWN),
    "filter": lambda m: m.where("amount > 0 and account like 'A%'"),
    "dropna": lambda m: m.dropna(),
    "fillna": lambda m: m.fillna("x"),
    "explode": lambda m: m.withColumn("n", F.explode(F.sequence(F.lit(1), F.lit(3)))),
    "inline": lambda m: m.select(F.inline(F.array(F.struct(F.lit(1)))), *OWN),
    "stack": lambda m: m.selectExpr("stack(2, 'a', account, 'b', account) as (k, v)", *OWN),
    "unpivot": lambda m: m.unpivot([*OWN], ["account"], "k", "v"),
    "inner lookup": lambda m: m.join(F.broadcast(lookup(m)), "account"),
    "left lookup": lambda m: m.join(lookup(m).hint("broadcast"), "account", "left"),
    "cached lookup": lambda m: m.join(F.broadcast(lookup(m).cache()), "account"),
    "udf": lambda m: m.withColumn("x", F.udf(lambda account: account, "string")("account")),
    "a view": lambda m: (m.createOrReplaceTempView("m"), m.sparkSession.sql("select * from m where amount > 0"))[1],
    "time of the message": lambda m: m.withColumn("t", F.date_trunc("hour", F.timestamp_seconds("_offset"))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ALLOWED)
def test_a_row_local_transform_is_let_through(messages: DataFrame, name: str) -> None:
    check_row_local(messages, ALLOWED[name](messages), where="transform.py")


# ── Results and effects of a transform in a batch ────────────────────────────────────────────────────────────────────


def _plain(messages: DataFrame) -> DataFrame:
    """Return one row per transfer."""
    return messages.select(
        "transfer_id", F.col("debit_account").alias("account"), "amount", "currency", "occurred_at", *OWN
    )


WRONG: dict[str, tuple[Any, str]] = {
    "drops _offset": (lambda m: _plain(m).drop("_offset"), r"returns no column _offset \(pass it through"),
    "drops a column": (lambda m: _plain(m).drop("currency"), "returns no column currency; it returns transfer_id"),
    "changes a type": (
        lambda m: _plain(m).withColumn("amount", F.col("amount") * 2),
        r'returns amount as decimal\(20,2\).*add \.cast\("decimal\(18,2\)"\)',
    ),
    "adds a column": (lambda m: _plain(m).withColumn("extra", F.lit(1)), "returns extra, which the contract's table"),
    "adds one twice": (lambda m: _plain(m).select("*", "amount"), "returns amount more than once"),
    "returns nothing": (lambda _: None, "returns NoneType; it must return a DataFrame"),
    "asks for a column there is not": (lambda m: m.select("amuont"), "raises AnalysisException.*amuont"),
    "raises": (lambda m: {}[m], "raises KeyError"),
    "counts": (lambda m: _plain(m).where(F.lit(m.count()) > 0), "runs an action on the messages"),
}


@pytest.mark.longest
def test_a_transform_that_returns_or_does_the_wrong_thing_is_refused_and_told_which(world: World) -> None:
    pipeline = _single_entry(world)
    world.send(pipeline, transfers(4))
    for name, (transform, message) in WRONG.items():
        with pytest.raises(BadInput, match=message) as refusal:
            world.drain(replace(pipeline, transform=transform))
        assert "assets/bank/transfers.py" in str(refusal.value), name
    assert world.table(pipeline) == []
    status = world.ledger.status(pipeline.name)
    assert status is not None
    assert status.backed_off
    assert [batch.rows for batch in world.drain(pipeline)] == [4]


def test_an_upsert_takes_no_transform(world: World) -> None:
    pipeline = world.new_pipeline("upsert", transform=lambda m: m.where("tier = 'gold'"))
    world.send(pipeline, [b"{}"], keys=[b"C1"])
    with pytest.raises(BadInput, match="an upsert table has no transform"):
        world.drain(pipeline)


@pytest.mark.longest
def test_filters_explodes_lookups_and_functions_come_out_right(world: World) -> None:
    def enriched(messages: DataFrame) -> DataFrame:
        names = messages.sparkSession.createDataFrame(
            [("A00001", "Ada"), ("A00002", "Bo")], "account string, name string"
        )
        shout = F.udf(lambda name: f"{name}!", "string")
        twice = _plain(messages.where("amount >= 2")).withColumn("n", F.explode(F.sequence(F.lit(1), F.lit(2))))
        named = twice.join(F.broadcast(names), "account", "left")
        account = F.when(F.col("name").isNotNull(), F.concat(shout("name"), F.col("n")))
        return named.withColumn("account", F.coalesce(account, "account")).drop("name", "n")

    pipeline = _single_entry(world, enriched)
    (batch,) = world.send_and_drain(pipeline, [transfer(n, f"{n + 1}.00", debit=f"A0000{n + 1}") for n in range(4)])
    assert (batch.messages, batch.rows) == (4, 6)
    found = world.rows(f"select account, amount from {pipeline.contract.row_table.name} order by 2, 1")
    expected = [("Bo!1", 2), ("Bo!2", 2), ("A00003", 3), ("A00003", 3), ("A00004", 4), ("A00004", 4)]
    assert [(row["account"], row["amount"]) for row in found] == [(name, Decimal(n)) for name, n in expected]


# ── Messages and tasks that fail ─────────────────────────────────────────────────────────────────────────────────────


def _dividing(messages: DataFrame) -> DataFrame:
    """Fail on a transfer whose memo is 0."""
    share = (F.lit(100) / F.col("memo").cast("int")).cast("decimal(18,2)")
    return _plain(messages.withColumn("amount", share))


@pytest.mark.longest
def test_a_message_alone_on_which_the_transform_fails_commits_and_all_of_a_few_is_a_halt(world: World) -> None:
    pipeline = _single_entry(world, _dividing)
    (batch,) = world.send_and_drain(pipeline, [transfer(0, memo="0")])
    assert (batch.messages, batch.rows, batch.dead_letters) == (1, 0, 1)
    before = world.position(pipeline)
    world.send(pipeline, [transfer(n, memo="0") for n in range(2)])
    with pytest.raises(
        Halt, match=r"the transform failed on every message that reached it \(2\).*Nothing was published"
    ):
        world.drain(pipeline)
    assert world.position(pipeline) == before
    assert len(world.dead_letters(pipeline)) == 1


@pytest.mark.longest
def test_a_transform_that_fails_on_every_message_says_so_soon_and_publishes_nothing(world: World) -> None:
    pipeline = _single_entry(world, _dividing)
    world.send(pipeline, [transfer(n, memo="0") for n in range(200)])
    with (
        within(20),
        pytest.raises(
            TransformBroken, match=r"that it was tried on \(5 messages\).*DIVIDE_BY_ZERO.*Nothing was published"
        ),
    ):
        world.drain(pipeline)
    assert world.table(pipeline) == []
    assert world.dead_letters(pipeline) == []
    assert not any(world.position(pipeline).values())


@pytest.mark.slow
@pytest.mark.longest
def test_a_function_that_raises_is_quoted_to_the_person_who_reads_the_dead_letter(world: World) -> None:
    world.spark()  # a UDF is made of one
    parse = F.udf(lambda memo: str(int(memo)), "string")
    pipeline = _single_entry(world, lambda messages: _plain(messages.withColumn("debit_account", parse("memo"))))
    world.send(pipeline, [transfer(n, memo="seven" if n in (5, 6, 9) else "7") for n in range(12)])
    with pytest.raises(MessagesSuspected, match=r"3 messages .*'seven'.*Nothing was published"):
        world.drain(pipeline)
    world.suspected_long_ago(pipeline)
    (batch,) = world.drain(pipeline)
    assert (batch.rows, batch.dead_letters) == (9, 3)
    for letter in world.dead_letters(pipeline):
        assert "ValueError: invalid literal for int() with base 10: 'seven'" in letter["error_message"]


def test_two_complete_attempts_that_saw_different_things_are_not_believed() -> None:
    whole, rest = OffsetRange("t", 0, 0, 10), OffsetRange("t", 0, 10, 20)
    first = Coverage(whole, uuid4(), 10, 9, 1, 0, "", 0)
    same, other = replace(first, attempt=uuid4()), Coverage(rest, uuid4(), 9, 9, 0, 0, "11", 0)
    assert one_attempt_each([whole, rest], [first, same, other]) == (first, other)
    for change in ({"messages": 9}, {"rows": 8}, {"dead_letters": 2}, {"gap_digest": "3"}, {"unknown_fields": 1}):
        disagreeing = replace(first, attempt=uuid4(), **change)
        with pytest.raises(StagingLost, match=r"two complete attempts at .* disagree"):
            one_attempt_each([whole, rest], [first, disagreeing, other])
    with pytest.raises(StagingLost, match="no task read"):
        one_attempt_each([whole, rest], [first, same])


def _single_entry(world: World, transform: Transform = _plain) -> Pipeline:
    """Return the bank pipeline with one row per transfer and without batch rules and balances."""
    pipeline = world.new_pipeline(transform=transform)
    table = replace(pipeline.contract.row_table, batch_rules=())
    return replace(pipeline, contract=replace(pipeline.contract, tables=(table,)))
