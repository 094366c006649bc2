"""Every scenario, in the order in which they run. Each module registers its own."""

from tests.chaos.fault_classes import FaultClass
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

__all__ = ["ELSEWHERE", "SCENARIOS"]

RUNS = (FaultClass.RUN_KILLED, FaultClass.RUN_OVERTAKEN, FaultClass.TWO_RUNS)
# Scenarios that are also tested on three brokers and behind a pooler: those of runs, except the two that kill a run at
# each named point, which take minutes there.
ELSEWHERE = {
    name: found for name, found in SCENARIOS.items() if found.fault_class in RUNS and "each named point" not in name
}
