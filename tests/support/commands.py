"""`tidegate` in this process, or as a separate one with the packages that it has imported at exit."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from platform_defs.cli.main import app
from platform_defs.errors import TidegateError

# Help, ledger and broker queries need none of them, and each costs a command a second or more.
HEAVY = {"pandas", "pyspark", "dagster", "great_expectations", "openlineage", "requests"}
_MODULES = "modules at exit: "
_REPORT = f"""
import atexit, sys
atexit.register(lambda: print({_MODULES!r} + " ".join(sys.modules), file=sys.stderr))
"""


@dataclass(frozen=True)
class Called:
    """A command's exit code and output; of a separate process, also the top-level packages imported at exit."""

    code: int
    stdout: str
    stderr: str
    packages: frozenset[str] = frozenset()
    error: TidegateError | None = None  # that the command raised in this process

    @property
    def said(self) -> str:
        return self.stdout + self.stderr

    @property
    def document(self) -> Any:
        """Return the document printed by a command called with -o json."""
        return json.loads(self.stdout)


def invoke(*arguments: str, given: bytes | None = None, code: int | None = None, **environment: str) -> Called:
    """Run `tidegate` in this process, with `given` as stdin. An error that it raises is its stderr, as main prints it.
    Raises AssertionError for an exit code other than `code`.
    """
    done = CliRunner().invoke(app, arguments, input=given, env=environment)
    if isinstance(done.exception, TidegateError):
        called = Called(done.exception.exit_code, done.stdout, done.stderr + str(done.exception), error=done.exception)
    else:
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        called = Called(done.exit_code, done.stdout, done.stderr)
    assert code in (None, called.code), called
    return called


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
