"""The named points at which the crash tests kill a run. Unarmed, each costs one dictionary look-up.

A test arms one by starting the run with TIDEGATE_CRASH_POINT=<name>:<pid of the run>. Spark's Python workers inherit
the variable, so a point inside a task kills the run as well, not only the worker that reached it.
"""

import os
import signal
import time
from typing import Literal

CrashPoint = Literal[
    "after_plan", "in_decode", "in_copy", "after_stage", "after_audit", "in_publish", "after_commit"
]  # fmt: skip


def reach(point: CrashPoint) -> None:
    """Kill the run with SIGKILL where this point is armed; otherwise do nothing."""
    armed = os.environ.get("TIDEGATE_CRASH_POINT")
    if armed and armed.partition(":")[0] == point:
        os.kill(int(armed.partition(":")[2]), signal.SIGKILL)
        time.sleep(60)  # in a worker: the signal went to the run, which takes this process with it
