"""The budget of a run: how much it may do before it gives the pipeline back."""

import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Budget:
    """The limits at which `batch.drain` stops although there is more to read; the caller decides who is next
    (pipelines/scheduler/turns.py).

    A batch that has begun is finished. `ahead`: the next batch begins while one is audited and published.
    """

    batches: int = 1_000
    seconds: float = 3_000.0
    ahead: bool = True


@dataclass
class Spent:
    """The part of its budget that a run has used."""

    budget: Budget
    begun: int = 0  # batches
    started: float = field(default_factory=time.monotonic)

    def may_begin(self) -> bool:
        """Return True if another batch may begin. The first one always may."""
        in_time = time.monotonic() - self.started <= self.budget.seconds
        return self.begun < self.budget.batches and (in_time or not self.begun)

    def may_go_ahead(self) -> bool:
        """Return True if the next batch may begin while another is running."""
        return self.budget.ahead and self.may_begin()
