"""The target placement of replicas: even on brokers and racks, with the fewest moves, with leaders spread evenly.

A partition keeps its number of replicas unless another one is requested. The criteria, in this order: each partition on
min(replicas, racks) racks; the topic's replicas as even on brokers as that allows; the fewest replicas moved; then,
which moves no byte, leaders as even as possible.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from platform_defs.cluster.levelling import Held, level
from platform_defs.kafka.observed import Replicas

OfTopic = Mapping[int, Replicas]  # by partition, the replicas in the order of preference


@dataclass(frozen=True)
class Site:
    """The brokers that may have replicas, with their racks (None: a rack of its own), and their load.

    `load` counts the replicas of all other topics on each: of two equal choices the less loaded broker is taken.
    """

    racks: Mapping[int, str | None]
    load: Mapping[int, int] = field(default_factory=dict[int, int])

    @property
    def brokers(self) -> list[int]:
        return sorted(self.racks)

    def rack(self, broker: int) -> str:
        """Return the broker's rack; a name of its own if it has none or is not in the site."""
        return self.racks.get(broker) or f"broker {broker}"

    def spread(self, replicas: Iterable[int]) -> int:
        """Return the number of racks of the site that these replicas are on."""
        return len({self.rack(broker) for broker in replicas if broker in self.racks})

    def beside(self, broker: int, replicas: Iterable[int]) -> int:
        """Return the number of these replicas on the broker's rack."""
        return sum(self.rack(other) == self.rack(broker) for other in replicas)

    def is_spread(self, replicas: Sequence[int]) -> bool:
        """Return True if these replicas are on as many racks as possible."""
        return self.spread(replicas) >= min(len(replicas), self.spread(self.brokers))

    def weight(self, broker: int) -> tuple[int, int]:
        return self.load.get(broker, 0), broker


def rearranged(observed: OfTopic, site: Site, replication_factor: int | None = None) -> dict[int, Replicas]:
    """Return the new assignment of a topic. `replication_factor` must not exceed the brokers of the site."""
    resized = observed if replication_factor is None else with_factor(observed, site, replication_factor)
    return led_evenly(spread_evenly(resized, site, observed))


def with_factor(observed: OfTopic, site: Site, replication_factor: int) -> dict[int, Replicas]:
    """Return the assignment of a topic with another number of replicas; the others keep their order.

    A replica is added on the rack with the fewest replicas of the partition, on the broker with the fewest of the
    topic. It is removed from a broker outside the site; else from a shared rack if there is one, from the broker with
    the most, and never the first, which leads.
    """
    held = {number: list(replicas) for number, replicas in sorted(observed.items())}
    counts = Counter(broker for replicas in held.values() for broker in replicas)
    for replicas in held.values():
        while len(replicas) < replication_factor:
            added = min(
                (broker for broker in site.brokers if broker not in replicas),
                key=lambda broker: (site.beside(broker, replicas), counts[broker], site.weight(broker)),
            )
            replicas.append(added)
            counts[added] += 1
        while len(replicas) > replication_factor:
            outside = [broker for broker in replicas if broker not in site.racks]
            spread = {broker: site.spread(set(replicas) - {broker}) for broker in replicas}
            taken = max(outside or replicas[1:], key=lambda one: (spread[one], counts[one], site.weight(one)))
            replicas.remove(taken)
            counts[taken] -= 1
    return {number: tuple(replicas) for number, replicas in held.items()}


def spread_evenly(assigned: OfTopic, site: Site, observed: OfTopic | None = None) -> dict[int, Replicas]:
    """Return the replicas of a topic on brokers of the site alone, on enough racks, evenly, with the fewest moves from
    the `observed` ones (default: `assigned`). A new replica takes the place in the order of the one that it replaces.
    """
    held = {number: list(replicas) for number, replicas in sorted(assigned.items())}
    first = {number: frozenset(replicas) for number, replicas in (observed or assigned).items()}
    brokers = site.brokers
    counts = Counter(dict.fromkeys(site.brokers, 0))
    counts.update(broker for replicas in held.values() for broker in replicas if broker in site.racks)
    for replicas in held.values():  # onto brokers of the site, and onto as many racks as possible
        while (away := [one for one in replicas if one not in site.racks]) or not site.is_spread(replicas):
            _swap_one(away or replicas, replicas, site, counts)

    def options(number: Held) -> Iterable[tuple[int, int, int]]:
        for broker in held[number]:
            for other in brokers:
                if _fits(held[number], broker, other, site):
                    yield broker, other, (other not in first[number]) - (broker not in first[number])

    def move(number: Held, source: int, target: int) -> bool:
        if source not in held[number] or not _fits(held[number], source, target, site):
            return False
        held[number][held[number].index(source)] = target
        return True

    level(counts, held, options, move, site.weight)
    return {number: tuple(replicas) for number, replicas in held.items()}


def _swap_one(leaving: Sequence[int], replicas: list[int], site: Site, counts: Counter[int]) -> None:
    """Replace one of the `leaving` replicas by another broker: for the most racks, then the least load."""
    _, source, target = min(
        ((-site.spread(_replaced(replicas, old, new)), counts[new] - counts[old], site.weight(new)), old, new)
        for old in leaving
        for new in site.brokers
        if new not in replicas
    )
    replicas[replicas.index(source)] = target
    counts[target] += 1
    counts[source] -= 1


def over_racks(assigned: OfTopic, site: Site) -> dict[int, Replicas]:
    """Return the replicas of a topic with each partition on as many racks as possible, and nothing else moved: never
    the first replica, which leads, and no partition that has a replica outside the site.
    """
    held = {number: list(replicas) for number, replicas in sorted(assigned.items())}
    counts = Counter(broker for replicas in held.values() for broker in replicas)
    for replicas in held.values():
        while site.racks.keys() >= set(replicas) and not site.is_spread(replicas):
            _swap_one(replicas[1:], replicas, site, counts)
    return {number: tuple(replicas) for number, replicas in held.items()}


def _replaced(replicas: Sequence[int], source: int, target: int) -> list[int]:
    return [target if broker == source else broker for broker in replicas]


def _fits(replicas: Sequence[int], source: int, target: int, site: Site) -> bool:
    if target in replicas:
        return False
    return site.spread(_replaced(replicas, source, target)) >= site.spread(replicas)


def led_evenly(assigned: OfTopic) -> dict[int, Replicas]:
    """Return the same replicas, reordered so that every broker is first equally often, as far as possible.

    No byte moves. Orders change in as few partitions as possible.
    """
    held = {number: list(replicas) for number, replicas in sorted(assigned.items())}
    counts = Counter({broker: 0 for replicas in held.values() for broker in replicas})
    counts.update(replicas[0] for replicas in held.values())

    def options(number: Held) -> Iterable[tuple[int, int, int]]:
        broker, *others = held[number]
        was = assigned[number][0]
        for other in others:
            yield broker, other, (other != was) - (broker != was)

    def move(number: Held, source: int, target: int) -> bool:
        replicas = held[number]
        if replicas[0] != source:
            return False
        replicas.remove(target)
        replicas.insert(0, target)
        return True

    level(counts, held, options, move, lambda broker: (0, broker))
    return {number: tuple(replicas) for number, replicas in held.items()}


def moved(observed: OfTopic, planned: OfTopic) -> int:
    """Return the number of replicas on brokers that did not have them before."""
    return sum(len(set(planned[number]) - set(observed[number])) for number in planned)
