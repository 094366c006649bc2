"""Which brokers hold a partition: as few moves as there can be, over as many racks as there can be."""

from collections import Counter
from collections.abc import Mapping, Sequence

from platform_defs.topics.observed import Replicas

Racks = Mapping[int, str | None]  # of the live brokers


def spread_over(replicas: Replicas, racks: Racks) -> bool:
    """Whether the replicas are in as many racks as they can be; so is what cannot be judged."""
    known = {racks[broker] for broker in racks}
    if None in known or any(broker not in racks for broker in replicas):
        return True
    return len({racks[broker] for broker in replicas}) >= min(len(replicas), len(known))


def replaced(current: Sequence[Replicas], factor: int, racks: Racks) -> list[Replicas]:
    """The replicas of each partition with `factor` of them, spread over racks.

    What need not move stays, the preferred leader above all; who is added holds the fewest replicas of the topic.
    `factor` is at most the number of brokers.
    """
    load, found = Counter(broker for replicas in current for broker in replicas), list[Replicas]()
    for replicas in current:
        wanted = _sized(replicas, factor, racks, load)
        while not spread_over(wanted, racks):
            wanted = _moved(wanted, racks, load)
        load.subtract(replicas)
        load.update(wanted)
        found.append(wanted)
    return found


def added(current: Sequence[Replicas], count: int, factor: int, racks: Racks) -> list[Replicas]:
    """The replicas of `count` more partitions: each on the brokers that lead, then hold, the fewest."""
    load = Counter(broker for replicas in current for broker in replicas)
    leads, found = Counter(replicas[0] for replicas in current), list[Replicas]()
    for _ in range(count):
        leader = min(racks, key=lambda broker: (leads[broker], load[broker], broker))
        replicas = _sized((leader,), factor, racks, load)
        leads[leader] += 1
        load.update(replicas)
        found.append(replicas)
    return found


def _sized(replicas: Replicas, factor: int, racks: Racks, load: Counter[int]) -> Replicas:
    wanted = list(replicas)
    while len(wanted) > factor:
        wanted.remove(_spare(wanted, racks))
    while len(wanted) < factor:
        taken = Counter(racks.get(broker) for broker in wanted)
        wanted.append(min(set(racks) - set(wanted), key=lambda broker: (taken[racks[broker]], load[broker], broker)))
    return tuple(wanted)


def _moved(replicas: Replicas, racks: Racks, load: Counter[int]) -> Replicas:
    """One replica of a rack that has two is moved into a rack that has none."""
    taken = {racks[broker] for broker in replicas}
    free = [broker for broker in racks if racks[broker] not in taken]
    spare = _spare(replicas, racks)
    to = min(free, key=lambda broker: (load[broker], broker))
    return tuple(to if broker == spare else broker for broker in replicas)


def _spare(replicas: Sequence[int], racks: Racks) -> int:
    """The replica that is missed least: of a broker that is gone, else of a rack that has two; the last of those."""
    taken = Counter(racks.get(broker) for broker in replicas)
    gone = [broker for broker in replicas if broker not in racks]
    return (gone or [broker for broker in replicas[1:] if taken[racks[broker]] > 1] or list(replicas))[-1]
