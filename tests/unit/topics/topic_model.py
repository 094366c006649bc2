"""A cluster as a value: it applies a plan's steps, and places replicas as Kafka's controller might."""

from dataclasses import replace

from platform_defs.kafka.observed import Partition, Replicas
from platform_defs.topics.observed import Observed, ObservedTopic
from platform_defs.topics.placement import added
from platform_defs.topics.plan import Plan
from platform_defs.topics.steps import AddPartitions, Create, Reassign, SetConfig, Step

DEFAULTS = {
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "delete.retention.ms": "86400000",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "false",
    "max.message.bytes": "1048588",
}


def cluster(*topics: tuple[str, ObservedTopic], brokers: int = 3) -> Observed:
    """Return a cluster with these topics, and each broker in a rack of its own."""
    racks: dict[int, str | None] = {number + 1: "abcdef"[number] for number in range(brokers)}
    defaults = {**DEFAULTS, "default.replication.factor": "1", "num.partitions": "1"}
    return Observed("cluster-1", racks, dict(topics), frozenset(name for name, _ in topics), defaults)


def topic(*replicas: Replicas, topic_id: str = "id-1", **overrides: str) -> ObservedTopic:
    """Return a topic whose partitions are all in sync; overrides have underscores for dots."""
    given = {name.replace("_", "."): value for name, value in overrides.items()}
    return ObservedTopic(topic_id, tuple(map(_state, replicas)), given, {**DEFAULTS, **given})


def applied(observed: Observed, plan: Plan) -> Observed:
    """Return the cluster after the plan. Raise AssertionError if Kafka's rules forbid a step."""
    for step in plan.steps:
        observed = after(observed, step)
    return observed


def after(observed: Observed, step: Step) -> Observed:
    there = observed.topics.get(step.topic)
    if isinstance(step, Create):
        assert there is None
        made = _created(observed, step)
    else:
        assert there is not None
        made = _changed(observed, there, step)
    return replace(observed, topics={**observed.topics, step.topic: made}, names=observed.names | {step.topic})


def _created(observed: Observed, step: Create) -> ObservedTopic:
    count, factor = step.partitions or 1, step.replication_factor or 1
    assert factor <= len(observed.brokers)
    made = topic(*added([], count, factor, observed.brokers), topic_id=f"new-{step.topic}")
    return replace(made, overrides=dict(step.config), effective={**made.effective, **step.config})


def _changed(observed: Observed, there: ObservedTopic, step: SetConfig | AddPartitions | Reassign) -> ObservedTopic:
    if isinstance(step, SetConfig):
        values = {name: value.becomes for name, value in step.config.items() if value.becomes is not None}
        overrides = {name: value for name, value in there.overrides.items() if name not in step.config} | values
        return replace(there, overrides=overrides, effective={**DEFAULTS, **overrides})
    if isinstance(step, AddPartitions):
        assert step.observed == len(there.partitions) < step.becomes
        new = step.replicas or added(there.replicas, step.becomes - step.observed, 1, observed.brokers)
        assert all(len(one) == len(there.replicas[0]) for one in step.replicas or ())
        return replace(there, partitions=(*there.partitions, *map(_state, new)))
    moved = {move.partition: move for move in step.moves}
    assert all(there.partitions[number].replicas == move.observed for number, move in moved.items())
    assert all(set(move.becomes) <= set(observed.brokers) for move in step.moves)
    assert all(len(set(move.becomes)) == len(move.becomes) for move in step.moves)
    states = (moved[n].becomes if n in moved else one.replicas for n, one in enumerate(there.partitions))
    return replace(there, partitions=tuple(map(_state, states)))


def _state(replicas: Replicas) -> Partition:
    return Partition("t", 0, replicas[0], replicas, replicas)
