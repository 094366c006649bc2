"""What messages can do to a run: they cannot be read, the table refuses them, or the transform fails on them."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from platform_defs.contract.pipeline import Pipeline
from platform_defs.errors import BadInput, Halt
from tests.chaos.halts import acknowledge, halted
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.world import World, transfer, transfers

VOLUME = 50_000  # messages of the batches whose throughput is compared
OWN = ("_partition", "_offset")


@scenario(FaultClass.BAD_MESSAGES, representative=True)
def poison_above_the_limit(chaos: Chaos) -> Verdict:
    """The circuit breaks: a halt that counts and quotes them. Acknowledged, all of that batch is published, and no
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
        acknowledge(world, pipeline)
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
        acknowledge(world, pipeline)
        with suppress(Halt):
            world.drain(pipeline)
    return chaos.judge(pipeline, detail["latest_dead_letters"], "a halt after about as many as the contract's minimum")


@scenario(FaultClass.BAD_MESSAGES)
def poison_below_the_limit(chaos: Chaos) -> Verdict:
    """Dead letters, and the others are published; how much slower than clean messages is reported, and not judged."""
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


@scenario(FaultClass.ROW_REFUSED, representative=True)
def row_that_the_table_refuses(chaos: Chaos) -> Verdict:
    """A dead letter of stage publish. It leaves the sums too, and its siblings commit; on a deferred constraint as
    well.
    """
    world, pipeline = chaos.world, chaos.world.caught_up()
    table = pipeline.contract.row_table.name
    world.rows(f"ALTER TABLE {table} ADD CHECK (amount <> 666)")
    world.rows(f"ALTER TABLE {table} ADD UNIQUE (transfer_id, account) DEFERRABLE INITIALLY DEFERRED")
    values = [*transfers(30, start=8), transfer(40, "666.00"), *transfers(9, start=50)]
    values += [*transfers(1, start=3), *transfers(1, start=50)]  # of an earlier batch, and of this one
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
def sum_that_an_accumulate_refuses(chaos: Chaos) -> Verdict:
    """A halt: no single message can be blamed. Acknowledged but not fixed, it halts again; fixed, it continues."""
    world, pipeline = chaos.world, chaos.world.caught_up()
    balances = pipeline.contract.accumulates[0].name
    world.rows(f"ALTER TABLE {balances} ADD CONSTRAINT no_debts CHECK (balance > -100000)")
    world.send(pipeline, [transfer(500, "99999.00"), transfer(501, "99999.00")])
    detail = halted(world, pipeline, "accumulate_refused")
    assert set(detail) == {"error"}
    assert 'relation "balances" violates check constraint "no_debts"' in detail["error"]
    acknowledge(world, pipeline)
    assert halted(world, pipeline, "accumulate_refused") == detail
    world.rows(f"ALTER TABLE {balances} DROP CONSTRAINT no_debts")
    acknowledge(world, pipeline)
    (batch,) = world.drain(pipeline)
    assert (batch.messages, batch.dead_letters) == (2, 0)
    return chaos.judge(pipeline, 2, "halted until fixed")


@scenario(FaultClass.TRANSFORM_FAILS)
def message_on_which_the_transform_fails(chaos: Chaos) -> Verdict:
    """Found by bisection: a dead letter of stage transform, with the reason. Its neighbours commit."""
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


@scenario(FaultClass.TRANSFORM_READS, representative=True)
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


@scenario(FaultClass.TRANSFORM_READS)
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
def transform_that_does_not_read_its_input(chaos: Chaos) -> Verdict:
    """Spark runs no task for a filter that it folds away: the ranges are read all the same, and what is bad is kept."""
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
    """Three messages in ten are nonsense."""
    return [b"poison" if number % 10 < 3 else value for number, value in enumerate(transfers(count))]


def _single_entry(world: World, transform: Callable[[DataFrame], DataFrame] | None = None) -> Pipeline:
    """The bank pipeline with one row a transfer, without batch rules and balances."""
    pipeline = world.new_pipeline(transform=transform or _plain)
    table = replace(pipeline.contract.row_table, batch_rules=())
    return replace(pipeline, contract=replace(pipeline.contract, tables=(table,)))


def _plain(messages: DataFrame) -> DataFrame:
    account = F.col("debit_account").alias("account")
    return messages.select("transfer_id", account, "amount", "currency", "occurred_at", *OWN)


def _dividing(messages: DataFrame) -> DataFrame:
    """Fails on a transfer whose memo is 0."""
    share = (F.lit(100) / F.col("memo").cast("int")).cast("decimal(18,2)")
    return _plain(messages.withColumn("amount", share))


def _first_only(batches: Any) -> Any:
    yield next(iter(batches))
