"""`tidegate lag` with contracts that cannot be used, missing topics and unsent lineage events."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from platform_defs.cli.main import app
from platform_defs.errors import BadInput, LedgerTooNew, TopicMissing
from platform_defs.ledger.answers import LineageBacklog, PipelineStatus
from platform_defs.offsets import TopicView
from tests.support.shipped import ASSETS

NONE: Mapping[str, LineageBacklog] = MappingProxyType({})


@pytest.fixture
def broken_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the broken contract, alone in its folder; no system is ever reached."""
    good = (ASSETS / "web" / "page_views.odcs.yaml").read_text()
    (tmp_path / "web").mkdir()
    path = tmp_path / "web" / "page_views.odcs.yaml"
    path.write_text(good.replace("format: json", "format: jsno", 1))
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", "postgresql://nobody@127.0.0.1:1/none")
    monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    return path


def lag(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["lag", *arguments])


def test_a_broken_contract_is_a_line_of_lag_with_file_line_and_field(broken_folder: Path) -> None:
    shown = lag()
    assert shown.exit_code == 0
    assert f"web/page_views cannot be used: {broken_folder}:" in shown.stdout
    assert "jsno" in shown.stdout


def test_a_broken_contract_is_in_the_document_of_lag(broken_folder: Path) -> None:
    shown = lag("-o", "json")
    (broken,) = json.loads(shown.stdout)["broken"]
    assert (shown.exit_code, broken["pipeline"], broken["file"]) == (0, "web/page_views", str(broken_folder))
    assert broken["line"] > 1
    assert broken["field"]


def test_a_broken_contract_that_is_named_fails_the_command_with_its_error(broken_folder: Path) -> None:
    shown = lag("web_page_views")
    assert isinstance(shown.exception, BadInput)
    assert str(shown.exception).startswith(f"{broken_folder}:")


def test_only_a_missing_topic_is_shown_as_one_that_does_not_exist_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = lag_with(monkeypatch, TopicMissing.named("bank.transfers"), "-o", "json")
    assert (shown.exit_code, json.loads(shown.stdout)["pipelines"][0]["lag"]) == (0, None)
    for error in (LedgerTooNew("it has 999_later.sql"), BadInput("the broker returns no topic ids")):
        assert lag_with(monkeypatch, error).exception is error


def test_a_pipeline_that_is_named_must_have_its_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = TopicMissing.named("bank.transfers")
    assert lag_with(monkeypatch, missing, "bank_transfers").exception is missing


@pytest.mark.parametrize(
    ("backlog", "message"),
    [
        ((), None),
        ((1,), None),
        ((1, 0, "503"), "  1 lineage event waits to be sent: 503"),
        ((2, 0, "503"), "  2 lineage events wait to be sent: 503"),
        ((0, 1, "400"), "  1 lineage event was rejected and will not be sent: 400"),
        ((3, 2, "400"), "  3 lineage events wait to be sent, 2 lineage events were rejected and will not be sent: 400"),
    ],
)
def test_lineage_events_that_have_not_left_are_shown(
    backlog: tuple[Any, ...], message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"bank_transfers": LineageBacklog("bank_transfers", *backlog)} if backlog else {}
    shown = lag_with(monkeypatch, TopicMissing.named("bank.transfers"), found=found)
    lines = shown.stdout.splitlines()
    after = lines[[line.startswith("bank_transfers:") for line in lines].index(True) + 1 :]
    assert [line for line in after[:1] if line.startswith(" ")] == ([message] if message else [])


@dataclass(frozen=True)
class Refusing:
    """A broker that raises `error` for every request."""

    error: BadInput

    def describe(self, topic: str, partitions: object = None) -> TopicView:  # noqa: ARG002  # as KafkaBroker has it
        raise self.error


def lag_with(
    monkeypatch: pytest.MonkeyPatch, error: BadInput, *arguments: str, found: Mapping[str, LineageBacklog] = NONE
) -> Result:
    """Run lag: no pipeline has run, `found` is the ledger's lineage backlog, the broker raises `error`."""
    status, nothing = PipelineStatus, lambda *_: {}
    ledger = SimpleNamespace(status=status, progress=nothing, lineage_backlog=lambda _: found)
    systems = SimpleNamespace(ledger=ledger, broker=Refusing(error))
    monkeypatch.setattr("platform_defs.stack.open_systems.open_systems", lambda: systems)
    return lag(*arguments)
