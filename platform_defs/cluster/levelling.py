"""Move things from the brokers with most to those with fewest, by the cheapest chains of moves.

If nothing can move from the fullest broker to the emptiest, it goes by a third broker, which gives something else: a
shortest path, as in a minimum-cost flow whose costs are the squares of the brokers' counts.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

Held = int  # the thing moved: a replica of the partition of that number, or its leadership
Options = Callable[[Held], Iterable[tuple[int, int, int]]]  # of a thing: (source, target, cost)
Move = Callable[[Held, int, int], bool]  # from one broker to another; False if it is no longer possible


@dataclass(frozen=True)
class _Step:
    held: Held
    source: int
    target: int


@dataclass(frozen=True)
class _Chain:
    cost: int
    steps: tuple[_Step, ...]


def level(
    counts: Counter[int], things: Iterable[Held], options: Options, move: Move, weight: Callable[[int], tuple[int, int]]
) -> None:
    """Move until no broker has two more than another that a chain of moves reaches, and no chain saves a move.

    `weight` breaks ties: the lighter broker receives. `counts` is kept up to date.
    """
    offers = _Offers(options, things)
    while True:
        edges = offers.cheapest(counts)
        chains = (
            (source, target, chain)
            for source in sorted(counts, key=lambda broker: (-counts[broker], broker))
            for target, chain in _best_first(source, counts, edges, weight)
        )
        if not any(_carry(source, target, chain, counts, move, offers) for source, target, chain in chains):
            return


class _Offers:
    """The possible moves between brokers. Options are computed again only for moved things, since there may be
    thousands.
    """

    def __init__(self, options: Options, things: Iterable[Held]) -> None:
        self._options = options
        self._costs: dict[Held, dict[tuple[int, int], int]] = {}
        self._queues: dict[tuple[int, int], list[tuple[int, Held]]] = {}  # stale entries are dropped when seen
        self.renew(things)

    def renew(self, things: Iterable[Held]) -> None:
        """Compute the options of these things again."""
        for held in things:
            before = self._costs.get(held, {})
            self._costs[held] = {(source, target): cost for source, target, cost in self._options(held)}
            for way, cost in self._costs[held].items():
                if before.get(way) != cost:
                    heappush(self._queues.setdefault(way, []), (cost, held))

    def cheapest(self, brokers: Iterable[int]) -> dict[int, dict[int, tuple[int, Held]]]:
        """Return the cheapest possible move by source and target broker."""
        found: dict[int, dict[int, tuple[int, Held]]] = {broker: {} for broker in brokers}
        for way, queue in self._queues.items():
            while queue and self._costs[queue[0][1]].get(way) != queue[0][0]:
                heappop(queue)
            if queue:
                found[way[0]][way[1]] = queue[0]
        return found


def _carry(source: int, target: int, chain: _Chain, counts: Counter[int], move: Move, offers: _Offers) -> bool:
    """Carry out all steps, the last one first, so that no broker has one more meanwhile; or none. Return True if they
    were carried out.
    """
    done: list[_Step] = []
    for step in reversed(chain.steps):
        if not move(step.held, step.source, step.target):
            for undone in reversed(done):
                move(undone.held, undone.target, undone.source)
            return False
        done.append(step)
    offers.renew(step.held for step in chain.steps)
    counts[source] -= 1
    counts[target] += 1
    return True


def _best_first(
    source: int,
    counts: Counter[int],
    edges: dict[int, dict[int, tuple[int, Held]]],
    weight: Callable[[int], tuple[int, int]],
) -> list[tuple[int, _Chain]]:
    """Return the brokers with a chain that improves the balance, or keeps it with fewer moves; cheapest first."""
    chains = _chains(source, edges)
    better = [
        target
        for target, chain in chains.items()
        if counts[source] - counts[target] >= 2 or (counts[source] - counts[target] == 1 and chain.cost < 0)
    ]
    better.sort(key=lambda target: (chains[target].cost, len(chains[target].steps), counts[target], weight(target)))
    return [(target, chains[target]) for target in better]


def _chains(source: int, edges: dict[int, dict[int, tuple[int, Held]]]) -> dict[int, _Chain]:
    """Return the cheapest chain from a broker to each other one (Bellman-Ford: a move back to the original broker saves
    one).
    """
    found = {source: _Chain(0, ())}
    for _ in edges:
        before = dict(found)
        for broker, chain in before.items():
            for target, (cost, held) in edges[broker].items():
                _improve(found, target, chain, _Step(held, broker, target), cost)
        if found == before:
            break
    found.pop(source)
    return found


def _improve(found: dict[int, _Chain], target: int, chain: _Chain, step: _Step, cost: int) -> None:
    """Keep the chain if it is cheaper. A chain visits no broker twice, and moves nothing twice."""
    visited = {one.source for one in chain.steps} | {step.source}
    if target in visited or any(one.held == step.held for one in chain.steps):
        return
    longer = _Chain(chain.cost + cost, (*chain.steps, step))
    known = found.get(target)
    if known is None or (longer.cost, len(longer.steps)) < (known.cost, len(known.steps)):
        found[target] = longer
