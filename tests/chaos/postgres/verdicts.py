"""Errors that look like something else: each is blamed on its real cause, and nothing is retried without end."""

import json
import os
import random
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import Halt, LedgerAway, MessagesSuspected, NotReproduced, TransformBroken
from platform_defs.errors.error_policy import TRIES
from tests.chaos.halts import halted, resolve_halt
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.kafka.logs import transaction
from tests.support.world import World, transfer, transfers

OWN = ("_partition", "_offset")


@scenario(FaultClass.ROW_REFUSED)
def key_too_long_for_an_index(chaos: Chaos) -> Verdict:
    """A key of 8 KB is too long for any Postgres index: a dead letter of stage publish. The other customers go on."""
    world, pipeline = chaos.world, chaos.world.new_pipeline("upsert")
    long = random.Random(5).randbytes(4_000).hex().encode()
    places = world.send(pipeline, map(_customer, range(4)), keys=[b"C1", b"C2", long, b"C4"], partition=0)
    (batch,) = world.drain(pipeline)
    assert (batch.messages, batch.dead_letters) == (4, 1)
    (letter,) = world.dead_letters(pipeline)
    assert (letter["partition"], letter["offset"]) == places[2]
    assert (letter["stage"], letter["error_class"]) == ("publish", "ProgramLimitExceeded")
    return chaos.judge(pipeline, 1, "a dead letter")


@scenario(FaultClass.ROW_REFUSED, representative=True)
def function_that_raises(chaos: Chaos) -> Verdict:
    """A function in a CHECK raises for one row: that message is a dead letter. The other messages commit."""
    world, pipeline = chaos.world, chaos.world.caught_up()
    refuse_rows(world, pipeline, "P0001", "abs(amount) = 666")
    places = world.send(
        pipeline, [*transfers(4, start=8), transfer(40, "666.00"), *transfers(4, start=50)], partition=1
    )
    (batch,) = world.drain(pipeline)
    assert (batch.messages, batch.dead_letters) == (9, 1)
    (letter,) = world.dead_letters(pipeline)
    assert (letter["partition"], letter["offset"]) == places[4]
    assert (letter["stage"], letter["error_class"]) == ("publish", "RaiseException")
    return chaos.judge(pipeline, 1, "a dead letter")


@scenario(FaultClass.TRANSFORM_FAILS)
def NUL_made_by_a_transform(chaos: Chaos) -> Verdict:
    """COPY refuses the row: found by bisection, COPY included, and a dead letter."""

    def with_nul(messages: DataFrame) -> DataFrame:
        made = F.when(F.col("memo") == "nul", F.concat("transfer_id", F.lit("\0"))).otherwise(F.col("transfer_id"))
        return plain(messages.withColumn("transfer_id", made))

    pipeline = single_entry(chaos.world, with_nul)
    letter = _one_refused(chaos.world, pipeline, "nul")
    assert (letter["stage"], letter["error_class"]) == ("transform", "CharacterNotInRepertoire")
    assert "Postgres cannot store the row of this message" in letter["error_message"]
    return chaos.judge(pipeline, 1, "a dead letter")


@scenario(FaultClass.TRANSFORM_FAILS, representative=True)
def error_text_quoted_in_a_value(chaos: Chaos) -> Verdict:
    """A cast fails on a value that reads like one of our errors: a dead letter, and no system is away."""
    pipeline = single_entry(
        chaos.world,
        lambda messages: plain(messages.withColumn("amount", F.col("memo").cast("int").cast("decimal(18,2)"))),
    )
    letter = _one_refused(chaos.world, pipeline, "\nplatform_defs.errors.LedgerAway: x", good="7")
    assert (letter["stage"], letter["error_class"]) == ("transform", "TransformFailed")
    assert "CAST_INVALID_INPUT" in letter["error_message"]
    return chaos.judge(pipeline, 1, "a dead letter")


@scenario(FaultClass.TRANSFORM_FAILS)
def message_that_kills_the_worker(chaos: Chaos) -> Verdict:
    """Blamed only once it has killed it for two minutes, while another message passed: then a dead letter."""
    pipeline = single_entry(chaos.world, _calling(_dying))
    letter = _one_refused(chaos.world, pipeline, "die", suspected=True)
    assert (letter["stage"], letter["error_class"]) == ("transform", "TransformFailed")
    return chaos.judge(pipeline, 1, "a dead letter")


