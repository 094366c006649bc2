"""Messages that break a run: they cannot be read, the table refuses them, or the transform fails on them."""

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from platform_defs.contract.model.contract import Column, Contract, Table
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.odcs_writer import text
from platform_defs.contract.reader.odcs import load
from platform_defs.errors import BadInput, Halt
from tests.chaos.halts import halted, resolve_halt
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.world import World, transfer, transfers

VOLUME = 50_000  # messages in the batches whose throughput is compared
OWN = ("_partition", "_offset")


@scenario(FaultClass.BAD_MESSAGES)
def poison_above_the_limit(chaos: Chaos) -> Verdict:
    """The circuit breaks: a halt that counts and quotes them. After `resolve`, all of that batch is published, and no
    other.
    """
    world, pipeline = chaos.world, chaos.world.new_pipeline(dead_letter_share=0.2, dead_letter_minimum=20)
    world.send(pipeline, transfers(100))
    world.drain(pipeline)
    for round_ in (1, 2):
        world.send(pipeline, _poisoned(100))
        detail = halted(world, pipeline, "too_many_dead_letters")
        assert (detail["messages"], detail["dead_letters"]) == (100, 30)
        assert detail["by_reason"] == {"InvalidJson": 30}
        assert "poison" in detail["samples"][0]["message"]
        resolve_halt(world, pipeline)
        (batch,) = world.drain(pipeline)
        assert (batch.batch_id, batch.rows, batch.dead_letters) == (detail["batch_id"], 140, 30)
        assert len(world.dead_letters(pipeline)) == 30 * round_
    world.send(pipeline, transfers(100, start=100))
    return chaos.judge(pipeline, 60, "two halts, settled; then clean messages again")


@scenario(FaultClass.BAD_MESSAGES)
def topic_turns_to_garbage_in_batches_of_ten(chaos: Chaos) -> Verdict:
    """No batch has many dead letters; the latest messages together have: a halt soon after the minimum."""
    world = chaos.world
    pipeline = world.new_pipeline(dead_letter_share=0.5, dead_letter_minimum=40, batch_messages=10)
    world.send(pipeline, transfers(120))
    world.drain(pipeline)
    world.send(pipeline, [b"garbage"] * 120)
    detail = halted(world, pipeline, "too_many_dead_letters", moves=True)
    assert detail["dead_letters"] <= 10
    assert 40 < detail["latest_dead_letters"] <= 50
    assert detail["latest_messages"] == 80
    while world.ledger.status(pipeline.name).state == "halted":
        resolve_halt(world, pipeline)
        with suppress(Halt):
            world.drain(pipeline)
    return chaos.judge(pipeline, detail["latest_dead_letters"], "a halt after about as many as the contract's minimum")


