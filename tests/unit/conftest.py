"""What the unit tests share."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of the variables of Tidegate only TIDEGATE_HOME, an empty folder."""
    for name in [name for name in os.environ if name.startswith("TIDEGATE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
