"""The moves of replicas that a plan of topics has: done as `tidegate cluster reassign` does them, throttled."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from platform_defs.cluster.reassignment import Reassignment, TopicPlan
from platform_defs.errors import BrokerAway, TidegateError
from platform_defs.operations.cluster.observe_cluster import Look
from platform_defs.operations.cluster.reassign import Progress, Reassigning, Record
from platform_defs.topics.plan import Plan
from platform_defs.topics.steps import Reassign

THROTTLE = 50_000_000  # bytes a second, as of `tidegate cluster reassign apply`
MOVED = 3600.0  # seconds after which an apply waits no longer; the moves go on


@dataclass(frozen=True)
class Moves:
    """Moves replicas in the cluster at `options`, librdkafka's; the record of it is in `home`."""

    options: Mapping[str, str] = field(repr=False)  # they may hold a password
    home: Path
    ledger: str | None = field(default=None, repr=False)

    def check(self, plan: Plan) -> None:
        """Raises where `do` would refuse the moves, before anything is changed."""
        if (moves := reassignment_of(plan)).topics:
            self._reassigning.check(moves)

    def do(self, plan: Plan, show: Callable[[str], None]) -> None:
        """Move what `plan` moves, and wait for the end. Raises BrokerAway where it has not ended by then."""
        moves = reassignment_of(plan)
        if not moves.topics:
            return
        begun = self._reassigning.begin(moves, THROTTLE)
        ended = self._reassigning.wait(begun.kept, MOVED, lambda at: show(_sentence(at)))
        if ended is None or ended.kept.state == "under way":
            raise BrokerAway(
                f"replicas are still being moved after {MOVED:g} s, or have not begun. See tidegate cluster reassign "
                "status, which also ends it (throttles, election); then run the command again"
            )

    def finish(self) -> None:
        """End what an apply that was killed has begun, if its replicas have moved: its throttles would stay."""
        with suppress(TidegateError):  # of another cluster, or nobody answers: `cluster reassign status` says so
            kept = self._reassigning.kept()
            if kept is not None and kept.state == "under way":
                self._reassigning.status(kept)

    @property
    def _reassigning(self) -> Reassigning:
        return Reassigning(Look(self.options), Record(self.home, self.ledger))


def reassignment_of(plan: Plan) -> Reassignment:
    """The moves of a plan, as a reassignment."""
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


def _sentence(found: Progress) -> str:
    return f"{len(found.moving)} partitions under way and {len(found.waiting)} waiting"
