"""The expected pending batch after one part of a split batch has committed.

It is all of the rest, in parts of that size.
"""

from collections.abc import Mapping
from typing import Any

from platform_defs.offsets import PendingBatch, whole_spans
from tests.model.runs import Run


def continues(run: Run, stored: Mapping[str, Any] | None) -> None:
    """Assert that `stored` is what must be pending once the run has committed its batch."""
    assert run.pending
    rest = run.pending.rest
    if rest is None:
        assert stored is None
        return
    assert stored is not None
    now = PendingBatch.from_json(stored)
    left = now.rest.ranges if now.rest else ()
    assert whole_spans([*now.ranges, *left]) == whole_spans(rest.ranges)
    assert sum(map(len, now.ranges)) <= rest.messages + len(rest.ranges)
