"""A planned reassignment: the observed and planned replicas, and the check that it still applies. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from platform_defs.cluster.moves import OfTopic, moved
from platform_defs.errors import BadInput
from platform_defs.kafka.observed import Moving, Observed, Replicas, assignment

KIND = "tidegate cluster reassign plan 1"
THROTTLE = 50_000_000  # bytes a second, from and to each broker, unless a user gives another limit
At = tuple[str, int]  # topic and partition


@dataclass(frozen=True)
class TopicPlan:
    """The partitions of a topic that change: their `observed` and their `planned` replicas."""

    topic: str
    topic_id: str
    observed: OfTopic
    planned: OfTopic
    bytes: int | None = None  # to copy: the size of the largest replica for each one that moves; None if not known

    @property
    def moves(self) -> int:
        """Replicas that are copied to another broker."""
        return moved(self.observed, self.planned)


@dataclass(frozen=True)
class Reassignment:
    """The plan for a cluster; topics without a change are not in it."""

    cluster_id: str
    topics: tuple[TopicPlan, ...]

    @property
    def moves(self) -> int:
        return sum(item.moves for item in self.topics)

    @property
    def bytes(self) -> int | None:
        """The bytes to copy; None if the size of a replica is not known."""
        sizes = [item.bytes for item in self.topics]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def observed(self) -> dict[At, Replicas]:
        return {(item.topic, n): tuple(found) for item in self.topics for n, found in item.observed.items()}

    def planned(self) -> dict[At, Replicas]:
        return {(item.topic, n): tuple(wanted) for item in self.topics for n, wanted in item.planned.items()}

    def orders(self) -> dict[At, Replicas]:
        """Return the planned partitions whose replicas only change their order: no byte moves."""
        seen = self.observed()
        return {at: wanted for at, wanted in self.planned().items() if set(wanted) == set(seen[at])}

    def back(self) -> "Reassignment":
        """Return the reverse plan: from the planned replicas to the observed ones."""
        turned = (replace(item, observed=item.planned, planned=item.observed, bytes=None) for item in self.topics)
        return replace(self, topics=tuple(turned))


def differences(plan: Reassignment, now: Observed) -> list[str]:
    """Return the changes since the plan was made that forbid it, one sentence each.

    A partition that is as planned, or on its way there, was reached by an earlier `apply` that was interrupted.
    """
    if plan.cluster_id != now.cluster_id:
        return [f"it is for cluster {plan.cluster_id}, but this is cluster {now.cluster_id}"]
    return [*_of_topics(plan, now), *_of_partitions(plan, now), *_of_others(plan, now)]


def _of_topics(plan: Reassignment, now: Observed) -> Iterator[str]:
    for item in plan.topics:
        found = now.topic_ids.get(item.topic)
        if found is None:
            yield f"topic {item.topic} no longer exists"
        elif found != item.topic_id:
            yield f"topic {item.topic} was deleted and recreated (its id was {item.topic_id} and is now {found})"


def _of_partitions(plan: Reassignment, now: Observed) -> Iterator[str]:
    seen, wanted, held = plan.observed(), plan.planned(), assignment(now.partitions)
    moving = {(item.topic, item.number): item.target for item in now.moving}
    for at, expected in seen.items():
        found = moving.get(at, held.get(at))
        if found is not None and found not in (expected, wanted[at]):
            yield f"{at[0]}[{at[1]}] was on {_list(expected)} and is now on {_list(found)}"


def _of_others(plan: Reassignment, now: Observed) -> Iterator[str]:
    wanted = plan.planned()
    for item in now.moving:
        if (item.topic, item.number) not in wanted:
            yield f"{item} is being reassigned to {_list(item.target)}, which is not part of this plan"


def _list(replicas: Iterable[int]) -> str:
    return f"brokers {', '.join(map(str, replicas))}"


def remaining(plan: Reassignment, now: Observed) -> dict[At, Replicas]:
    """Return the planned partitions that are neither there nor on their way, without those of deleted topics."""
    held, moving = assignment(now.partitions), {(item.topic, item.number): item.target for item in now.moving}
    ours = plan.planned().items()
    return {at: wanted for at, wanted in ours if at in held and moving.get(at, held[at]) != wanted}


def under_way(plan: Reassignment, now: Observed) -> tuple[Moving, ...]:
    """Return the partitions of the plan whose replicas are being moved."""
    wanted = plan.planned()
    return tuple(item for item in now.moving if (item.topic, item.number) in wanted)


def throttled_replicas(plan: Reassignment) -> dict[str, tuple[str, str]]:
    """Return by topic the values of leader.replication.throttled.replicas (the sources) and
    follower.replication.throttled.replicas (the targets): "partition:broker", separated by commas.
    """
    return {item.topic: (_from(item), _to(item)) for item in plan.topics if item.moves}


def _from(item: TopicPlan) -> str:
    moving = (n for n in sorted(item.planned) if set(item.planned[n]) - set(item.observed[n]))
    return ",".join(f"{n}:{broker}" for n in moving for broker in item.observed[n])


def _to(item: TopicPlan) -> str:
    added = ((n, b) for n in sorted(item.planned) for b in item.planned[n] if b not in item.observed[n])
    return ",".join(f"{n}:{broker}" for n, broker in added)


def brokers(plan: Reassignment, now: Observed) -> list[int]:
    """Return the live brokers that have a replica before or after; a dead one copies nothing."""
    both = (*plan.observed().values(), *plan.planned().values())
    well = {broker.id for broker in now.brokers if broker.answers and not broker.fenced}
    return sorted({broker for replicas in both for broker in replicas} & well)


def to_json(plan: Reassignment) -> dict[str, Any]:
    """Return the plan as the document of a plan file."""
    topics = {
        item.topic: {
            "topic_id": item.topic_id,
            "bytes": item.bytes,
            "partitions": {
                str(n): {"observed": list(item.observed[n]), "planned": list(item.planned[n])}
                for n in sorted(item.planned)
            },
        }
        for item in plan.topics
    }
    return {"kind": KIND, "cluster_id": plan.cluster_id, "topics": topics}


def from_json(document: Any, file: str) -> Reassignment:
    """Return the plan from a plan file's document. Raises BadInput, naming the field, if it is not one."""
    kept = _mapping(document, file, "kind")
    if kept.get("kind") != KIND:
        raise _wrong(file, "kind", f"is not {KIND!r}: this file is not a reassignment plan")
    topics = _mapping(kept.get("topics"), file, "topics")
    plans = tuple(_topic(name, _mapping(of, file, f"topics.{name}"), file) for name, of in topics.items())
    return Reassignment(_text(kept.get("cluster_id"), file, "cluster_id"), plans)


