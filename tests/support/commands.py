"""`tidegate` as a separate process, and the packages that it has imported at exit."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Help, ledger and broker queries need none of them, and each costs a command a second or more.
HEAVY = {"pandas", "pyspark", "dagster", "great_expectations", "openlineage", "requests"}
_MODULES = "modules at exit: "
_REPORT = f"""
import atexit, sys
atexit.register(lambda: print({_MODULES!r} + " ".join(sys.modules), file=sys.stderr))
"""


@dataclass(frozen=True)
class Called:
    """A command's exit code and output, and the top-level packages that it had imported at exit."""

    code: int
    stdout: str
    stderr: str
    packages: frozenset[str]

    @property
    def document(self) -> Any:
        """Return the document printed by a command called with -o json."""
        return json.loads(self.stdout)


def tidegate(*arguments: str, **environment: str) -> Called:
    """Run `tidegate` with the arguments as a separate process."""
    return run("from platform_defs.cli.main import main", "main()", arguments=arguments, environment=environment)


def run(*lines: str, arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> Called:
    """Run lines of Python in a separate process."""
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([_REPORT, *lines]), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **(environment or {})},
        check=False,
    )
    message, _, modules = done.stderr.rpartition(_MODULES)
    packages = frozenset(name.partition(".")[0] for name in modules.split())
    return Called(done.returncode, done.stdout, message, packages)
