"""A transform whose rows depend on which messages are read together, or differ each time, publishes nothing."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Column
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.job import row_local
from platform_defs.engine.job.keep_nothing import Nowhere
from platform_defs.engine.task.task import TaskWork
from platform_defs.errors import BadInput, TransformFailed
from platform_defs.kafka.source import KafkaSource
from platform_defs.offsets import OffsetRange, PartitionView, TopicView
from platform_defs.stack.endpoints import Endpoints
from tests.support.world import Budget, World, transfer, transfers

OWN = ["_partition", "_offset"]
Transform = Callable[[DataFrame], DataFrame]


def rows(messages: DataFrame, account: Any) -> DataFrame:
    return messages.select("transfer_id", account.alias("account"), "amount", "currency", "occurred_at", *OWN)


def of_series(function: Callable[[Any], Any], column: str = "_offset", returns: str = "string") -> Transform:
    """Return a transform whose account is `function` of a pandas Series."""
    return lambda messages: rows(messages, F.pandas_udf(function, returns)(column).cast("string"))  # pyright: ignore


def single_entry(world: World, transform: Transform, **more: Any) -> Pipeline:
    """Return a pipeline with one row per transfer, without batch rules and balances."""
    pipeline = world.new_pipeline(transform=transform, **more)
    table = replace(pipeline.contract.row_table, batch_rules=())
    return replace(pipeline, contract=replace(pipeline.contract, tables=(table,)))


def by_counter(messages: DataFrame) -> DataFrame:
    seen = list[int]()

    def count(_: int) -> str:
        seen.append(1)
        return str(len(seen))

    return rows(messages, F.udf(count, "string")("_offset"))


def by_arrays(messages: DataFrame) -> DataFrame:
    def cumulative(offsets: pa.Array) -> pa.Array:  # pyright: ignore
        return pc.cumulative_sum(offsets)  # pyright: ignore

    running: Any = F.arrow_udf(cumulative, "bigint")  # pyright: ignore
    return rows(messages, running("_offset").cast("string"))


def by_filter(messages: DataFrame) -> DataFrame:
    above = F.pandas_udf(lambda s: s > s.mean(), "boolean")  # pyright: ignore
    return rows(messages.where(above("_offset")), F.col("debit_account"))


def encrypted(messages: DataFrame, *iv: Any) -> DataFrame:
    key, mode = F.lit("0000111122223333"), (F.lit("GCM"), F.lit("DEFAULT"))
    return rows(messages, F.base64(F.aes_encrypt(F.col("debit_account"), key, *(mode if iv else ()), *iv)))


def by_lower(messages: DataFrame) -> DataFrame:
    def lower(accounts: pa.Array) -> pa.Array:  # pyright: ignore
        return pc.utf8_lower(accounts)  # pyright: ignore

    function: Any = F.arrow_udf(lower, "string")  # pyright: ignore
    return rows(messages, function("debit_account"))


ACROSS: dict[str, Transform] = {
    "rank": of_series(lambda s: s.rank().astype(str)),
    "cumsum": of_series(lambda s: s.cumsum(), returns="bigint"),
    "shift": of_series(lambda s: s.shift().astype(str)),
    "less the mean": of_series(lambda s: s - s.mean(), returns="double"),
    "duplicated": of_series(lambda s: s.duplicated().astype(str), "debit_account"),
    "a running sum of Arrow": by_arrays,
    "a counter": by_counter,
}
EACH_TIME: dict[str, Transform] = {
    "a random IV": encrypted,
    "random": lambda messages: rows(messages, F.udf(lambda _: uuid4().hex, "string")("_offset")),
}
ROW_LOCAL: dict[str, Transform] = {
    "a Series": of_series(lambda s: s.str.lower(), "debit_account"),
    "an Array": by_lower,
    "a UDF": lambda m: rows(m, F.udf(lambda a: a.lower(), "string")("debit_account")),
    "an IV of its own": lambda m: encrypted(m, F.to_binary(F.lpad(F.hex("_offset"), 24, "0"), F.lit("hex"))),
    "several rows": lambda m: rows(m.withColumn("n", F.explode(F.array(*map(F.lit, "abc")))), F.col("n")),
}


@pytest.fixture(scope="module")
def sent(endpoints: Endpoints, spark: Callable[[], SparkSession]) -> tuple[World, Pipeline]:
    """Return a pipeline whose topic has 40 unread messages."""
    world = World(endpoints, spark)
    pipeline = single_entry(world, by_filter)
    world.send(pipeline, transfers(40))
    return world, pipeline


def refused(sent: tuple[World, Pipeline], transform: Transform) -> str:
    """Return the error with which the comparison of all 40 messages refuses the transform."""
    with pytest.raises(BadInput) as found:
        compared(sent, transform)
    return str(found.value)


def compared(sent: tuple[World, Pipeline], transform: Transform) -> int:
    """Return the number of messages with rows, of all 40."""
    world, pipeline = sent
    work = TaskWork(
        pipeline.contract,
        tuple(OffsetRange(pipeline.contract.topic, number, 0, 10) for number in range(4)),
        KafkaSource(world.endpoints.kafka_options()),
        Nowhere(),
    )
    return row_local.compare(world.spark(), replace(pipeline, transform=transform), work)


@pytest.mark.longest
@pytest.mark.parametrize("name", ACROSS)
def test_a_transform_that_looks_across_messages_is_refused(sent: tuple[World, Pipeline], name: str) -> None:
    message = refused(sent, ACROSS[name])
    assert re.search(r"\(account\): .* returns a different value of account for \S+\[\d\] at offset \d+ when", message)
    assert "alone in its Arrow batch" in message
    assert "accumulate table" in message


@pytest.mark.longest
@pytest.mark.parametrize("name", EACH_TIME)
def test_a_transform_whose_result_differs_each_time_is_refused(sent: tuple[World, Pipeline], name: str) -> None:
    message = refused(sent, EACH_TIME[name])
    assert re.search(r"returns a different value of \w+ for .* when it is called again .*your own IV", message)


@pytest.mark.slow
def test_nothing_is_published_of_a_transform_that_is_refused(sent: tuple[World, Pipeline]) -> None:
    world, pipeline = sent
    with pytest.raises(BadInput, match=r"returns a different number of rows for \S+\[\d\] at offset \d+ when"):
        world.drain(pipeline)
    assert world.table(pipeline) == []
    assert not any(world.position(pipeline).values())


@pytest.mark.longest
@pytest.mark.parametrize("name", ROW_LOCAL)
def test_a_row_local_transform_is_compared_once(world: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    compared = counting(monkeypatch)
    pipeline = single_entry(world, ROW_LOCAL[name])
    world.send_and_drain(pipeline, transfers(600))
    world.send_and_drain(pipeline, transfers(4))  # another run: the ledger remembers
    assert len(compared) == 1
    assert world.position(pipeline) == dict.fromkeys(range(4), 151)


def counting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the result of each comparison from now on."""
    compared, compare = list[int](), row_local.compare

    def noted(*arguments: Any) -> int:
        compared.append(compare(*arguments))
        return compared[-1]

    monkeypatch.setattr(row_local, "compare", noted)
    return compared


