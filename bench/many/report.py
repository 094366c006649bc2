"""The measurement as Markdown, and its place in docs/explanation/performance.md."""

import os
import platform
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from math import ceil
from pathlib import Path
from textwrap import fill

from bench.many.ledger import Tick
from bench.many.load import LINGER
from bench.many.measure import ALLOWED, Measured
from bench.many.plan import BUSY, PARTITIONS, TRICKLE
from bench.many.processes import OURS
from bench.reports.scale_page import table

BEGIN, END = "<!-- bench.many: begin -->", "<!-- bench.many: end -->"
TICK, CONNECTIONS, IDLE = 2.0, 20, 0.05  # the aims


def report(seen: Measured) -> str:
    """Return paragraphs and tables."""
    return "\n\n".join([_setting(seen), _results(seen), _by_minute(seen), _by_part(seen), _by_table(seen)]) + "\n"


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` of the values do not exceed; 0 without values."""
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else 0.0


def _setting(seen: Measured) -> str:
    kinds = [item.kind for item in seen.planned]
    text = (
        f"{len(kinds)} pipelines over {len(kinds)} topics of {PARTITIONS} partitions, for {seen.minutes:g} minutes: "
        f"{kinds.count('trickle')} get {TRICKLE} message a second, {kinds.count('busy')} get {BUSY}, one is halted, "
        f"one has a bad contract, the transform of one fails. {seen.messages:,} messages in all, "
        f"sent with linger.ms={LINGER}. Each latency is "
        f"{seen.latency:.0f} s. {_first_round(seen)} {datetime.now(UTC):%Y-%m-%d}; {os.cpu_count()} cores "
        f"({_processor()}), Python {platform.python_version()}, broker, database and Dagster on the same cores."
    )
    return fill(text, 120, break_on_hyphens=False)


def _first_round(seen: Measured) -> str:
    if seen.first_round is None:
        return "The first round was not over when the measurement began."
    return (
        "The measurement begins once no pipeline has been late for a minute: the first run starts cold, makes the "
        f"tables and reads a backlog. That took {seen.first_round:.0f} s."
    )


def _results(seen: Measured) -> str:
    worst = _worst(seen)
    limit = seen.latency + ALLOWED
    late = sum(age > limit for age in worst.values())
    most = max((look.sessions for look in seen.looks), key=lambda sessions: sum(sessions.values()))
    ours = sum(seen.idle[name] for name in OURS)
    rows = [
        *_ticks(seen.ticks),
        (
            "oldest unread message of a pipeline: median, worst",
            f"{statistics.median(worst.values()):.0f} s, {max(worst.values()):.0f} s",
            f"≤ {limit:.0f} s",
        ),
        (f"pipelines beyond {limit:.0f} s", f"{late} of {len(worst)}", "0"),
        ("our own processes without messages", f"{ours:.1%} of a core", f"≤ {IDLE:.0%}"),
        ("Postgres connections, most at once", _connections(most), f"≤ {CONNECTIONS}"),
        *_carried(seen),
    ]
    return table(("", "measured", "aim"), rows)


def _connections(sessions: Mapping[str, int]) -> str:
    by_name = ", ".join(f"{count} {name or 'Dagster'}" for name, count in sorted(sessions.items()))
    return f"{sum(sessions.values())}: {by_name}"


def _worst(seen: Measured) -> dict[str, float]:
    """Return by topic that must be in time the greatest age of its oldest unread message."""
    return {item.topic: max(look.ages[item.topic] for look in seen.looks) for item in seen.planned if item.measured}


def _ticks(ticks: Sequence[Tick]) -> Iterator[tuple[str, str, str]]:
    """Yield the rows for the sensor that starts runs: how long a tick takes, and the time between ticks."""
    seconds, pauses = [tick.seconds for tick in ticks], [b.started - a.started for a, b in pairwise(ticks)]
    yield (
        f"a tick over all pipelines, {len(ticks)} of them: median, p99",
        f"{percentile(seconds, 0.5):.2f} s, {percentile(seconds, 0.99):.2f} s",
        f"≤ {TICK:.0f} s",
    )
    yield (
        "from one tick to the next: median, worst",
        f"{percentile(pauses, 0.5):.1f} s, {max(pauses, default=0):.1f} s",
        "",
    )


def _carried(seen: Measured) -> Iterator[tuple[str, str, str]]:
    batches, minutes = seen.batches, seen.minutes
    runs = ", ".join(f"{count} {status.lower()}" for status, count, _ in sorted(seen.runs)) or "none"
    yield (
        "batches a minute; messages a batch",
        f"{batches.count / minutes:.0f}; {batches.messages / max(1, batches.count):.0f}",
        "",
    )
    yield "runs", runs, ""
    yield "pipelines that committed a batch", f"{batches.pipelines} of {len(seen.planned)}", ""
    read = "not within the time given" if seen.caught_up is None else f"{seen.caught_up:.0f} s"
    yield "everything read after the last message", read, ""
    steps = ", ".join(
        f"{name} {seconds:.2f}" for name, seconds in sorted(batches.steps.items(), key=lambda item: -item[1])
    )
    yield "seconds of a batch by step, medians", steps, ""
    broker = seen.broker
    yield (
        "the broker with all topics",
        f"created in {broker.seconds:.0f} s; {broker.memory_mb:.0f} MB, {broker.handles:,} files, {broker.maps:,} maps",
        "",
    )


def _by_minute(seen: Measured) -> str:
    """Return the table of ages over time."""
    limit, measured = seen.latency + ALLOWED, [item.topic for item in seen.planned if item.measured]
    minutes = defaultdict[int, list[dict[str, float]]](list)
    for look in seen.looks:
        minutes[int((look.at - seen.started) // 60)].append({topic: look.ages[topic] for topic in measured})
    rows: list[tuple[str, ...]] = []
    for minute, looks in sorted(minutes.items()):
        worst = [max(look[topic] for look in looks) for topic in measured]
        late = sum(age > limit for age in worst)
        rows.append((str(minute + 1), f"{statistics.median(worst):.0f}", f"{max(worst):.0f}", str(late)))
    head = (
        "minute",
        "oldest unread message, median of the pipelines (s)",
        "worst (s)",
        f"pipelines beyond {limit:.0f} s",
    )
    return table(head, rows)


def _by_part(seen: Measured) -> str:
    rows = [(name, f"{seen.busy[name]:.1%}", f"{seen.idle[name]:.1%}") for name in seen.idle]
    return table(("share of one core", "with messages", "without"), rows)


def _by_table(seen: Measured) -> str:
    count = max(1, seen.batches.count)
    found = sorted(((rows / count, name) for name, rows in seen.inserted.items()), reverse=True)
    rows = [(name, f"{each:.2f}") for each, name in found if each >= 0.01]
    for schema, title in {"tidegate": "the ledger, together", "dagster": "Dagster, together"}.items():
        total = sum(rows for name, rows in seen.inserted.items() if name.split(".")[0].startswith(schema))
        rows.append((title, f"{total / count:.2f}"))
    return table(("rows added", "for each batch"), rows)


def _processor() -> str:
    found = (
        re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()) if Path("/proc/cpuinfo").exists() else None
    )
    return f"{platform.machine()}, {found[1].strip()}" if found else platform.machine()
