"""Move things from the brokers that have most to those that have fewest, by the cheapest chains of moves.

Where nothing can go from the fullest broker to the emptiest, it goes to a third, which gives away something else: a
shortest path, as in a minimum-cost flow whose costs are the squares of what the brokers hold.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

Held = int  # what is moved: a replica of the partition of that number, or its leadership
Options = Callable[[int], Iterable[tuple[Held, int, int]]]  # of a broker: what it may give, to whom, at what cost
Move = Callable[[Held, int, int], bool]  # from one broker to another; False where it is not possible any more


@dataclass(frozen=True)
class _Step:
    held: Held
    source: int
    target: int


@dataclass(frozen=True)
class _Chain:
    cost: int
    steps: tuple[_Step, ...]


def level(counts: Counter[int], options: Options, move: Move, weight: Callable[[int], tuple[int, int]]) -> None:
    """Move until no broker has two more than another one that a chain of moves leads to, and no chain saves a move.

    `weight` decides between equal choices: the lighter broker receives. `counts` is kept up to date.
    """
    while True:
        edges = _edges(counts, options)
        chains = (
            (source, target, chain)
            for source in sorted(counts, key=lambda broker: (-counts[broker], broker))
            for target, chain in _best_first(source, counts, edges, weight)
        )
        if not any(_carry(source, target, chain, counts, move) for source, target, chain in chains):
            return


def _carry(source: int, target: int, chain: _Chain, counts: Counter[int], move: Move) -> bool:
    """Do all steps, the last first, or none of them."""
    done: list[_Step] = []
    for step in reversed(chain.steps):
        if not move(step.held, step.source, step.target):
            for undone in reversed(done):
                move(undone.held, undone.target, undone.source)
            return False
        done.append(step)
    counts[source] -= 1
    counts[target] += 1
    return True


def _edges(counts: Counter[int], options: Options) -> dict[int, dict[int, tuple[int, Held]]]:
    """By broker and broker: the cheapest thing that the one may give the other."""
    found: dict[int, dict[int, tuple[int, Held]]] = {}
    for source in counts:
        best = found.setdefault(source, {})
        for held, target, cost in options(source):
            if target not in best or (cost, held) < best[target]:
                best[target] = cost, held
    return found


def _best_first(
    source: int,
    counts: Counter[int],
    edges: dict[int, dict[int, tuple[int, Held]]],
    weight: Callable[[int], tuple[int, int]],
) -> list[tuple[int, _Chain]]:
    """The brokers that chains lead to and that make it more even, or as even with fewer moves; cheapest first."""
    chains = _chains(source, edges)
    better = [
        target
        for target, chain in chains.items()
        if counts[source] - counts[target] >= 2 or (counts[source] - counts[target] == 1 and chain.cost < 0)
    ]
    better.sort(key=lambda target: (chains[target].cost, len(chains[target].steps), counts[target], weight(target)))
    return [(target, chains[target]) for target in better]


def _chains(source: int, edges: dict[int, dict[int, tuple[int, Held]]]) -> dict[int, _Chain]:
    """The cheapest chain from a broker to each other one (Bellman-Ford: a move back to where it was saves one)."""
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
    """A chain visits no broker twice, and moves nothing twice."""
    visited = {one.source for one in chain.steps} | {step.source}
    if target in visited or any(one.held == step.held for one in chain.steps):
        return
    longer = _Chain(chain.cost + cost, (*chain.steps, step))
    known = found.get(target)
    if known is None or (longer.cost, len(longer.steps)) < (known.cost, len(known.steps)):
        found[target] = longer
