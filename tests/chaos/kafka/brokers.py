"""Faults of a single broker in the middle of a range: it is killed, or stops responding."""

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from threading import Thread

import psutil

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import BrokerAway, OffsetsUnavailable
from platform_defs.stack import processes, stack
from tests.chaos.moments import mark, play, within_a_range
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.waiting import wait_for
from tests.support.world import transfers

SILENCE = 3.0  # seconds for which a stopped broker keeps its connections open without a response


@scenario(FaultClass.BROKER_DOWN, representative=True)
def broker_killed_while_a_range_is_read(chaos: Chaos) -> Verdict:
    """The run waits, or fails with an error that names Kafka; nothing is lost."""
    pipeline, before = _sent(chaos), _broker()
    dying = psutil.Process(before)

    def start_again() -> None:
        processes.end([dying], signal.SIGKILL, within=10.0)  # or `up` takes a dying broker for a running one
        stack.up()

    try:
        _meet(chaos, pipeline, signal.SIGKILL, start_again)
        outcome = "it waited and continued"
    except (BrokerAway, OffsetsUnavailable) as error:
        outcome = f"it said {type(error).__name__}"
    assert _broker() != before
    return chaos.judge(pipeline, 1, outcome)


@scenario(FaultClass.BROKER_DOWN)
def broker_stops_answering(chaos: Chaos) -> Verdict:
    """Connections stay open for a while without a response; the run waits and continues."""
    pipeline, broker = _sent(chaos), _broker()

    def wake() -> None:
        time.sleep(SILENCE)
        os.kill(broker, signal.SIGCONT)

    _meet(chaos, pipeline, signal.SIGSTOP, wake)
    return chaos.judge(pipeline, 1, "it waited and continued")


def _meet(chaos: Chaos, pipeline: Pipeline, how: int, clear_faults: Callable[[], object]) -> None:
    """Run the pipeline; signal the broker in the middle of a range, and wake or restart it from outside."""
    happened = mark(pipeline)

    def wait_and_mend() -> None:
        wait_for(happened.exists, "the broker got its signal")
        clear_faults()

    mending = Thread(target=wait_and_mend)
    mending.start()
    try:
        play(chaos.world, pipeline, within_a_range(partial(os.kill, _broker(), how), happened))
    finally:
        mending.join()


def _sent(chaos: Chaos) -> Pipeline:
    pipeline = chaos.world.new_pipeline()
    chaos.world.send(pipeline, transfers(400))
    return pipeline


def _broker() -> int:
    pid = stack.status().kafka.pid
    assert pid
    return pid
