"""compose.yaml, and the file beside it that docs/how-to/own-servers.md shows."""

import os
import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from platform_defs.settings.settings import unknown_variables

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
PAGE = (ROOT / "docs" / "how-to" / "own-servers.md").read_text().partition("### Secrets in Docker")[2]
OVERRIDE: dict[str, Any] = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0])
DAGSTER = ("dagster-webserver", "dagster-daemon")


@pytest.mark.parametrize("service", DAGSTER)
def test_what_is_passed_on_are_settings_each_given_in_one_way(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose merges both files by name: the last value counts."""
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


def test_neither_git_nor_an_image_takes_what_servers_write_or_passwords() -> None:
    """`.env` is the file that Compose reads; docs/how-to/own-servers.md names another home."""
    private = [
        ".env",
        ".env.production",
        ".tidegate/postgres/data",
        ".tidegate-three/ledger",
        "docs/examples/shop/.env",
    ]
    asked = ["git", "check-ignore", "--no-index", *private]
    assert subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split() == private
    patterns = (ROOT / ".dockerignore").read_text().split()
    assert [path for path in private if not any(_leaves_out(pattern, path) for pattern in patterns)] == []


def _leaves_out(pattern: str, path: str) -> bool:
    """Return True if Docker ignores a path: `**/` is any number of folders, and a folder's content goes with it."""
    parents = [str(one) for one in (Path(path), *Path(path).parents)]
    return any(fnmatch(one, name) for one in parents for name in (pattern, pattern.removeprefix("**/")))
