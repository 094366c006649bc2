"""The three meanings of delivery, through the same crashes; and what a consumer group knows of a pipeline."""

import signal
from dataclasses import replace

from platform_defs.contract.model import Delivery
from platform_defs.contract.pipeline import Pipeline
from platform_defs.verification.report import Report
from platform_defs.verification.verify import verify
from tests.chaos.runs import Run
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.world import transfers

ROUNDS = (
    "after_plan",
    "after_stage",
    "after_audit",
    "in_publish",
    "between_commits",
    "after_commit",
)  # points to crash at
MESSAGES = 100  # before each crash


@scenario(FaultClass.COMPARED, longest=True)
def exactly_once_through_the_crashes_of_delivery(chaos: Chaos) -> Verdict:
    """Rows and offsets are one transaction: there is no moment between them to crash in."""
    report, fired = _crashed(chaos, "exactly_once")
    assert (report.lost, report.duplicated, fired) == (0, 0, len(ROUNDS) - 1)
    return Verdict(fired, report.lost, report.duplicated, "none lost, none repeated")


@scenario(FaultClass.COMPARED, longest=True)
def at_least_once_through_the_crashes_of_delivery(chaos: Chaos) -> Verdict:
    """Offsets follow the rows: the batch of the crash between them is there twice, and none is lost."""
    report, fired = _crashed(chaos, "at_least_once")
    assert (report.lost, report.duplicated, fired) == (0, MESSAGES, len(ROUNDS))
    return Verdict(fired, report.lost, report.duplicated, "repeated, as it says", allows=("duplicated",))


@scenario(FaultClass.COMPARED, longest=True)
def at_most_once_through_the_crashes_of_delivery(chaos: Chaos) -> Verdict:
    """Rows follow the offsets: those of the crash between them are never written, and none is there twice."""
    report, fired = _crashed(chaos, "at_most_once")
    assert (report.lost, report.duplicated, fired) == (MESSAGES, 0, len(ROUNDS))
    return Verdict(fired, report.lost, report.duplicated, "lost, as it says", allows=("lost",))


def _crashed(chaos: Chaos, delivery: Delivery) -> tuple[Report, int]:
    """What `verify` finds after a crash at each point that this delivery passes, and how many crashes there were."""
    made, fired = chaos.world.new_pipeline(), 0
    pipeline = Pipeline(replace(made.contract, delivery=delivery), made.transform)
    for number, point in enumerate(ROUNDS):
        chaos.world.send(pipeline, transfers(MESSAGES, start=number * MESSAGES))
        run = Run(pipeline, point, spark=chaos.world.spark())
        last = run.end()
        fired += run.process.exitcode == -signal.SIGKILL
        assert run.process.exitcode == -signal.SIGKILL or last == ("done",), last
    chaos.world.drain(pipeline)
    return verify(pipeline, chaos.world.endpoints, chaos.world.spark), fired
