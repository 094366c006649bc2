"""The named points at which the tests kill or stop a run. Unarmed, each costs one dictionary look-up.

A test arms one by starting the run with TIDEGATE_CRASH_POINT=<name>:<pid of the run>:<KILL or STOP>. Spark's Python
workers inherit the variable, so a point inside a task kills or stops the run as well, not only the worker that reached
it.
"""

import os
import signal
import time
from typing import Literal

CrashPoint = Literal[
    "after_plan",
    "in_decode",
    "in_copy",
    "after_stage",
    "after_audit",
    "in_publish",
    "after_commit",
    "after_range",  # of a range that its task has published
]
ApplyPoint = Literal["apply_locked", "apply_altered", "apply_recorded", "apply_committed"]  # contract_changes/evolve.py
NotNullPoint = Literal["not_null_added", "not_null_validated"]  # contract_changes/evolve.py, between its transactions
PrunePoint = Literal["prune_removed", "prune_committed"]  # prune/prune.py
_reached: set[str] = set()  # in this process: a run that was stopped and resumes is not stopped again


def reach(point: CrashPoint | ApplyPoint | NotNullPoint | PrunePoint) -> None:
    """Kill or stop the run if this point is armed; otherwise do nothing."""
    armed = os.environ.get("TIDEGATE_CRASH_POINT")
    if not armed or not armed.startswith(f"{point}:") or point in _reached:
        return
    _reached.add(point)
    _, run, name = armed.split(":")
    how = signal.Signals[f"SIG{name}"]
    os.kill(int(run), how)
    if int(run) == os.getpid():
        return
    if how == signal.SIGSTOP:
        os.kill(os.getpid(), how)
    time.sleep(60 if how == signal.SIGKILL else 0)  # the signal went to the run, which takes this process with it
