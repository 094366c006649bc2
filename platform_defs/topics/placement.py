"""The placement of a topic's replicas on brokers: replicas that need not move stay, preferred leaders above all.

It uses the moves of `tidegate cluster reassign` (platform_defs/cluster/moves.py), which also balances a topic.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from platform_defs.cluster.moves import Site, over_racks, with_factor
from platform_defs.kafka.observed import Replicas

Racks = Mapping[int, str | None]  # of the live brokers


def spread_over(replicas: Replicas, racks: Racks) -> bool:
    """Return True if the replicas are in as many racks as possible, or if a broker's rack is not known."""
    if None in racks.values() or any(broker not in racks for broker in replicas):
        return True
    return Site(racks).is_spread(replicas)


def replaced(current: Sequence[Replicas], factor: int, racks: Racks) -> list[Replicas]:
    """Return the replicas of each partition, `factor` of them, spread over racks.

    New replicas go to the brokers with the fewest replicas of the topic. `factor` is at most the number of brokers.
    """
    site = Site(racks)
    sized = with_factor(dict(enumerate(current)), site, factor)
    return list((sized if None in racks.values() else over_racks(sized, site)).values())


def added(current: Sequence[Replicas], count: int, factor: int, racks: Racks) -> list[Replicas]:
    """Return the replicas of `count` more partitions: each on the brokers with the fewest leaders, then replicas."""
    load = Counter(broker for replicas in current for broker in replicas)
    leads, found = Counter(replicas[0] for replicas in current), list[Replicas]()
    for _ in range(count):
        leader = min(racks, key=lambda broker: (leads[broker], load[broker], broker))
        (replicas,) = with_factor({0: (leader,)}, Site(racks, load), factor).values()
        leads[leader] += 1
        load.update(replicas)
        found.append(replicas)
    return found
