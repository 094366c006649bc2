"""Fixtures of the unit tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove Tidegate's variables, and set TIDEGATE_HOME to an empty folder."""
    for name in [name for name in os.environ if name.startswith("TIDEGATE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
