"""`make chaos`: every scenario, a table of what fired and what was lost or doubled, and exit code 0 only for none.

    python -m tests.chaos [--seed N] [--kills N] [--only PART OF A NAME]

In a TIDEGATE_HOME of its own, which is emptied afterwards.
"""

import argparse
import os
import random
import sys
import tempfile
import time

from rich.console import Console
from rich.table import Table

from resources.local import stack
from resources.settings import connection
from resources.spark import spark_config, start_session
from tests.chaos import three_brokers
from tests.chaos.catalogue import SCENARIOS
from tests.chaos.scenario import Chaos
from tests.world import World

console = Console()


def main() -> int:
    chosen = argparse.ArgumentParser(prog="make chaos")
    chosen.add_argument("--seed", type=int, default=random.randrange(10**6))
    chosen.add_argument("--kills", type=int, default=200)
    chosen.add_argument("--only", default="")
    given = chosen.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-chaos-") as home:
        os.environ["TIDEGATE_HOME"] = home
        for name in ("TIDEGATE_POSTGRES_URL", "TIDEGATE_KAFKA_BOOTSTRAP_SERVERS"):
            os.environ.pop(name, None)
        stack.up(console.print)
        try:
            return _play(given.seed, given.kills, given.only)
        finally:
            three_brokers.stop()
            stack.down()


def _play(seed: int, kills: int, only: str) -> int:
    console.print(f"seed {seed}")
    world = World(connection(), lambda: start_session(spark_config()))
    table = Table("scenario", "fired", "lost", "duplicated", "outcome", "seconds")
    failed = 0
    for name, play in SCENARIOS.items():
        if only not in name:
            continue
        started = time.monotonic()
        console.print(f"{name} ...")
        try:
            verdict = play(Chaos(world, random.Random(f"{seed} {name}"), kills))
            row = [str(verdict.fired), str(verdict.lost), str(verdict.duplicated), verdict.outcome]
            failed += verdict.lost + verdict.duplicated > 0
        except Exception as error:  # noqa: BLE001  # whatever it is, the other scenarios are played too
            row, failed = ["", "", "", f"FAILED: {type(error).__name__}: {error}"], failed + 1
        table.add_row(name, *row, f"{time.monotonic() - started:.0f}")
    console.print(table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
