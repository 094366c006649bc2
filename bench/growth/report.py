"""The measurement as Markdown, and its place in docs/explanation/performance.md."""

import os
import platform
import statistics
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill

from bench.growth.history import MESSAGES, OF_A_RUN
from bench.growth.measure import COLD, REAL, SIZES, Measured
from bench.page import PAGE, write_between

BEGIN, END = "<!-- bench.growth: begin -->", "<!-- bench.growth: end -->"


def report(seen: Measured) -> str:
    """Paragraphs and a table."""
    return "\n\n".join([_setting(seen), _times(seen), _nights(seen)]) + "\n"


def write(text: str, page: Path = PAGE) -> None:
    """Put `text` between the page's markers. Raises ValueError where they are missing."""
    write_between(BEGIN, text, END, page)


def _setting(seen: Measured) -> str:
    real = 2 * (COLD + REAL)
    text = (
        f"{seen.days * seen.batches + real:,} batches of {MESSAGES} messages, of one pipeline with an append table. A "
        f"day is {seen.batches:,} batches; each night the topic loses what is older than the day, and the job `prune` "
        f"runs with that retention. {real} batches are real ones, in runs of Dagster's with Spark, half before all "
        f"others and half after them. The others were not read by Spark: each was planned, staged, published and "
        f"reported by the same code and the same statements, with rows put beside the table by one INSERT; runs of "
        f"{OF_A_RUN} batches were recorded in Dagster. VACUUM ran each night, as autovacuum does within a day. "
        f"At the end `verify` found the table exact. "
        f"{datetime.now(UTC):%Y-%m-%d}; {os.cpu_count()} cores ({platform.machine()}), Python "
        f"{platform.python_version()}, broker and database on the same cores."
    )
    return fill(text, 120, break_on_hyphens=False)


def _times(seen: Measured) -> str:
    before, after = statistics.median(seen.before), statistics.median(seen.after)
    text = (
        f"From one commit to the next, median of {REAL} real batches, reports to Dagster included: {before:.3f} s "
        f"before, {after:.3f} s after ({after / before - 1:+.0%})."
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
