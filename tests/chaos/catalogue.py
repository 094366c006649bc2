"""Every scenario, in the order in which they are played."""

from tests.chaos import brokers, commits, kills, messages, postgres, spark, storage, tables  # noqa: F401  # each module registers its own
from tests.chaos.scenario import SCENARIOS

__all__ = ["SCENARIOS"]
