"""Rounds over several paths: the speeds, and the tables of them.

A machine's speed changes from minute to minute, so each path is compared with its yardstick in the same round, and the
medians are of those ratios.
"""

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence

from bench.paths import PARTITIONS, Bench, Path, clean
from bench.reports.aims import Seen, ratios
from platform_defs.errors import BadInput


def measure(bench: Bench, paths: Sequence[Path], rounds: int, say: Callable[[str], None]) -> Seen:
    """Return the messages per second of each round by path. One more runs before them: it is cold and does not
    count.
    """
    seen: dict[str, list[float]] = {path.name: [] for path in paths}
    for number in range(rounds + 1):
        for path in [one for one in paths if one.name in seen]:
            clean(bench.endpoints.postgres_url)
            if (speed := _speed_if_any(bench, path, say)) is None:
                del seen[path.name]
                continue
            say(f"round {number} {'(cold) ' if number == 0 else ''}{path.name}: {speed:,.0f} messages/s")
            if number:
                seen[path.name].append(speed)
    clean(bench.endpoints.postgres_url)
    return seen


def _speed_if_any(bench: Bench, path: Path, say: Callable[[str], None]) -> float | None:
    """Return messages per second; None if a peer fails, which is reported."""
    try:
        return speed_of(bench, path)
    except BadInput as error:
        if path.ours:
            raise
        say(f"left out: {path.name}: {error}")
        return None


def speed_of(bench: Bench, path: Path) -> float:
    """Return messages per second for one pass. Raises BadInput if not all of them arrived."""
    started = time.perf_counter()
    messages = path.carry(bench)
    taken = time.perf_counter() - started
    if messages != bench.messages:
        raise BadInput(f"{path.name}: {messages} of {bench.messages} messages arrived")
    return messages / taken


def conditions(messages: int, rounds: int) -> str:
    """Return what was measured, and on which machine."""
    return (
        f"{messages:,} messages of about 180 bytes, {PARTITIONS} partitions; warm, median of {rounds}; "
        f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, broker and database on the"
        " same cores."
    )


def tables(seen: Seen, paths: Sequence[Path]) -> str:
    """Return a Markdown table for each yardstick with the paths that are compared with it."""
    yardsticks = list(dict.fromkeys(path.against for path in paths if path.against is not None))
    return "\n\n".join(_table(seen, [path.name for path in paths if path.against == one], one) for one in yardsticks)


def _table(seen: Seen, names: Sequence[str], yardstick: str) -> str:
    lines = [_row(name, seen[name], seen[yardstick]) for name in names]
    own = f"| {yardstick} | {statistics.median(seen[yardstick]):,.0f} | 1.00 |"
    return "\n".join(["| path | messages/s | against the last one, in the same round |", "|---|---|---|", *lines, own])


def _row(name: str, speeds: Sequence[float], others: Sequence[float]) -> str:
    found = ratios(speeds, others)
    between = f"{statistics.median(found):.2f} ({found[0]:.2f} to {found[-1]:.2f})"
    return f"| {name} | {statistics.median(speeds):,.0f} | {between} |"
