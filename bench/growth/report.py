"""The measurement as Markdown, and its place in docs/explanation/performance.md."""

import os
import platform
import statistics
from datetime import UTC, datetime
from textwrap import fill

from bench.growth.history import MESSAGES, OF_A_RUN
from bench.growth.measure import REAL, SIZES, Measured

BEGIN, END = "<!-- bench.growth: begin -->", "<!-- bench.growth: end -->"


def report(seen: Measured) -> str:
    """Return paragraphs and a table."""
    return "\n\n".join([_setting(seen), _times(seen), _nights(seen)]) + "\n"


def _setting(seen: Measured) -> str:
    text = (
        f"{seen.days * seen.batches:,} batches of {MESSAGES} messages, of one pipeline with an append table. A day is "
        f"{seen.batches:,} batches; each night the topic loses what is older than the day, and the job `prune` runs "
        f"with that retention. Of these batches Spark read none: each was planned, staged, published and reported by "
        f"the same code and the same statements as a real one, with rows put beside the table by one INSERT; runs of "
        f"{OF_A_RUN} batches were recorded in Dagster. VACUUM ran each night, as autovacuum does within a day. Then "
        f"runs of Dagster's with Spark read {REAL} real batches a round, by turns here and on a new stack. At the end "
        f"`verify` found the table exact. "
        f"{datetime.now(UTC):%Y-%m-%d}; {os.cpu_count()} cores ({platform.machine()}), Python "
        f"{platform.python_version()}, brokers and databases on the same cores."
    )
    return fill(text, 120, break_on_hyphens=False)


def _times(seen: Measured) -> str:
    ratios = sorted(old / new for new, old in zip(seen.new, seen.old, strict=True))
    text = (
        f"From one commit to the next, reports to Dagster included, median of a round's batches: after that history "
        f"{statistics.median(ratios):.2f} times as long as on the new stack (median of {len(ratios)} rounds, "
        f"{ratios[0]:.2f} to {ratios[-1]:.2f}; {statistics.median(seen.old):.3f} s and "
        f"{statistics.median(seen.new):.3f} s). The aim is 1.1 at most."
    )
    return fill(text, 120, break_on_hyphens=False)


def _nights(seen: Measured) -> str:
    names = [f"{name} (MB)" for name in SIZES]
    lines = [_row("after so many batches", "batches kept", "runs kept", *names, "prune (s)")]
    lines.append(_row(*["---"] * (4 + len(names))))
    for night in seen.nights:
        sizes = [f"{size / 1e6:.1f}" for size in night.sizes.values()]
        lines.append(_row(f"{night.batches:,}", f"{night.kept:,}", night.runs, *sizes, f"{night.seconds:.1f}"))
    return "\n".join(lines)


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"
