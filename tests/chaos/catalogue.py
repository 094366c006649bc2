"""Every scenario, in the order in which they are played. Each module registers its own."""

from tests.chaos import (  # noqa: F401
    ahead,
    brokers,
    clock,
    cluster,
    cluster_commands,
    commits,
    continuous,
    contracts,
    dagster,
    direct,
    elections,
    groups,
    kills,
    messages,
    network,
    postgres,
    pruning,
    registries,
    renames,
    rights,
    spark,
    stale,
    storage,
    stuck,
    tables,
    topics,
    transactions,
    verdicts,
)
from tests.chaos.scenario import SCENARIOS

__all__ = ["SCENARIOS"]
