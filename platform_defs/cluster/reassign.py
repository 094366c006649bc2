"""A reassignment, step by step: each step can be repeated, and one that was killed is continued from the cluster's
state and from the record in the ledger, or in TIDEGATE_HOME.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast

from platform_defs.cluster import reassignment
from platform_defs.cluster.ledger import TopicsLedger
from platform_defs.cluster.observe import Look
from platform_defs.cluster.reassignment import At, Reassignment
from platform_defs.errors import BadInput, BrokerAway, ChangedMeanwhile, LedgerAway
from platform_defs.kafka.observed import Moving, Observed
from platform_defs.kafka.throttles import KafkaThrottles
from platform_defs.settings.home import private_home

State = Literal["under way", "done", "cancelled"]
GOES_ON = "To follow or cancel the reassignment: tidegate cluster reassign status, or tidegate cluster reassign cancel"
STILL = 5  # polls, a second apart, after which partitions that do not move count as not started
NONE_UNDER_WAY = "NO_REASSIGNMENT_IN_PROGRESS"  # Kafka's error for a cancellation that comes too late


@dataclass(frozen=True)
class Kept:
    """The last applied reassignment and its state. `throttle` is in bytes a second."""

    plan: Reassignment
    throttle: int
    state: State


@dataclass(frozen=True)
class Record:
    """The record of a reassignment: in the ledger at a URL, so that any machine can end it, and in reassignment.json in
    TIDEGATE_HOME: a reassignment needs Kafka alone, and the ledger may be unavailable when it begins or ends.
    """

    home: Path
    ledger: str | None = field(default=None, repr=False)  # it contains the password

    @property
    def path(self) -> Path:
        return self.home / "reassignment.json"

    def load(self, cluster_id: str) -> Kept | None:
        """Return the last applied reassignment of the cluster: the one under way, if either record has one. A file is
        not used if the ledger recorded its reassignment too, or a later one: another machine may have ended it.
        Otherwise a file of another cluster is returned. Raises BadInput if the file is not one of ours.
        """
        in_ledger, in_file = self._of_ledger(cluster_id), self._of_file()
        if in_ledger and in_file and in_file[1] and in_file[1] <= in_ledger[1]:
            in_file = None
        found = [kept for kept, _ in filter(None, (in_ledger, in_file))]
        ours = [kept for kept in found if kept.plan.cluster_id == cluster_id]
        return next((kept for kept in ours if kept.state == "under way"), next(iter([*ours, *found]), None))

    def unkept(self, cluster_id: str) -> str | None:
        """Return why the ledger cannot record it; None if it can."""
        if self.ledger is None:
            return "no Postgres is configured (tidegate stack up, or set TIDEGATE_POSTGRES_URL)"
        try:
            TopicsLedger(self.ledger).reassignment(cluster_id)
        except (LedgerAway, BadInput) as error:
            return str(error)
        return None

    def _of_ledger(self, cluster_id: str) -> tuple[Kept, datetime] | None:
        with suppress(LedgerAway, BadInput):
            found = TopicsLedger(self.ledger).reassignment(cluster_id) if self.ledger else None
            if found is not None:
                plan, throttle, state, at = found
                return Kept(reassignment.from_json(plan, "tidegate.reassignment"), throttle, cast("State", state)), at
        return None

    def _of_file(self) -> tuple[Kept, datetime | None] | None:
        try:
            kept: Any = json.loads(self.path.read_text())
            plan = reassignment.from_json(kept["plan"], str(self.path))
            at = kept.get("in_ledger_at")
            return Kept(plan, int(kept["throttle"]), kept["state"]), datetime.fromisoformat(at) if at else None
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(
                f"{self.path} cannot be read ({error}); move the file elsewhere", file=str(self.path)
            ) from error

    def save(self, kept: Kept) -> None:
        """Replace it atomically, on disk before anything is moved. Raises ChangedMeanwhile, with nothing replaced, if
        the ledger has another one under way.
        """
        plan = reassignment.to_json(kept.plan)
        document: dict[str, Any] = {"plan": plan, "throttle": kept.throttle, "state": kept.state}
        with suppress(LedgerAway, BadInput):
            if self.ledger:
                ledger = TopicsLedger(self.ledger)
                at = ledger.keep_reassignment(kept.plan.cluster_id, plan, kept.throttle, kept.state)
                if at is None:
                    raise ChangedMeanwhile(f"another reassignment has just started and is still in progress. {GOES_ON}")
                document["in_ledger_at"] = at.isoformat()
        private_home(self.home)
        written = self.path.with_suffix(".json.new")
        with written.open("w") as file:
            file.write(json.dumps(document, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        written.replace(self.path)


@dataclass(frozen=True)
class Progress:
    """The progress of a reassignment: the partitions that move, and those that have not started."""

    kept: Kept
    moving: tuple[Moving, ...]
    waiting: Mapping[At, tuple[int, ...]]


@dataclass(frozen=True)
class Reassigning:
    """The operations on a reassignment: apply, continue, finish and cancel."""

    look: Look
    record: Record

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that answers. Raises BrokerAway."""
        return self.look.partitions.topics([]).cluster_id

    def kept(self) -> Kept | None:
        """Return the last applied reassignment."""
        return self.record.load(self.cluster_id)

    def clear(self) -> tuple[str, ...]:
        """Remove the throttles of a reassignment without a record; return the topics that had some. Raises BadInput if
        a reassignment is under way, which needs them.
        """
        now = self.look.observe()
        if now.quorum_lost or now.unknown:
            raise BrokerAway(f"the throttles cannot be listed: {now.quorum_lost or now.unknown[0]}")
        kept = self.kept()
        if now.moving or (kept is not None and kept.state == "under way"):
            raise BadInput(f"replicas are being moved and need their throttles. {GOES_ON}")
        if now.throttled:
            self._throttles.remove([broker.id for broker in now.brokers if broker.answers], now.throttled)
        return now.throttled

    def begin(self, plan: Reassignment, throttle: int) -> Progress:
        """Begin the parts of the plan that have not started. Raises ChangedMeanwhile, and changes nothing, if the
        cluster is not as planned; BadInput if another reassignment is under way or a broker is unavailable.
        """
        now = self.check(plan)
        if not plan.topics:  # nothing to record in place of the last one, which has a way back
            return Progress(Kept(plan, throttle, "done"), (), {})
        kept = Kept(plan, throttle, "under way")
        self.record.save(kept)
        left, orders = reassignment.remaining(plan, now), plan.orders()
        self._alter({at: to for at, to in left.items() if at in orders})  # at once: no byte moves
        if reassignment.throttled_replicas(plan) and (left or reassignment.under_way(plan, now)):
            self._throttles.limit(throttle, reassignment.brokers(plan, now), reassignment.throttled_replicas(plan))
        self._alter({at: to for at, to in left.items() if at not in orders})
        return self.status(kept)

    def check(self, plan: Reassignment) -> Observed:
        """Return the cluster's state for `begin`. Raises as it does, and changes nothing."""
        now = self._now(plan)
        if changed := reassignment.differences(plan, now):
            raise ChangedMeanwhile(
                f"the plan is out of date: {'; '.join(changed[:5])}. Nothing was changed. Make a new plan: tidegate "
                "cluster reassign plan"
            )
        well = {broker.id for broker in now.brokers if broker.answers and not broker.fenced}
        needed = {broker for replicas in plan.planned().values() for broker in replicas}
        if away := sorted(needed - well):
            raise BadInput(
                f"broker {away[0]}, which the plan assigns replicas to, does not answer. Nothing was changed. Start "
                "the broker first"
            )
        kept = self.record.load(plan.cluster_id)
        if kept is not None and kept.state == "under way" and kept.plan != plan:
            raise BadInput(f"another reassignment is still in progress. {GOES_ON}")
        return now

    def status(self, kept: Kept) -> Progress:
        """Return the progress. After the end, remove the throttles and elect the preferred leaders."""
        now = self._of_its_cluster(kept.plan)
        moving, waiting = reassignment.under_way(kept.plan, now), reassignment.remaining(kept.plan, now)
        if kept.state == "under way" and not moving and not waiting:
            kept = self._end(kept, "done", now)
        return Progress(kept, moving, waiting)

    def wait(self, kept: Kept, seconds: float, show: Callable[[Progress], None]) -> Progress | None:
        """Wait until it has ended, at most `seconds`. Return the progress; None if the cluster did not answer then.

        If nothing moves and something has not started, waiting does not help. Brokers must report that STILL times,
        since a replica that has just arrived is neither moving nor yet shown at its place.
        """
        if kept.state != "under way":
            return Progress(kept, (), {})
        until, still = time.monotonic() + seconds, 0
        while True:
            try:
                found = self.status(kept)
            except BrokerAway:  # no controller answers, as during an election; moves continue meanwhile
                found = None
            still = still + 1 if found is not None and not found.moving else 0
            ended = found is not None and (found.kept.state != "under way" or still == STILL)
            if ended or time.monotonic() > until:
                return found
            if found is not None:
                show(found)
            time.sleep(1.0)  # the controller does not notify of arrived replicas

    def cancel(self, kept: Kept) -> Progress:
        """Return the partitions that still move to their replicas. Those that have arrived stay; `begin` with the
        reverse plan returns them. A reassignment that has ended does not change.
        """
        if kept.state != "under way":
            return Progress(kept, (), {})
        now = self._of_its_cluster(kept.plan)
        moving = reassignment.under_way(kept.plan, now)
        cancelled = self._alter({(item.topic, item.number): None for item in moving})
        before = kept.plan.observed()  # Kafka gives them their replicas back, not the order of these
        self._alter({at: before[at] for at in cancelled})
        went = tuple(item for item in moving if (item.topic, item.number) in cancelled)
        return Progress(self._end(kept, "cancelled", now), went, {})

    def _end(self, kept: Kept, state: State, now: Observed) -> Kept:
        plan = kept.plan
        self._throttles.remove(reassignment.brokers(plan, now), reassignment.throttled_replicas(plan))
        ours = plan.planned()
        found = self.look.partitions.topics().partitions
        self.look.partitions.elect(
            [item for item in found if (item.topic, item.number) in ours and not item.led_by_preferred], unclean=False
        )
        ended = replace(kept, state=state)
        self.record.save(ended)
        return ended

    @property
    def _throttles(self) -> KafkaThrottles:
        return KafkaThrottles(self.look.options)

    def _now(self, plan: Reassignment) -> Observed:
        seen = self.look.observe()
        if seen.unknown or seen.quorum_lost:
            why = seen.quorum_lost or seen.unknown[0]
            raise BrokerAway(f"cannot find out which replicas are being reassigned: {why}. See tidegate cluster health")
        return replace(seen, topic_ids=self.look.partitions.topic_ids([item.topic for item in plan.topics]))

    def _of_its_cluster(self, plan: Reassignment) -> Observed:
        now = self._now(plan)
        if now.cluster_id != plan.cluster_id:
            raise BadInput(
                f"the last reassignment belongs to cluster {plan.cluster_id}, but this is cluster "
                f"{now.cluster_id}. Correct TIDEGATE_KAFKA_BOOTSTRAP_SERVERS, or move {self.record.path} elsewhere"
            )
        return now

    def _alter(self, wanted: Mapping[At, tuple[int, ...] | None]) -> set[At]:
        """Start the moves. Return the accepted ones; without cancellations of moves that have arrived meanwhile."""
        if not wanted:
            return set()
        answers = self.look.controllers.reassign(wanted)
        refused = {at: error for at, error in answers.items() if error not in (None, NONE_UNDER_WAY)}
        for (topic, number), error in sorted(refused.items()):
            raise BadInput(
                f"Kafka refuses the request to move {topic}[{number}] to {wanted[topic, number]}: {error}. Moves "
                f"that have started continue. {GOES_ON}"
            )
        return {at for at, error in answers.items() if error is None}
