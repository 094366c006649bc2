"""What Dagster does with the project where nothing runs, in processes of its own."""

import os
import subprocess
import sys
from pathlib import Path

from resources.settings import PROJECT_ROOT

LOADS = """
import sys
from platform_defs.definitions import defs
assert "great_expectations" not in sys.modules, "its import takes six seconds"
from pyspark.sql import SparkSession
assert SparkSession.getActiveSession() is None
defs.get_repository_def().load_all_definitions()
"""


def test_definitions_load_without_a_stack(tmp_path: Path) -> None:
    given = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    run = subprocess.run(
        [sys.executable, "-c", LOADS],
        cwd=PROJECT_ROOT,
        env={**given, "TIDEGATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_without_a_stack_a_command_ends_with_one_sentence(tmp_path: Path) -> None:
    given = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    command = [
        str(Path(sys.executable).parent / "dagster"),
        "asset",
        "materialize",
        "--select",
        "bank/postings",
        "-m",
        "platform_defs.definitions",
    ]
    run = subprocess.run(
        command,
        cwd=PROJECT_ROOT,
        env={**given, "TIDEGATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 1
    assert "start it with `tidegate stack up`" in run.stderr
    assert "Traceback" not in run.stderr
