"""A TIDEGATE_HOME per test, isolated from the session's environment."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from platform_defs.stack import stack

# Signals end it, even if the parent of the tests ignores SIGINT: Dagster then makes a worker ignore SIGTERM as well.
_CODE = """
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
from platform_defs.cli.main import main

main()
"""
TIDEGATE = [sys.executable, "-c", _CODE]


@contextmanager
def own_home(folder: Path, **environment: str) -> Generator[Path]:
    """Use `folder` as the home and only `environment` as further TIDEGATE_* variables; stop its servers at the end."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("TIDEGATE_")]:
            patch.delenv(name)
        for name, value in {"TIDEGATE_HOME": str(folder), **environment}.items():
            patch.setenv(name, value)
        yield folder
        stack.down()
