"""History pruned while a batch is in progress, and prunes that are killed."""

import os
import signal
from multiprocessing.connection import Connection
from typing import Any, get_args

from confluent_kafka import TopicPartition

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.interfaces.crash_points import PrunePoint
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.prune import ledger as prune_ledger
from platform_defs.prune.prune import Pruned, prune
from platform_defs.stack.endpoints import connection
from platform_defs.verify.verify import verify
from tests.chaos.moments import Intruder
from tests.chaos.postgres.contracts import given
from tests.chaos.runs import Run
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.waiting import BOUND
from tests.support.world import World, transfers


@scenario(FaultClass.HISTORY_PRUNED)
def prune_killed_at_each_step(chaos: Chaos) -> Verdict:
    """Verify reports the same, whatever is gone by then."""
    world, pipeline, fired = chaos.world, _with_old_batches(chaos.world), 0
    for point in get_args(PrunePoint):
        run = Run(pipeline, point, play=play_prune)
        run.process.join(BOUND)
        assert run.process.exitcode == -signal.SIGKILL, run.words
        fired += 1
        assert verify(pipeline, world.endpoints, world.spark).ok, point
    _prune(pipeline.contract)
    world.send(pipeline, transfers(8, start=64))
    return chaos.judge(pipeline, fired, "verify says the same")


@scenario(FaultClass.HISTORY_PRUNED, representative=True)
def history_pruned_between_staging_and_publish(chaos: Chaos) -> Verdict:
    """The batch in progress commits, and verify reports the same as before."""
    world, pipeline = chaos.world, _with_old_batches(chaos.world)
    world.send(pipeline, transfers(8, start=64))
    found = list[Pruned]()
    intruder = Intruder("before_publish", lambda _: found.append(_prune(pipeline.contract)))
    intruder.drain(world, pipeline)
    assert found[0].batches > 0
    return chaos.judge(pipeline, intruder.fired, "the batch commits")


def _with_old_batches(world: World) -> Pipeline:
    """Return a pipeline with 64 messages in eight batches, committed long ago; its topic has lost most of them."""
    pipeline = world.new_pipeline(batch_messages=8)
    world.send(pipeline, transfers(64))
    world.drain(pipeline)
    _all_is_old(world, pipeline)
    return pipeline


def _all_is_old(world: World, pipeline: Pipeline) -> None:
    """Make all commits old, and delete most of the topic."""
    world.rows(
        "update tidegate.batch set committed_at = now() - interval '60 days', reported_at = now() where pipeline = %s",
        pipeline.name,
    )
    admin, gone = world.admin(), [TopicPartition(pipeline.contract.topic, number, 14) for number in range(4)]
    for done in admin.delete_records(gone).values():
        done.result(BOUND)


def play_prune(
    name: str, batch_messages: int, point: str, how: str, forever: bool, mouth: Connection, gateway: Any = None
) -> None:
    """Prune, in the process of a prune."""
    os.environ["TIDEGATE_CRASH_POINT"] = f"{point}:{os.getpid()}:{how}"
    _prune(given(name, batch_messages))
    mouth.send(("done",))


def _prune(contract: Contract) -> Pruned:
    """Prune in pages of one batch; only the newest batch is kept whatever its age."""
    before = prune_ledger.NEWEST, prune_ledger.PAGE
    prune_ledger.NEWEST, prune_ledger.PAGE = 1, 1
    try:
        endpoints = connection()
        broker = KafkaBroker(endpoints.kafka_options())
        return prune(endpoints.postgres_url, contract, broker.describe, execute=True)
    finally:
        prune_ledger.NEWEST, prune_ledger.PAGE = before
