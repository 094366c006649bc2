"""Dagster with the project while no server runs, in separate processes."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from platform_defs.settings.settings import PROJECT_ROOT

LOADS = """
import sys
from platform_defs.definitions import defs
assert "great_expectations" not in sys.modules, "its import takes six seconds"
from pyspark.sql import SparkSession
assert SparkSession.getActiveSession() is None
defs.get_repository_def().load_all_definitions()
"""


@pytest.mark.longest
def test_definitions_load_without_a_stack(tmp_path: Path) -> None:
    run = _run([sys.executable, "-c", LOADS], tmp_path)
    assert run.returncode == 0, run.stderr


@pytest.mark.slow
def test_without_a_stack_a_command_ends_with_one_sentence(tmp_path: Path) -> None:
    command = [
        str(Path(sys.executable).parent / "dagster"),
        "asset",
        "materialize",
        "--select",
        "bank/postings",
        "-m",
        "platform_defs.definitions",
    ]
    run = _run(command, tmp_path)
    assert run.returncode == 1
    assert "start it with `tidegate stack up`" in run.stderr
    assert "Traceback" not in run.stderr


def _run(command: Sequence[str], home: Path) -> subprocess.CompletedProcess[str]:
    given = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    return subprocess.run(
        command,
        cwd=PROJECT_ROOT,
        env={**given, "TIDEGATE_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
