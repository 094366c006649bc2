"""What Kafka can do to a run: the broker is killed, or stops answering, in the middle of a range."""

import os
import signal
import threading

from resources.local import stack
from tests.chaos.runs import Run
from tests.chaos.scenario import Chaos, Verdict, scenario
from tests.world import transfers

SILENCE = 5.0  # seconds for which a stopped broker keeps its connections open and answers nothing


@scenario
def broker_killed_while_a_range_is_read(chaos: Chaos) -> Verdict:
    """The run waits, or fails and says that Kafka went; nothing is lost."""
    pipeline = chaos.world.new_pipeline()
    chaos.world.send(pipeline, transfers(40_000))
    run = Run(pipeline, "in_decode", "STOP")
    run.wait_until_stopped()
    os.kill(_broker(), signal.SIGKILL)
    stack.up()
    last = run.end()
    assert last == ("done",) or (last or ())[1:2] in (("BrokerAway",), ("StagingLost",)), last
    return chaos.judge(pipeline, 1, "it waited and went on" if last == ("done",) else f"it said {(last or ())[1]}")


@scenario
def broker_stops_answering(chaos: Chaos) -> Verdict:
    """Connections stay half-open for a while; the run waits and goes on."""
    pipeline = chaos.world.new_pipeline()
    chaos.world.send(pipeline, transfers(40_000))
    run = Run(pipeline, "in_decode", "STOP")
    run.wait_until_stopped()
    broker = _broker()
    os.kill(broker, signal.SIGSTOP)
    threading.Timer(SILENCE, os.kill, [broker, signal.SIGCONT]).start()
    last = run.end()
    assert last == ("done",), last
    return chaos.judge(pipeline, 1, "it waited and went on")


def _broker() -> int:
    pid = stack.status().kafka.pid
    assert pid
    return pid
