"""The page of the curves: docs/explanation/scale.md."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from textwrap import fill

from platform_defs.settings.settings import PROJECT_ROOT

PAGE = PROJECT_ROOT / "docs" / "explanation" / "scale.md"


def markers(name: str) -> tuple[str, str]:
    """Return the lines that enclose the tables of a curve."""
    return f"<!-- bench.{name}: begin -->", f"<!-- bench.{name}: end -->"


def measured_on(how: str) -> str:
    """Return the date and the machine."""
    text = (
        f"{how}. {datetime.now(UTC):%Y-%m-%d}; {os.cpu_count()} cores ({platform.machine()}), Python "
        f"{platform.python_version()}, broker, database and other work on the same cores."
    )
    return fill(text, 120, break_on_hyphens=False)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])
