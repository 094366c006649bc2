"""Every scenario, in the order in which they run. Each module registers its own."""

from tests.chaos.kafka import (  # noqa: F401
    brokers,
    cluster,
    cluster_commands,
    elections,
    groups,
    messages,
    registries,
    renames,
    rights,
    stale,
    topics,
    transactions,
)
from tests.chaos.postgres import commits, contracts, network, postgres, pruning, storage, tables, verdicts  # noqa: F401
from tests.chaos.processes import ahead, clock, continuous, dagster, direct, kills, spark, stuck  # noqa: F401
from tests.chaos.scenario import SCENARIOS

__all__ = ["SCENARIOS"]
