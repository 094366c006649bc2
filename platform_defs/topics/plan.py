"""The plan: the steps from the observed topics to the declared ones.

Only declared keys are compared. No step removes partitions, deletes a topic, or changes a key that is not declared.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from platform_defs.topics.declared import Declared, created
from platform_defs.topics.observed import Observed, ObservedTopic, same_value
from platform_defs.topics.placement import added, replaced, spread_over
from platform_defs.topics.steps import ORDER, AddPartitions, Move, Reassign, Seen, SetConfig, Step, Value


@dataclass(frozen=True)
class Plan:
    """The steps in order, and the observed state of each topic that has one: None if it does not exist."""

    cluster_id: str
    topics: Mapping[str, Seen | None]
    steps: tuple[Step, ...]


def plan_of(declared: Iterable[Declared], observed: Observed) -> Plan:
    """Return the plan that makes each topic as declared. It is not applied if a rule refuses it
    (topics/rules.py).
    """
    steps = [step for one in declared for step in _steps(one, observed)]
    steps.sort(key=lambda step: ORDER.index(step.step))
    seen = dict[str, Seen | None]()
    for topic in dict.fromkeys(step.topic for step in steps):
        there = observed.topics.get(topic)
        seen[topic] = there and Seen(there.topic_id, there.replicas, dict(there.overrides))
    return Plan(observed.cluster_id, seen, tuple(steps))


def _steps(declared: Declared, observed: Observed) -> list[Step]:
    there = observed.topics.get(declared.topic)
    if there is None:
        return [created(declared)]
    wanted = {
        name: Value(there.overrides.get(name), value)
        for name, value in declared.config.items()
        if not same_value(there.overrides.get(name), value)
    }
    return [*([SetConfig(declared.topic, wanted)] if wanted else []), *_partitions(declared, there, observed)]


def _partitions(declared: Declared, there: ObservedTopic, observed: Observed) -> list[Step]:
    """Return the steps that add partitions, then change replicas, also of new partitions.

    Kafka adds partitions with the current replication factor. If that exceeds the live brokers, Kafka decides.
    """
    steps, replicas = list[Step](), list(there.replicas)
    factor = declared.replication_factor
    if factor is not None and factor > len(observed.brokers):
        factor = None
    if declared.partitions is not None and declared.partitions > len(replicas):
        more = declared.partitions - len(replicas)
        placed = factor is not None and len(replicas[0]) <= len(observed.brokers)
        new = tuple(added(replicas, more, len(replicas[0]), observed.brokers)) if placed else None
        steps.append(AddPartitions(declared.topic, len(replicas), declared.partitions, new))
        replicas += new or ()
    if factor is None or all(len(one) == factor and spread_over(one, observed.brokers) for one in replicas):
        return steps
    wanted = replaced(replicas, factor, observed.brokers)
    moves = [Move(n, *pair) for n, pair in enumerate(zip(replicas, wanted, strict=True)) if pair[0] != pair[1]]
    return [*steps, Reassign(declared.topic, tuple(moves))]
