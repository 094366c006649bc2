"""The memory that a run uses: its own process, Spark's JVM, and the Python workers of its tasks."""

from contextlib import suppress

import psutil


def resident_bytes() -> int:
    """Return the resident memory of this process and its children. Pages that they share count in each."""
    own = psutil.Process()
    found = 0
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.Error):  # it may end meanwhile
            found += process.memory_info().rss
    return found