def _topic(name: str, of: Mapping[str, Any], file: str) -> TopicPlan:
    place = f"topics.{name}"
    size = of.get("bytes")
    if size is not None and not isinstance(size, int):
        raise _wrong(file, f"{place}.bytes", "is neither a number nor null")
    observed: dict[int, Replicas] = {}
    planned: dict[int, Replicas] = {}
    for number, pair in _mapping(of.get("partitions"), file, f"{place}.partitions").items():
        at = f"{place}.partitions.{number}"
        if not number.isdecimal():
            raise _wrong(file, at, "is not a partition number")
        both = _mapping(pair, file, at)
        observed[int(number)] = _replicas(both.get("observed"), file, f"{at}.observed")
        planned[int(number)] = _replicas(both.get("planned"), file, f"{at}.planned")
    return TopicPlan(name, _text(of.get("topic_id"), file, f"{place}.topic_id"), observed, planned, size)


def _replicas(found: Any, file: str, field: str) -> Replicas:
    brokers = cast("list[Any]", found) if isinstance(found, list) else []
    if not brokers or not all(type(one) is int for one in brokers) or len(set(brokers)) != len(brokers):
        raise _wrong(file, field, "is not a list of different broker ids, such as [1, 2]")
    return tuple(brokers)


def _mapping(found: Any, file: str, field: str) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise _wrong(file, field, "is not an object")
    return cast("Mapping[str, Any]", found)


def _text(found: Any, file: str, field: str) -> str:
    if not isinstance(found, str) or not found:
        raise _wrong(file, field, "is not text")
    return found


def _wrong(file: str, field: str, what: str) -> BadInput:
    return BadInput(f"{what}. Make a new plan: tidegate cluster reassign plan --file {file}", file=file, field=field)
