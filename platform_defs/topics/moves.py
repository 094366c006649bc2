"""The moves of replicas in a plan of topics: done as by `tidegate cluster reassign`, throttled."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from platform_defs.cluster.observe import Look
from platform_defs.cluster.reassign import Progress, Reassigning, Record
from platform_defs.cluster.reassignment import THROTTLE, Reassignment, TopicPlan
from platform_defs.errors import BrokerAway, TidegateError
from platform_defs.errors.words import plural
from platform_defs.topics.plan import Plan
from platform_defs.topics.steps import Reassign

MOVED = 3600.0  # seconds after which an apply stops waiting; the moves continue


@dataclass(frozen=True)
class Moves:
    """The mover of replicas in the cluster at `options`, librdkafka's; its record is in `home`."""

    options: Mapping[str, str] = field(repr=False)  # they may contain a password
    home: Path
    ledger: str | None = field(default=None, repr=False)

    def check(self, plan: Plan) -> None:
        """Raise if `do` would refuse the moves, before anything is changed."""
        if (moves := reassignment_of(plan)).topics:
            self._reassigning.check(moves)

    def do(self, plan: Plan, show: Callable[[str], None]) -> None:
        """Move the replicas of `plan`, and wait for the end. Raises BrokerAway if it has not ended by then."""
        moves = reassignment_of(plan)
        if not moves.topics:
            return

        def show_progress(at: Progress) -> None:
            show(f"{plural(len(at.moving), 'partition')} in progress and {len(at.waiting)} waiting")

        begun = self._reassigning.begin(moves, THROTTLE)
        ended = self._reassigning.wait(begun.kept, MOVED, show_progress)
        if ended is None or ended.kept.state == "under way":
            raise BrokerAway(
                f"replicas are still being moved, or have not started to move, after {MOVED:g} s. Run tidegate "
                "cluster reassign status, which also completes the reassignment (throttles, leader election), then "
                "run this command again"
            )

    def finish(self) -> None:
        """End the reassignment of a killed apply, if its replicas have moved: its throttles would stay."""
        with suppress(TidegateError):  # another cluster's, or no broker answers: `cluster reassign status` reports it
            kept = self._reassigning.kept()
            if kept is not None and kept.state == "under way":
                self._reassigning.status(kept)

    @property
    def _reassigning(self) -> Reassigning:
        return Reassigning(Look(self.options), Record(self.home, self.ledger))


def reassignment_of(plan: Plan) -> Reassignment:
    """Return the moves of a plan as a reassignment."""
    steps = [step for step in plan.steps if isinstance(step, Reassign)]
    topics = ((step, seen.topic_id) for step in steps if (seen := plan.topics[step.topic]) is not None)
    return Reassignment(
        plan.cluster_id,
        tuple(
            TopicPlan(
                step.topic,
                topic_id,
                {move.partition: move.observed for move in step.moves},
                {move.partition: move.becomes for move in step.moves},
            )
            for step, topic_id in topics
        ),
    )
