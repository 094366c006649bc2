"""How much memory a run uses: its own process, Spark's JVM, and the Python workers of its tasks."""

from contextlib import suppress

import psutil


def resident_bytes() -> int:
    """Of this process and its children together. Pages that they share count in each."""
    own = psutil.Process()
    found = 0
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.Error):  # it ends while it is asked
            found += process.memory_info().rss
    return found