@pytest.mark.longest
def test_a_changed_transform_is_compared_with_its_first_batch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = counting(monkeypatch)
    pipeline = single_entry(world, ROW_LOCAL["a UDF"])
    world.send_and_drain(pipeline, transfers(8))
    world.send(pipeline, transfers(4, start=8))
    with pytest.raises(BadInput, match="returns a different value"):
        world.drain(replace(pipeline, transform=by_arrays))
    world.drain(replace(pipeline, transform=by_lower))
    assert compared == [8, 4]
    assert len(world.table(pipeline)) == 12


@pytest.mark.longest
def test_the_first_batch_with_two_messages_is_compared(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = counting(monkeypatch)
    pipeline = single_entry(world, ACROSS["less the mean"])
    world.send_and_drain(pipeline, transfers(1), partition=0)  # alone it is right in any batch
    assert (len(world.table(pipeline)), compared) == (1, [])
    world.send(pipeline, transfers(2, start=1), partition=0)
    with pytest.raises(BadInput, match="returns a different value"):
        world.drain(pipeline, Budget(batches=1))
    assert len(world.table(pipeline)) == 1


@pytest.mark.longest
def test_nothing_is_proven_by_offsets_without_rows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def ranked(messages: DataFrame) -> DataFrame:
        return ACROSS["rank"](messages.where("debit_account <> 'A00009'"))

    compared = counting(monkeypatch)
    pipeline = single_entry(world, ranked)
    producer = Producer({**world.endpoints.kafka_options(), "transactional.id": pipeline.name})
    producer.init_transactions()
    producer.begin_transaction()
    for message in transfers(600):
        producer.produce(pipeline.contract.topic, message, partition=0)
    producer.flush()
    producer.abort_transaction()
    world.drain(pipeline)
    world.send_and_drain(pipeline, [transfer(n, debit="A00009") for n in range(600)], partition=0)
    assert compared == [0, 0]
    world.send(pipeline, transfers(10), partition=0)
    with pytest.raises(BadInput, match="returns a different value"):
        world.drain(pipeline)
    assert world.table(pipeline) == []


@pytest.mark.longest
def test_of_floats_that_differ_in_the_last_digits_the_error_says_to_round(sent: tuple[World, Pipeline]) -> None:
    message = refused(sent, of_series(lambda s: (s + 1) * (1 + 1e-13 * len(s)), returns="double"))
    assert "Round the result in the transform" in message
    assert "accumulate" not in message
    message = refused(sent, of_series(lambda s: s + 1_700_000_000_000 + len(s), returns="bigint"))
    assert "accumulate" in message


@pytest.mark.longest
def test_of_large_messages_fewer_are_compared(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = counting(monkeypatch)
    pipeline = single_entry(world, ROW_LOCAL["a UDF"])
    unlimited = tuple(replace(field, rules=()) if field.name == "memo" else field for field in pipeline.contract.fields)
    pipeline = replace(pipeline, contract=replace(pipeline.contract, fields=unlimited))
    world.send_and_drain(pipeline, [transfer(n, memo="x" * 800_000) for n in range(50)], partition=0)
    assert 2 < compared[0] <= 10
    assert len(compared) == 1


@pytest.mark.longest
def test_rows_of_more_than_spark_may_collect_are_compared(sent: tuple[World, Pipeline]) -> None:
    """40 messages give 2.4 GB of rows; spark.driver.maxResultSize is 1 GB."""

    def exploding(messages: DataFrame) -> DataFrame:
        many = messages.withColumn("n", F.explode(F.sequence(F.lit(1), F.lit(30_000))))
        return rows(many, F.concat(F.repeat("debit_account", 150), "n"))

    assert compared(sent, exploding) == 40


@pytest.mark.longest
def test_bytes_that_differ_each_time_are_shown_in_hexadecimal(world: World) -> None:
    def random_bytes(messages: DataFrame) -> DataFrame:
        return messages.select(F.udf(lambda _: uuid4().bytes, "binary")("_offset").alias("account"), *OWN)

    pipeline = single_entry(world, random_bytes)
    table = replace(pipeline.contract.row_table, columns=(Column("account", column_type("bytes"), required=True),))
    pipeline = replace(pipeline, contract=replace(pipeline.contract, tables=(table,)))
    world.send(pipeline, transfers(4))
    with pytest.raises(
        BadInput, match=r"a different value of account for .* called again \([0-9A-F]{32}, then [0-9A-F]{32}\)"
    ):
        world.drain(pipeline)


@pytest.mark.slow
def test_values_that_are_the_same_in_other_rows_are_a_difference(sent: tuple[World, Pipeline]) -> None:
    def shuffled(messages: DataFrame) -> DataFrame:
        turned = F.pandas_udf(lambda s: (s * 0 + len(s)) % 2, "bigint")  # pyright: ignore
        pairs = F.array(
            F.struct(F.lit("a").alias("x"), F.col("turn").alias("y")),
            F.struct(F.lit("b").alias("x"), (1 - F.col("turn")).alias("y")),
        )
        two = messages.withColumn("turn", turned("_offset")).withColumn("two", F.explode(pairs))
        return rows(two.withColumn("currency", F.col("two.y").cast("string")), F.col("two.x"))

    assert re.search(r"returns different rows for \S+\[\d\] at offset \d+ when", refused(sent, shuffled))


@pytest.mark.longest
def test_a_message_before_the_batch_on_which_the_transform_fails_is_not_read_again(
    world: World,
) -> None:
    def dividing(messages: DataFrame) -> DataFrame:
        return rows(messages, (F.lit(100) / F.col("memo").cast("int")).cast("string"))

    pipeline = single_entry(world, dividing)
    (first,) = world.send_and_drain(pipeline, [transfer(n, memo="0" if n == 3 else "4") for n in range(8)], partition=0)
    world.send(pipeline, [transfer(n, memo="5") for n in range(4)], partition=0)
    world.rows("update tidegate.pipeline set row_local = null where name = %s", pipeline.name)
    (second,) = world.drain(pipeline)
    assert (first.rows, first.dead_letters, second.rows, second.dead_letters) == (7, 1, 4, 0)
    assert world.rows("select row_local from tidegate.pipeline where name = %s", pipeline.name)[0]["row_local"]


@pytest.mark.longest
def test_a_function_that_fails_on_a_message_alone_is_refused(world: World) -> None:
    pipeline = single_entry(world, of_series(lambda s: s.map(lambda _: str(s.iloc[1])), "debit_account"))
    world.send(pipeline, transfers(8), partition=0)
    with pytest.raises(TransformFailed, match=r"transfers.py: the transform fails on a sample.*out-of-bounds"):
        world.drain(pipeline)
    assert world.table(pipeline) == []


def test_a_sample_is_the_end_of_the_batch_and_of_a_small_one_what_is_before_it() -> None:
    def of(*ranges: tuple[int, int, int], lows: dict[int, int] | None = None) -> list[tuple[int, int, int]]:
        batch = [OffsetRange("t", *one) for one in ranges]
        held = {number: PartitionView(low, 10**6) for number, low in (lows or {}).items()}
        found = row_local.sample(batch, TopicView("t", "c", "i", held) if lows else None)
        return [(one.partition, one.from_offset, one.until_offset) for one in found]

    assert of((0, 0, 5000), (0, 5000, 9000)) == [(0, 8000, 9000)]
    assert of((0, 0, 10), (1, 700, 1700)) == [(1, 1200, 1700), (0, 0, 10)]
    assert of((0, 900, 901), (1, 50, 60), lows={0: 0, 1: 55}) == [(1, 55, 60), (0, 401, 901)]
    assert of((0, 900, 901), lows={0: 901}) == []
    many = of(*((number, 0, 100 + number) for number in range(20)))
    assert many == [(number, 0, 100 + number) for number in range(19, 11, -1)]
