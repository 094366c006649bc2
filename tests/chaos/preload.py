"""Imported once by the process that runs are forked from (tests/chaos/runs.py)."""

import tests.chaos.runs  # noqa: F401
from platform_defs.engine.commit import auditor

auditor.load()  # in this thread: a fork while another thread imports would keep its lock for ever
