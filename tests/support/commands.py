"""`tidegate` as a process of its own, and what it has imported when it ends."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# None of them is needed to show help, ask the ledger or ask the broker, and each costs a command a second or more.
HEAVY = {"pandas", "pyspark", "dagster", "great_expectations", "openlineage", "requests"}
_MODULES = "modules at exit: "
_REPORT = f"""
import atexit, sys
atexit.register(lambda: print({_MODULES!r} + " ".join(sys.modules), file=sys.stderr))
"""


@dataclass(frozen=True)
class Called:
    """How a command ended, and the top-level packages that it had imported by then."""

    code: int
    stdout: str
    stderr: str
    packages: frozenset[str]

    @property
    def document(self) -> Any:
        """The answer of a command called with -o json."""
        return json.loads(self.stdout)


def tidegate(*arguments: str, **environment: str) -> Called:
    """Call `tidegate` with the arguments, as a program of its own."""
    return run("from platform_defs.cli.main import main", "main()", arguments=arguments, environment=environment)


def run(*lines: str, arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> Called:
    """Run lines of Python in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([_REPORT, *lines]), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **(environment or {})},
        check=False,
    )
    said, _, modules = done.stderr.rpartition(_MODULES)
    packages = frozenset(name.partition(".")[0] for name in modules.split())
    return Called(done.returncode, done.stdout, said, packages)
