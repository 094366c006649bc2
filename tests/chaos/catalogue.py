"""Every scenario, in the order in which they are played."""

from tests.chaos import brokers, clock, dagster, kills, postgres  # noqa: F401  # each module registers its own
from tests.chaos.scenario import SCENARIOS

__all__ = ["SCENARIOS"]
