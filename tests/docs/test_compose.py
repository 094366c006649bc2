"""compose.yaml, and the file beside it that docs/how-to/own-servers.md shows."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from resources.settings import unknown_variables

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
PAGE = (ROOT / "docs" / "how-to" / "own-servers.md").read_text().partition("### Secrets in Docker")[2]
OVERRIDE: dict[str, Any] = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0])
DAGSTER = ("dagster-webserver", "dagster-daemon")


@pytest.mark.parametrize("service", DAGSTER)
def test_what_is_passed_on_are_settings_each_given_in_one_way(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Compose puts both files together: by name, the last one counts."""
    shown = OVERRIDE["services"][service]
    for name in [name for name in os.environ if name.startswith("TIDEGATE_")]:
        monkeypatch.delenv(name)
    given = {**COMPOSE["services"][service]["environment"], **shown["environment"]}
    for name, value in given.items():
        monkeypatch.setenv(name, "x" if value is None else value)
    assert unknown_variables() == []
    assert {given[name] for name in given if f"{name}_FILE" in given} <= {"", None}
    mounted = {f"/run/secrets/{name}" for name in shown["secrets"]}
    assert mounted == {value for name, value in given.items() if name.endswith("_FILE")}


def test_each_secret_has_its_file() -> None:
    for service in DAGSTER:
        assert set(OVERRIDE["services"][service]["secrets"]) == OVERRIDE["secrets"].keys()
    assert all(Path(item["file"]).name == name for name, item in OVERRIDE["secrets"].items())
