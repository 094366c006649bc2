"""Every scenario, in the order in which they are played. Each module registers its own."""

from tests.chaos import (  # noqa: F401
    brokers,
    commits,
    delivery,
    groups,
    kills,
    messages,
    postgres,
    storage,
    tables,
)
from tests.chaos.scenario import SCENARIOS

__all__ = ["SCENARIOS"]
