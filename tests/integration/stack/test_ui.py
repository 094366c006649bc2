"""`tidegate ui`: Dagster in the background, which loads a new contract on command, without a sign-up prompt."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from platform_defs.cli.main import app
from platform_defs.errors import BadInput
from platform_defs.stack import dagster_dev as dagster
from platform_defs.stack.endpoints import Endpoints
from tests.support.shipped import ASSETS


@pytest.fixture
def ui(endpoints: Endpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Run Dagster's UI over an empty folder of contracts."""
    assert endpoints.bootstrap_servers
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(tmp_path))
    try:
        assert dagster.up(lambda _: None).url
        yield tmp_path
    finally:
        dagster.down()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_new_contract_is_in_the_ui_after_a_reload_and_nobody_is_asked_to_join(ui: Path) -> None:
    assert asked("{ shouldShowNux }") == {"shouldShowNux": False}
    assert "web/page_views" not in asset_keys()
    (ui / "web").mkdir()
    (ui / "web" / "page_views.odcs.yaml").write_text((ASSETS / "web" / "page_views.odcs.yaml").read_text())
    assert CliRunner().invoke(app, ["ui", "reload"]).exit_code == 0
    assert "web/page_views" in asset_keys()


def test_without_a_ui_there_is_nothing_to_reload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    with pytest.raises(BadInput, match="tidegate ui up"):
        dagster.reload()


def asset_keys() -> set[str]:
    found = asked("{ assetNodes { assetKey { path } } }")["assetNodes"]
    return {"/".join(one["assetKey"]["path"]) for one in found}


def asked(query: str) -> Any:
    """Return the response of the UI's GraphQL."""
    body, headers = json.dumps({"query": query}).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{dagster.status().url}/graphql", body, headers)  # noqa: S310  # our own address
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return json.load(answer)["data"]
