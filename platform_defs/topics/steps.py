"""The steps of a plan, and the state of a topic after each. A step names the state before it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from platform_defs.errors.words import plural
from platform_defs.kafka.observed import Replicas
from platform_defs.topics.observed import ObservedTopic, same_value


@dataclass(frozen=True)
class Seen:
    """A topic's state at planning time, which must not change before the plan is applied."""

    topic_id: str
    replicas: tuple[Replicas, ...]
    overrides: Mapping[str, str]


@dataclass(frozen=True)
class Create:
    """Create a topic; partitions and replication factor None are the cluster's defaults."""

    topic: str
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, str] = field(default_factory=dict[str, str])
    step: Literal["create"] = "create"

    def sentence(self) -> str:
        count = (
            "the cluster's number of partitions" if self.partitions is None else plural(self.partitions, "partition")
        )
        given = [count, *(["replication factor " + str(self.replication_factor)] if self.replication_factor else [])]
        return f"create it with {', '.join([*given, *(f'{name} {value}' for name, value in self.config.items())])}"


@dataclass(frozen=True)
class Value:
    """A setting before and after; None is no override."""

    observed: str | None
    becomes: str | None

    def __str__(self) -> str:
        return f"{self.observed or 'not set'} → {self.becomes or 'not set'}"


@dataclass(frozen=True)
class SetConfig:
    """Set or remove these overrides, and no others."""

    topic: str
    config: Mapping[str, Value]
    step: Literal["configs"] = "configs"

    def sentence(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.config.items())


@dataclass(frozen=True)
class AddPartitions:
    """Add partitions after the existing ones. `replicas`: of the new ones; None leaves them to Kafka."""

    topic: str
    observed: int
    becomes: int
    replicas: tuple[Replicas, ...] | None = None
    step: Literal["partitions"] = "partitions"

    def sentence(self) -> str:
        return f"partitions {self.observed} → {self.becomes}"


@dataclass(frozen=True)
class Move:
    """One partition's replicas before and after."""

    partition: int
    observed: Replicas
    becomes: Replicas


@dataclass(frozen=True)
class Reassign:
    """Give partitions other replicas."""

    topic: str
    moves: tuple[Move, ...]
    step: Literal["reassign"] = "reassign"

    def sentence(self) -> str:
        shown = ", ".join(f"{one.partition}: {_list(one.observed)} → {_list(one.becomes)}" for one in self.moves[:3])
        more = f", and {len(self.moves) - 3} more" if len(self.moves) > 3 else ""
        return f"move replicas of {plural(len(self.moves), 'partition')} ({shown}{more})"


Step = Create | SetConfig | AddPartitions | Reassign
ORDER = ("create", "configs", "partitions", "reassign")


def after(seen: Seen, step: SetConfig | AddPartitions | Reassign) -> Seen | None:
    """Return the topic's state after the step; None if Kafka decides it (replicas of new partitions)."""
    if isinstance(step, SetConfig):
        rest = {name: value for name, value in seen.overrides.items() if name not in step.config}
        wanted = {name: value.becomes for name, value in step.config.items() if value.becomes is not None}
        return replace(seen, overrides=rest | wanted)
    if isinstance(step, AddPartitions):
        return None if step.replicas is None else replace(seen, replicas=seen.replicas + step.replicas)
    moved = {one.partition: one.becomes for one in step.moves}
    return replace(seen, replicas=tuple(moved.get(n, replicas) for n, replicas in enumerate(seen.replicas)))


def made_by(step: Create, topic: ObservedTopic) -> bool:
    """Return True if the topic is as the step makes it."""
    return (
        step.partitions in (None, len(topic.partitions))
        and step.replication_factor in (None, topic.replication_factor)
        and same_overrides(step.config, topic.overrides)
    )


def same_overrides(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return one.keys() == other.keys() and all(same_value(one[name], other[name]) for name in one)


def _list(replicas: Replicas) -> str:
    return "[" + " ".join(map(str, replicas)) + "]"
