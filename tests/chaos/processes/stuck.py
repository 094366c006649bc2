"""Batches that never end, or that end the process working on them: the run's, or Postgres itself."""

import time
from dataclasses import replace

import psycopg
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import BadInput, BatchTooSlow, Halt, LedgerAway, OutcomeUnknown
from platform_defs.errors.error_policy import TRIES
from tests.chaos.halts import halted, resolve_halt
from tests.chaos.moments import play
from tests.chaos.postgres.verdicts import failures, plain, single_entry
from tests.chaos.runs import Run
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.waiting import BOUND, wait_for, within
from tests.support.world import World, transfer, transfers

FOR_EVER = 1_000_000.0  # seconds
CRASH = "COPY (SELECT 1) TO PROGRAM 'kill -SEGV $PPID'"  # its parent is the backend of the session
END = "PERFORM pg_terminate_backend(pg_backend_pid())"


@scenario(FaultClass.KEEPS_FAILING)
def transform_that_never_returns(chaos: Chaos) -> Verdict:
    """Its Spark job is cancelled after the limit, and the batch has failed; a batch beside it commits."""
    world, pipeline = chaos.world, single_entry(chaos.world, _sleeping)
    world.drain(world.caught_up())  # Spark's workers have started
    world.send(pipeline, transfers(4))
    with within(20), pytest.raises(BatchTooSlow, match="TIDEGATE_BATCH_TIMEOUT_SECONDS"):
        play(world, pipeline, lambda context: replace(context, limit=replace(context.limit, seconds=3.0)))
    assert failures(world, pipeline) == (1, 1)
    return chaos.judge(replace(pipeline, transform=plain), 1, "cancelled, and counted")


@scenario(FaultClass.KEEPS_FAILING)
def batch_that_kills_its_run(chaos: Chaos) -> Verdict:
    """Each run that works on it dies, and the next one counts that: at ten it halts instead of trying once more."""
    world, pipeline = chaos.world, chaos.world.caught_up()
    world.send(pipeline, transfers(8, start=8))
    for tries in (0, TRIES - 1):
        world.rows("update tidegate.pipeline set batch_failures = %s where name = %s", tries, pipeline.name)
        run = Run(pipeline, "after_stage", spark=world.spark())
        run.process.join(BOUND)
        wait_for(lambda: not world.ledger.status(pipeline.name).held)
        if not tries:
            with world.open_run(pipeline):
                assert failures(world, pipeline)[1] == 1
    detail = halted(world, pipeline, "keeps_failing")
    assert (detail["tries"], detail["error_class"]) == (TRIES, "RunDied")
    resolve_halt(world, pipeline)
    return chaos.judge(pipeline, 2, "a halt, settled")


@scenario(FaultClass.KEEPS_FAILING)
def row_that_crashes_Postgres(chaos: Chaos) -> Verdict:
    """Each write kills its backend with a signal, and with it every session: that counts."""
    return _ends_its_session(chaos, CRASH)


@scenario(FaultClass.KEEPS_FAILING, representative=True)
def row_that_ends_its_session(chaos: Chaos) -> Verdict:
    """A function of the table terminates the session that writes the row, while Postgres goes on: that counts."""
    return _ends_its_session(chaos, END)


@scenario(FaultClass.KEEPS_FAILING)
def record_batch_above_what_the_client_takes(chaos: Chaos) -> Verdict:
    """A halt that names `receive.message.max.bytes`: the broker returns the same batch to each request. Once it is set,
    the batch is read.
    """
    world = chaos.world
    pipeline = world.new_pipeline(partitions=1, config={"max.message.bytes": "4000000"})
    world.send(pipeline, [*transfers(4), transfer(4, memo="x" * 1_500_000), *transfers(4, start=5)], partition=0)
    little = {"fetch.max.bytes": "1000000", "receive.message.max.bytes": "1000512"}
    narrow = replace(world, endpoints=replace(world.endpoints, librdkafka={**world.endpoints.librdkafka, **little}))
    with pytest.raises(BadInput, match=r"\[0\] at offset .* TIDEGATE_KAFKA_RECEIVE_MESSAGE_MAX_BYTES to at least 1500"):
        narrow.drain(pipeline)
    assert failures(world, pipeline) == (1, 1)
    world.rows("update tidegate.pipeline set batch_failures = %s where name = %s", TRIES - 1, pipeline.name)
    detail = halted(world, pipeline, "keeps_failing", lambda: narrow.drain(pipeline))
    assert "TIDEGATE_KAFKA_RECEIVE_MESSAGE_MAX_BYTES" in detail["error"]
    resolve_halt(world, pipeline)
    return chaos.judge(pipeline, TRIES, "a halt, settled; read once the setting is larger")


def _ends_its_session(chaos: Chaos, deed: str) -> Verdict:
    world, pipeline = chaos.world, chaos.world.caught_up()
    table = pipeline.contract.row_table.name
    world.rows(
        f"create function {table}_ends() returns trigger language plpgsql as $$ begin {deed}; return null; end $$"
    )
    world.rows(f"create trigger ends after insert on {table} for each statement execute function {table}_ends()")
    world.send(pipeline, transfers(8, start=8))
    for tries in (0, TRIES - 1):
        world.rows("update tidegate.pipeline set batch_failures = %s where name = %s", tries, pipeline.name)
        with pytest.raises((LedgerAway, OutcomeUnknown, Halt)):
            world.drain(pipeline)
        _wait_for_postgres(world)
        if not tries:
            with world.open_run(pipeline):  # the run itself could count it, or this one does
                assert failures(world, pipeline)[1] == 1
    assert halt_of(world, pipeline) == ("keeps_failing", TRIES)
    resolve_halt(world, pipeline)
    world.rows(f"drop trigger ends on {table}")
    return chaos.judge(pipeline, 2, "a halt, settled")


def halt_of(world: World, pipeline: Pipeline) -> tuple[str | None, int]:
    """Return the code of the pipeline's halt, and the number of failures that caused it."""
    with pytest.raises(Halt), world.open_run(pipeline):
        pass
    status = world.ledger.status(pipeline.name)
    return status.halt_code, (status.halt_detail or {})["tries"]


def _wait_for_postgres(world: World) -> None:
    def answers() -> bool:
        try:
            world.rows("select 1")
        except psycopg.OperationalError:
            return False
        return True

    wait_for(answers)


def _sleeping(messages: DataFrame) -> DataFrame:
    def sleep(memo: str) -> str:
        time.sleep(FOR_EVER)
        return memo

    return plain(messages.withColumn("transfer_id", F.udf(sleep, "string")("memo")))