@scenario(FaultClass.BAD_MESSAGES)
def poison_below_the_limit(chaos: Chaos) -> Verdict:
    """Bad messages become dead letters, the others are published; the slowdown is reported, not validated."""
    world, seconds = chaos.world, list[float]()
    for values in (transfers(VOLUME), _poisoned(VOLUME)):
        pipeline = world.new_pipeline()
        world.send(pipeline, values)
        started = time.monotonic()
        (batch,) = world.drain(pipeline)
        seconds.append(time.monotonic() - started)
    assert (batch.rows, batch.dead_letters) == (VOLUME * 14 // 10, VOLUME * 3 // 10)
    report = f"dead letters; {seconds[1] / seconds[0]:.1f} times the time of clean messages"
    return chaos.judge(pipeline, batch.dead_letters, report)


@scenario(FaultClass.ROW_REFUSED)
def row_that_the_table_refuses(chaos: Chaos) -> Verdict:
    """The message is a dead letter of stage publish, also on a deferred constraint. It leaves the sums too, and the
    other rows commit.
    """
    world, pipeline = chaos.world, chaos.world.caught_up()
    table = pipeline.contract.row_table.name
    world.rows(f"ALTER TABLE {table} ADD CHECK (amount <> 666)")
    world.rows(f"ALTER TABLE {table} ADD UNIQUE (transfer_id, account) DEFERRABLE INITIALLY DEFERRED")
    values = [*transfers(30, start=8), transfer(40, "666.00"), *transfers(9, start=50)]
    values += [*transfers(1, start=3), *transfers(1, start=50)]  # from an earlier batch, and from this one
    places = world.send(pipeline, values, partition=1)
    (batch,) = world.drain(pipeline)
    assert (batch.messages, batch.rows, batch.dead_letters) == (42, 78, 3)
    letters = world.dead_letters(pipeline)
    assert [(d["partition"], d["offset"]) for d in letters] == [places[30], *places[40:]]
    assert [d["error_class"] for d in letters] == ["CheckViolation", "UniqueViolation", "UniqueViolation"]
    assert {d["stage"] for d in letters} == {"publish"}
    sums = f"select sum(balance) as balance, sum(postings) as postings from {pipeline.contract.tables[1].name}"
    assert world.rows(sums) == [{"balance": 0, "postings": 94}]
    return chaos.judge(pipeline, len(letters), "dead letters of stage publish")


@scenario(FaultClass.ROW_REFUSED)
def unique_value_that_goes_from_row_to_row(chaos: Chaos) -> Verdict:
    """An upsert with another unique constraint writes them in the order of the offsets, in one batch. A collision there
    is a dead letter, and so is any other row that the table refuses.
    """
    world, pipeline = chaos.world, chaos.world.new_pipeline("upsert")
    named = (("C1", "one"), ("C2", "two"))
    _send_named(world, pipeline, named)
    world.drain(pipeline)
    table = pipeline.contract.row_table.name
    world.rows(f"ALTER TABLE {table} ADD UNIQUE (name), ADD CHECK (name <> 'refused')")
    _send_named(world, pipeline, (("C2", "three"), ("C1", "two"), ("C3", "two"), ("C1", None), ("C4", "two")))
    _send_named(world, pipeline, (("C5", "refused"), ("C2", "four"), ("C3", "three"), ("C4", "four"), ("C4", "five")))
    (batch,) = world.drain(pipeline)
    letters = {letter["offset"]: letter["error_class"] for letter in world.dead_letters(pipeline)}
    assert letters == {4: "UniqueViolation", 7: "CheckViolation", 10: "UniqueViolation"}
    rows = world.rows(f'SELECT _key, name FROM {table} ORDER BY _key COLLATE "C"')
    assert [(row["_key"], row["name"]) for row in rows] == [("C2", "four"), ("C3", "three"), ("C4", "five")]
    return chaos.judge(pipeline, batch.dead_letters, "in the order of the offsets")


def _send_named(world: World, pipeline: Pipeline, named: Sequence[tuple[str, str | None]]) -> None:
    """Send customers by key, in this order, to partition 0; without a name, a tombstone."""
    keys = [key.encode() for key, _ in named]
    world.send(pipeline, [_customer(key, name) for key, name in named], keys=keys, partition=0)


def _customer(key: str, name: str | None) -> bytes | None:
    fields = {"customer_id": key, "name": name, "tier": "gold", "signed_up": "2026-11-01"}
    return json.dumps(fields).encode() if name is not None else None


@scenario(FaultClass.ROW_REFUSED)
def sum_that_an_accumulate_refuses(chaos: Chaos) -> Verdict:
    """A halt: no single message can be blamed. Acknowledged but not fixed, it halts again; fixed, it continues."""
    world, pipeline = chaos.world, chaos.world.caught_up()
    balances = pipeline.contract.accumulates[0].name
    world.rows(f"ALTER TABLE {balances} ADD CONSTRAINT no_debts CHECK (balance > -100000)")
    world.send(pipeline, [transfer(500, "99999.00"), transfer(501, "99999.00")])
    detail = halted(world, pipeline, "accumulate_refused")
    assert set(detail) == {"error"}
    assert 'relation "balances" violates check constraint "no_debts"' in detail["error"]
    resolve_halt(world, pipeline)
    assert halted(world, pipeline, "accumulate_refused") == detail
    world.rows(f"ALTER TABLE {balances} DROP CONSTRAINT no_debts")
    resolve_halt(world, pipeline)
    (batch,) = world.drain(pipeline)
    assert (batch.messages, batch.dead_letters) == (2, 0)
    return chaos.judge(pipeline, 2, "halted until fixed")


@scenario(FaultClass.TRANSFORM_FAILS)
def message_on_which_the_transform_fails(chaos: Chaos) -> Verdict:
    """Found by bisection: a dead letter of stage transform, with the reason. The other messages commit."""
    world, pipeline = chaos.world, _single_entry(chaos.world, _dividing)
    values = [transfer(n, memo="0" if n == 5 else "4") for n in range(8)]
    places = world.send(pipeline, values, partition=2)
    (batch,) = world.drain(pipeline)
    assert (batch.messages, batch.rows, batch.dead_letters) == (8, 7, 1)
    (letter,) = world.dead_letters(pipeline)
    assert (letter["partition"], letter["offset"], letter["value"]) == (*places[5], values[5])
    assert (letter["stage"], letter["error_class"]) == ("transform", "TransformFailed")
    assert "DIVIDE_BY_ZERO" in letter["error_message"]
    refused = {check.name: check.observed for check in batch.checks}["row_is_accepted"]
    assert (refused["failed"], refused["samples"][0]["offset"]) == (1, 5)
    return chaos.judge(pipeline, 1, "found, and set aside")


@scenario(FaultClass.TRANSFORM_READS)
def transform_that_reads_its_input_twice(chaos: Chaos) -> Verdict:
    """Refused by name before anything is read."""
    return _refused_transforms(
        chaos,
        {
            "Union": lambda m: _plain(m).union(_plain(m)),
            "Join": lambda m: _plain(m).join(m.select("memo", *OWN), [*OWN]).drop("memo"),
            "Join ": lambda m: _plain(m).join(F.broadcast(m.select(*OWN)), [*OWN]),
            "Sort": lambda m: _plain(m).orderBy("_offset"),
            "Repartition": lambda m: _plain(m).repartition(3),
        },
    )


@scenario(FaultClass.TRANSFORM_READS, representative=True)
def transform_that_does_not_read_to_the_end(chaos: Chaos) -> Verdict:
    """Refused by name before anything is read."""
    return _refused_transforms(
        chaos,
        {
            "GlobalLimit": lambda m: _plain(m).limit(3),
            "Offset": lambda m: _plain(m).offset(3),
            "MapInArrow": lambda m: _plain(m).mapInArrow(_first_only, _plain(m).schema),
        },
    )


@scenario(FaultClass.TRANSFORM_READS)
def transform_that_looks_at_its_neighbours(chaos: Chaos) -> Verdict:
    """Spark's plan does not show it: refused once its rows of a sample differ, and before anything is published."""
    world, pipeline = chaos.world, _single_entry(chaos.world)
    world.send(pipeline, transfers(40))
    for transform, why in ((_ranked, "alone in its Arrow batch"), (_encrypted, "called again")):
        with pytest.raises(BadInput, match=rf"returns a different value of account for \S+ at offset \d+ .*{why}"):
            world.drain(replace(pipeline, transform=transform))
        assert world.rows("select 1 from tidegate.batch where pipeline = %s", pipeline.name) == []
    assert set(world.position(pipeline).values()) == {0}
    return chaos.judge(pipeline, 2, "refused, by the column and the offset that differ")


@scenario(FaultClass.TRANSFORM_READS)
def transforms_that_name_the_same_view(chaos: Chaos) -> Verdict:
    """Two runs at once register their lookups before either reads one: each reads its own."""
    world, both = chaos.world, Barrier(2)

    def looking_up(account: str) -> Callable[[DataFrame], DataFrame]:
        met = list[bool]()

        def transform(messages: DataFrame) -> DataFrame:
            spark = messages.sparkSession
            spark.createDataFrame([("EUR", account)], "currency string, of string").createOrReplaceTempView("lookup")
            if not met:
                met.append(True)
                both.wait(120)
            found = F.broadcast(spark.sql("select * from lookup"))
            return _plain(messages.join(found, "currency").withColumn("debit_account", F.col("of")))

        return transform

    pipelines = [_single_entry(world, looking_up(account)) for account in ("A00001", "A00002")]
    session = world.spark()
    run = replace(world, spark=lambda: session)  # as in one run
    for pipeline in pipelines:
        world.send(pipeline, transfers(40))
    with ThreadPoolExecutor(2) as threads:
        assert [len(batches) for batches in threads.map(run.drain, pipelines)] == [1, 1]
    for pipeline, account in zip(pipelines, ("A00001", "A00002"), strict=True):
        found = world.rows(f"select distinct account from {pipeline.contract.row_table.name}")
        assert found == [{"account": account}]
    verdicts = [chaos.judge(pipeline, 2, "each read its own") for pipeline in pipelines]
    return next((verdict for verdict in verdicts if not verdict.kept), verdicts[-1])


@scenario(FaultClass.TRANSFORM_READS)
def transform_that_does_not_read_its_input(chaos: Chaos) -> Verdict:
    """Spark runs no task for a filter that it folds away: the ranges are still read, and bad messages are kept."""
    world, never = chaos.world, ("false", "1 = 0", "cast(null as boolean)")
    verdicts: list[Verdict] = []
    for condition in never:
        pipeline = _single_entry(world, lambda messages, c=condition: _plain(messages).where(F.expr(c)))
        world.send(pipeline, [*transfers(7), b"hello"])
        (batch,) = world.drain(pipeline)
        assert (batch.messages, batch.rows, batch.dead_letters) == (8, 0, 1)
        assert world.dead_letters(pipeline)[0]["value"] == b"hello"
        ranges = world.rows("select messages from tidegate.batch_range where batch_id = %s", batch.batch_id)
        assert [row["messages"] for row in ranges] == [2, 2, 2, 2]
        verdicts.append(chaos.judge(pipeline, len(never), "read to the end all the same"))
    return verdicts[-1]


def _refused_transforms(chaos: Chaos, transforms: dict[str, Callable[[DataFrame], DataFrame]]) -> Verdict:
    world, pipeline = chaos.world, _single_entry(chaos.world)
    world.send(pipeline, transfers(40))
    for name, transform in transforms.items():
        with pytest.raises(BadInput, match=f"transform uses {name.strip()}"):
            world.drain(replace(pipeline, transform=transform))
        assert world.rows("select 1 from tidegate.batch where pipeline = %s", pipeline.name) == []
    assert set(world.position(pipeline).values()) == {0}
    return chaos.judge(pipeline, len(transforms), "refused by name")


def _poisoned(count: int) -> list[bytes]:
    """Return messages of which three in ten are nonsense."""
    return [b"poison" if number % 10 < 3 else value for number, value in enumerate(transfers(count))]


@scenario(FaultClass.ROW_REFUSED)
def group_without_a_value_to_sum(chaos: Chaos) -> Verdict:
    """Its sum is NULL until a message has one, wherever batches are cut; a contract that requires it is refused."""
    world, tables = chaos.world, list[Any]()
    nothing = transfer(1).replace(b'"10.00"', b"null")
    for batches in ([[nothing], [transfer(2)], [nothing]], [[nothing, transfer(2), nothing]], [[nothing]]):
        shipped = world.new_pipeline()
        with pytest.raises(BadInput, match="sum of amount is NULL for a group in which no row has a value"):
            load(Path("bank.odcs.yaml"), text(_optional_amount(shipped.contract, sum_required=True)))
        pipeline = replace(shipped, contract=_optional_amount(shipped.contract, sum_required=False))
        for values in batches:
            world.send(pipeline, values, partition=0)
            assert [batch.dead_letters for batch in world.drain(pipeline)] == [0]
        tables.append(world.table(pipeline, 1))
        verdict = chaos.judge(pipeline, len(batches), "summed without a halt")
    assert tables[0] == tables[1]
    assert {row[1] for row in tables[2]} == {"None"}
    return verdict


def _optional_amount(contract: Contract, *, sum_required: bool) -> Contract:
    """Return the bank's contract with an optional amount."""
    fields = tuple(
        replace(item, required=False, rules=item.rules[1:]) if item.name == "amount" else item
        for item in contract.fields
    )
    rows, sums = contract.tables
    rows = replace(rows, columns=_required_but(rows, "amount"), batch_rules=())
    sums = sums if sum_required else replace(sums, columns=_required_but(sums, "balance"))
    return replace(contract, fields=fields, tables=(rows, sums))


def _required_but(table: Table, name: str) -> tuple[Column, ...]:
    return tuple(replace(column, required=column.required and column.name != name) for column in table.columns)


def _single_entry(world: World, transform: Callable[[DataFrame], DataFrame] | None = None) -> Pipeline:
    """Return the bank pipeline with one row per transfer, without batch rules and balances."""
    pipeline = world.new_pipeline(transform=transform or _plain)
    table = replace(pipeline.contract.row_table, batch_rules=())
    return replace(pipeline, contract=replace(pipeline.contract, tables=(table,)))


def _plain(messages: DataFrame) -> DataFrame:
    account = F.col("debit_account").alias("account")
    return messages.select("transfer_id", account, "amount", "currency", "occurred_at", *OWN)


def _ranked(messages: DataFrame) -> DataFrame:
    rank: Any = F.pandas_udf(lambda s: s.rank().astype(str), "string")  # pyright: ignore
    return _plain(messages.withColumn("debit_account", rank("_offset")))


def _encrypted(messages: DataFrame) -> DataFrame:
    """Encrypt the account with an IV of Spark's choice."""
    account = F.base64(F.aes_encrypt("debit_account", F.lit("0000111122223333")))
    return _plain(messages.withColumn("debit_account", account))


def _dividing(messages: DataFrame) -> DataFrame:
    """Fail on a transfer whose memo is 0."""
    share = (F.lit(100) / F.col("memo").cast("int")).cast("decimal(18,2)")
    return _plain(messages.withColumn("amount", share))


def _first_only(batches: Any) -> Any:
    yield next(iter(batches))
