"""A planned reassignment: the observed and planned replicas, and the check that it still applies. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, NonNegativeInt, StrictInt, ValidationError

from platform_defs.cluster.moves import OfTopic, moved
from platform_defs.errors import BadInput
from platform_defs.kafka.observed import Moving, Observed, Replicas, assignment

KIND: Literal["tidegate cluster reassign plan 1"] = "tidegate cluster reassign plan 1"
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
    sentences = list[str]()
    for item in plan.topics:
        topic_id = now.topic_ids.get(item.topic)
        if topic_id is None:
            sentences.append(f"topic {item.topic} no longer exists")
        elif topic_id != item.topic_id:
            changed = f"its id was {item.topic_id} and is now {topic_id}"
            sentences.append(f"topic {item.topic} was deleted and recreated ({changed})")
    wanted, held = plan.planned(), assignment(now.partitions)
    moving = {(item.topic, item.number): item.target for item in now.moving}
    for at, expected in plan.observed().items():
        found = moving.get(at, held.get(at))
        if found is not None and found not in (expected, wanted[at]):
            sentences.append(f"{at[0]}[{at[1]}] was on {_list(expected)} and is now on {_list(found)}")
    others = [item for item in now.moving if (item.topic, item.number) not in wanted]
    return sentences + [
        f"{item} is being reassigned to {_list(item.target)}, which is not part of this plan" for item in others
    ]


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
    found = dict[str, tuple[str, str]]()
    for item in plan.topics:
        added = [(n, b) for n in sorted(item.planned) for b in item.planned[n] if b not in item.observed[n]]
        sources = ((n, b) for n in dict.fromkeys(n for n, _ in added) for b in item.observed[n])
        if added:
            found[item.topic] = ",".join(f"{n}:{b}" for n, b in sources), ",".join(f"{n}:{b}" for n, b in added)
    return found


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
    try:
        plan = _Document.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        problem = first["msg"].partition(" or instance of ")[0]  # pydantic's, for a class that no user knows
        names = (part for part in first["loc"] if isinstance(part, str) and part != "[key]")
        raise BadInput(
            f"is no reassignment plan: {problem}. Make a new plan: tidegate cluster reassign plan --file {file}",
            file=file,
            field=".".join(names),
        ) from error
    topics = (
        TopicPlan(
            name,
            item.topic_id,
            {number: pair.observed for number, pair in item.partitions.items()},
            {number: pair.planned for number, pair in item.partitions.items()},
            item.bytes,
        )
        for name, item in plan.topics.items()
    )
    return Reassignment(plan.cluster_id, tuple(topics))


def _different(brokers: Replicas) -> Replicas:
    if len(set(brokers)) < len(brokers):
        raise ValueError("the broker ids must be different, as in [1, 2]")
    return brokers


_Brokers = Annotated[tuple[StrictInt, ...], Field(min_length=1), AfterValidator(_different)]


class _Pair(BaseModel):
    observed: _Brokers
    planned: _Brokers


class _Topic(BaseModel):
    topic_id: str = Field(min_length=1)
    bytes: StrictInt | None = None
    partitions: dict[NonNegativeInt, _Pair]


class _Document(BaseModel):
    """The document of a plan file."""

    kind: Literal["tidegate cluster reassign plan 1"]  # KIND
    cluster_id: str = Field(min_length=1)
    topics: dict[str, _Topic]
