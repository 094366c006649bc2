"""The states of single partitions, as Kafka's own metrics count them; worst first."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from platform_defs.kafka.observed import Observed, Partition

WORST = 10  # partitions that are listed


class State(IntEnum):
    """The worst state of a partition, in the order of severity."""

    whole = 0
    under_replicated = 1
    at_min_in_sync = 2  # one replica less, and nothing can be written with acks=all
    under_min_in_sync = 3
    offline = 4


@dataclass(frozen=True)
class PartitionHealth:
    """A partition, its state, and the number of replicas that it lacks."""

    partition: Partition
    state: State
    missing: int


@dataclass(frozen=True)
class Counts:
    """Numbers of partitions; an offline one is under-replicated as well, as in Kafka's metrics."""

    partitions: int
    offline: int
    under_min_in_sync: int
    at_min_in_sync: int
    under_replicated: int
    not_preferred: int  # with a leader, which is not the first of their replicas


def partition_health(observed: Observed) -> tuple[PartitionHealth, ...]:
    """Return the state of every partition. If its leader does not answer it is offline, though the controller may not
    know.

    A replica that a reassignment adds is not missing (as in Kafka's ReplicaManager).
    """
    silent = {broker.id for broker in observed.brokers if not broker.answers}
    adding = {(item.topic, item.number): len(item.adding) for item in observed.moving}
    states = list[PartitionHealth]()
    for item in observed.partitions:
        wanted = len(item.replicas) - adding.get((item.topic, item.number), 0)
        missing = max(0, wanted - len(item.in_sync))
        led = item.leader is not None and item.leader not in silent
        states.append(PartitionHealth(item, _state(item, missing, led=led), missing))
    return tuple(states)


def _state(item: Partition, missing: int, *, led: bool) -> State:
    if not led:
        return State.offline
    if len(item.in_sync) < item.needed_in_sync:
        return State.under_min_in_sync
    if _at_minimum(item):
        return State.at_min_in_sync
    return State.under_replicated if missing else State.whole


def _at_minimum(item: Partition) -> bool:
    return 0 < item.needed_in_sync == len(item.in_sync)


def count(found: Iterable[PartitionHealth]) -> Counts:
    """Return the number of partitions in each state."""
    items = list(found)
    below = [item for item in items if len(item.partition.in_sync) < item.partition.needed_in_sync]
    return Counts(
        partitions=len(items),
        offline=sum(item.state is State.offline for item in items),
        under_min_in_sync=len(below),
        at_min_in_sync=sum(_at_minimum(item.partition) for item in items),
        under_replicated=sum(item.missing > 0 for item in items),
        not_preferred=sum(item.state is not State.offline and not item.partition.led_by_preferred for item in items),
    )


def worst(found: Iterable[PartitionHealth]) -> tuple[PartitionHealth, ...]:
    """Return at most WORST partitions, worst first. One at its minimum that lacks no replica is not included."""
    bad = [item for item in found if item.missing or item.state in (State.offline, State.under_min_in_sync)]
    bad.sort(key=lambda item: (-item.state, -item.missing, item.partition.topic, item.partition.number))
    return tuple(bad[:WORST])