@scenario(FaultClass.LOOKUP_AWAY, representative=True)
def lookup_that_is_away(chaos: Chaos) -> Verdict:
    """With a batch of ten, and of one, no message is blamed. The pipeline backs off, and once it is back all go on."""
    world = chaos.world
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder, "there")
        pipeline = single_entry(world, _calling(_looking_up(str(there))))
        for count, start in ((10, 0), (1, 10)):
            there.unlink(missing_ok=True)
            world.send(pipeline, transfers(count, start=start), partition=0)
            with pytest.raises(TransformBroken, match=r"ConnectionError: the lookup is away.*a service that it calls"):
                world.drain(pipeline)
            assert world.dead_letters(pipeline) == []
            assert failures(world, pipeline) == (1, 1)
            there.touch()
            (batch,) = world.drain(pipeline)
            assert (batch.messages, batch.dead_letters) == (count, 0)
        return chaos.judge(pipeline, 2, "no dead letter")


@scenario(FaultClass.LOOKUP_AWAY)
def lookup_that_comes_back_during_the_search(chaos: Chaos) -> Verdict:
    """The lookup fails on one message in the search, but not when that message is tried again: nothing is blamed."""
    world = chaos.world
    with tempfile.TemporaryDirectory() as folder:
        pipeline = single_entry(world, _calling(_away_for_calls(folder, (*range(4), *range(5, 25)))))
        world.send(pipeline, transfers(10), partition=0)
        for _ in range(5):
            with suppress(NotReproduced, TransformBroken):
                world.drain(pipeline)
        assert len(list(Path(folder).iterdir())) >= 12, "the lookup was never away"
        assert world.dead_letters(pipeline) == []
        return chaos.judge(pipeline, 1, "no dead letter")


@scenario(FaultClass.LOOKUP_AWAY)
def lookup_that_is_away_for_some_keys(chaos: Chaos) -> Verdict:
    """The others pass, and still no message is blamed at once: the lookup is back before the time is over."""
    world = chaos.world
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder, "there")
        pipeline = single_entry(world, _calling(_looking_up(str(there), ("in the shard",))))
        world.send(pipeline, [transfer(n, memo="in the shard" if n in (3, 7) else "fine") for n in range(10)])
        for tries in (1, 2):
            with pytest.raises(MessagesSuspected, match=r"2 messages .*ConnectionError: the lookup is away"):
                world.drain(pipeline)
            assert world.dead_letters(pipeline) == []
            assert failures(world, pipeline) == (tries, tries)  # a transform that fails at random ends with a halt
        there.touch()
        (batch,) = world.drain(pipeline)
        assert (batch.messages, batch.dead_letters) == (10, 0)
        return chaos.judge(pipeline, 2, "no dead letter")


@scenario(FaultClass.LOOKUP_AWAY)
def lookup_with_a_wrong_value(chaos: Chaos) -> Verdict:
    """Spark reports a value at fault, though not the message's: with a batch of one, no message is blamed."""
    world = chaos.world
    with tempfile.TemporaryDirectory() as folder:
        rates = Path(folder, "rates.csv")
        pipeline = single_entry(world, _exchanging(rates))
        rates.write_text("currency,rate\nEUR,1\n")
        world.send(pipeline, transfers(8), partition=0)
        world.drain(pipeline)
        rates.write_text("currency,rate\nEUR,one\n")
        with transaction(world, pipeline, transfers(1, start=8)) as producer:  # its marker is an offset, no message
            producer.commit_transaction()
        with pytest.raises(TransformBroken, match=r"the transform failed on every message that it was tried on.*'one'"):
            world.drain(pipeline)
        assert world.dead_letters(pipeline) == []
        rates.write_text("currency,rate\nEUR,1\n")
        (batch,) = world.drain(pipeline)
        assert (batch.messages, batch.dead_letters) == (1, 0)
        return chaos.judge(pipeline, 1, "no dead letter", messages=9)


@scenario(FaultClass.KEEPS_FAILING)
def batch_that_keeps_failing(chaos: Chaos) -> Verdict:
    """After ten failures that no unavailable system explains: a halt that quotes the last one. Resolved, it goes on."""
    world, pipeline = chaos.world, chaos.world.caught_up()
    refuse_rows(world, pipeline, "57014", "true")
    world.send(pipeline, transfers(8, start=8))
    for tries in range(1, TRIES):
        if 2 < tries < TRIES - 1:  # the ledger counts; not each of them has to run
            world.rows("update tidegate.pipeline set batch_failures = %s where name = %s", tries, pipeline.name)
            continue
        with pytest.raises(LedgerAway, match="SQLSTATE 57014"):
            world.drain(pipeline)
        assert failures(world, pipeline)[1] == tries
    detail = halted(world, pipeline, "keeps_failing")
    assert (detail["tries"], detail["error_class"]) == (TRIES, "LedgerAway")
    assert "refused on purpose" in detail["error"]
    with pytest.raises(Halt, match="keeps_failing"):
        world.drain(pipeline)
    resolve_halt(world, pipeline)
    assert failures(world, pipeline) == (0, 0)
    world.rows(f"alter table {pipeline.contract.row_table.name} drop constraint refused")
    return chaos.judge(pipeline, TRIES, "a halt, settled")


