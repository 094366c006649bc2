"""Imported once by the process that runs are forked from (tests/chaos/runs.py)."""

import tests.chaos.runs  # noqa: F401
from platform_defs.engine import audit

audit._library()  # in this thread: to fork while another imports would leave its lock taken for ever
