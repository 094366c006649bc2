"""`make chaos`: run every scenario, print what fired and what was lost or doubled, and exit with 0 only for none.

    python -m tests.chaos [--seed N] [--kills N] [--only PART OF A NAME] [--minutes N]

It runs in its own TIDEGATE_HOME, which is emptied afterwards. A scenario that has not begun after `--minutes`, or that
takes longer than ten minutes, fails.
"""

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest
from rich.console import Console
from rich.table import Table

from platform_defs.spark.session import spark_config, start_session
from platform_defs.stack import stack
from platform_defs.stack.endpoints import connection
from tests.chaos.catalogue import SCENARIOS
from tests.chaos.kafka import three_brokers
from tests.chaos.scenario import Chaos, Play
from tests.support.world import World

console = Console()
SCENARIO = 600  # seconds that one may take ...
RESERVE = 60  # ... and that are reserved to finish the last one and to stop the servers


def main() -> int:
    chosen = argparse.ArgumentParser(prog="make chaos")
    chosen.add_argument("--seed", type=int, default=random.randrange(10**6))
    chosen.add_argument("--kills", type=int, default=50)  # 5 s each, of SCENARIO
    chosen.add_argument("--only", default="")
    chosen.add_argument("--minutes", type=float, default=90.0)
    given = chosen.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-chaos-") as home:
        os.environ["TIDEGATE_HOME"] = home
        for name in ("TIDEGATE_POSTGRES_URL", "TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", "TIDEGATE_REGISTRY_URL"):
            os.environ.pop(name, None)
        stack.up(console.print)
        try:
            return _play(given.seed, given.kills, given.only, time.monotonic() + given.minutes * 60 - RESERVE)
        finally:
            three_brokers.stop()
            stack.down()


def _play(seed: int, kills: int, only: str, deadline: float) -> int:
    console.print(f"seed {seed}")
    world = World(connection(), lambda: start_session(spark_config()))
    table = Table("scenario", "fired", "lost", "duplicated", "outcome", "seconds")
    failed = 0
    for name, found in SCENARIOS.items():
        if only not in name:
            continue
        started = time.monotonic()
        row, kept = _one(found.play, Chaos(world, random.Random(f"{seed} {name}"), kills), deadline)
        failed += not kept
        console.print(f"{name}: {', '.join(row[:3])}: {row[3]}", markup=False, highlight=False)
        table.add_row(name, *row, f"{time.monotonic() - started:.0f}")
    console.print(table)
    return 1 if failed else 0


def _one(play: Play, chaos: Chaos, deadline: float) -> tuple[list[str], bool]:
    """Return the table's row (fired, lost, duplicated, outcome), and True if no message was lost or duplicated."""
    if time.monotonic() > deadline:
        return ["", "", "", "NOT PLAYED: out of time"], False
    try:
        with _ended_after(min(SCENARIO, int(deadline - time.monotonic()) + RESERVE)):
            verdict = play(chaos)
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  # whatever it is, the others run too
        for run in multiprocessing.active_children():  # the last scenario's, which would outlive its servers
            run.kill()
        return ["", "", "", f"FAILED: {type(error).__name__}: {error}"], False
    return [str(verdict.fired), str(verdict.lost), str(verdict.duplicated), verdict.outcome], verdict.kept


@contextmanager
def _ended_after(seconds: int) -> Iterator[None]:
    def ring(*_: object) -> NoReturn:
        raise TimeoutError(f"it did not end within {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    sys.exit(main())
