"""Latencies of messages, in a fixed amount of memory however many there are."""

import math
from collections import Counter

STEP = math.log(1.01)  # a quantile is at most 1% above the true one
SHORTEST = 1e-9  # seconds
AT_ONCE = 10_000  # latencies buffered before they are counted


class Latencies:
    """Latencies in seconds, counted in classes of 1%; the largest is exact."""

    def __init__(self) -> None:
        self._new: list[float] = []
        self._counted = Counter[int]()
        self._longest = 0.0

    def add(self, seconds: float) -> None:
        self._new.append(seconds)
        if len(self._new) >= AT_ONCE:
            self._count()

    def milliseconds(self, share: float) -> float | None:
        """Return the quantile in ms: 0.5 is the median, 1 the maximum. None without messages."""
        self._count()
        wanted, seen = share * self._counted.total(), 0
        for step in sorted(self._counted):
            seen += self._counted[step]
            if seen >= wanted:
                return round(1_000 * min(math.exp((step + 1) * STEP), self._longest), 3)
        return None

    def merge(self, other: "Latencies") -> None:
        self._count()
        other._count()
        self._counted.update(other._counted)
        self._longest = max(self._longest, other._longest)

    def _count(self) -> None:
        if not self._new:
            return
        import numpy as np  # a command that sends nothing does not wait for its import

        new = np.maximum(np.array(self._new), SHORTEST)
        classes, counts = np.unique(np.floor(np.log(new) / STEP).astype(int), return_counts=True)
        self._counted.update(dict(zip(classes.tolist(), counts.tolist(), strict=True)))
        self._longest = max(self._longest, float(new.max()))
        self._new.clear()