def failures(world: World, pipeline: Pipeline) -> tuple[int, int]:
    """Return the failures in a row of the pipeline, and of its pending batch."""
    (row,) = world.rows("select failed_tries, batch_failures from tidegate.pipeline where name = %s", pipeline.name)
    return row["failed_tries"], row["batch_failures"]


def refuse_rows(world: World, pipeline: Pipeline, sqlstate: str, condition: str) -> None:
    """Add a CHECK to the row table whose function raises this SQLSTATE for each amount that meets `condition`."""
    table = pipeline.contract.row_table.name
    function = f"{table.partition('.')[0]}.refuse"
    world.rows(
        f"create function {function}(amount numeric) returns boolean language plpgsql as $$ begin if {condition} then"
        f" raise 'refused on purpose' using errcode = '{sqlstate}'; end if; return true; end $$"
    )
    world.rows(f"alter table {table} add constraint refused check ({function}(amount)) not valid")


def single_entry(world: World, transform: Callable[[DataFrame], DataFrame]) -> Pipeline:
    """Return the bank pipeline with one row per transfer, without batch rules and balances."""
    pipeline = world.new_pipeline(transform=transform)
    table = replace(pipeline.contract.row_table, batch_rules=())
    return replace(pipeline, contract=replace(pipeline.contract, tables=(table,)))


def plain(messages: DataFrame) -> DataFrame:
    account = F.col("debit_account").alias("account")
    return messages.select("transfer_id", account, "amount", "currency", "occurred_at", *OWN)


def _one_refused(
    world: World, pipeline: Pipeline, memo: str, good: str = "fine", *, suspected: bool = False
) -> dict[str, Any]:
    """Assert that, of eight messages, only the one with this memo becomes a dead letter, if `suspected` after a while;
    return it.
    """
    values = [transfer(n, memo=memo if n == 5 else good) for n in range(8)]
    places = world.send(pipeline, values, partition=2)
    if suspected:
        with pytest.raises(MessagesSuspected):
            world.drain(pipeline)
        world.suspected_long_ago(pipeline)
    (batch,) = world.drain(pipeline)
    assert (batch.messages, batch.rows, batch.dead_letters) == (8, 7, 1)
    (letter,) = world.dead_letters(pipeline)
    assert (letter["partition"], letter["offset"], letter["value"]) == (*places[5], values[5])
    return letter


def _calling(function: Callable[[str], str]) -> Callable[[DataFrame], DataFrame]:
    """Return a transform that calls `function` with the memo of each message."""
    return lambda messages: plain(messages.withColumn("transfer_id", F.udf(function, "string")("memo")))


def _exchanging(rates: Path) -> Callable[[DataFrame], DataFrame]:
    """Return a transform that multiplies amounts by the rate of their currency in a CSV file."""

    def exchange(messages: DataFrame) -> DataFrame:
        lookup = messages.sparkSession.read.csv(str(rates), header=True).withColumn("rate", F.col("rate").cast("int"))
        amount = (F.col("amount") * F.col("rate")).cast("decimal(18,2)")
        return plain(messages.join(F.broadcast(lookup), "currency").withColumn("amount", amount))

    return exchange


def _dying(memo: str) -> str:
    if memo == "die":
        os._exit(1)
    return memo


def _looking_up(there: str, keys: Sequence[str] = ()) -> Callable[[str], str]:
    """Return a lookup that is unavailable, for these keys or for all, until the file `there` exists."""

    def look_up(memo: str) -> str:
        if (not keys or memo in keys) and not os.path.exists(there):
            raise ConnectionError("the lookup is away")
        return memo

    return look_up


def _away_for_calls(folder: str, calls: Sequence[int]) -> Callable[[str], str]:
    """Return a lookup that is unavailable for the calls with these numbers, counted by files."""

    def look_up(memo: str) -> str:
        count = len(os.listdir(folder))
        Path(folder, str(count)).touch()
        if count in calls:
            raise ConnectionError("the lookup is away")
        return memo

    return look_up


def _customer(number: int) -> bytes:
    fields = {"customer_id": f"C{number}", "name": "Ada", "tier": "gold", "signed_up": "2026-11-01"}
    return json.dumps(fields).encode()
