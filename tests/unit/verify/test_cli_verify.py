"""`tidegate verify`: its help names every key of the JSON document."""

import json
import re

import pytest
from typer.testing import CliRunner

from platform_defs.cli.main import app
from platform_defs.errors import InternalError
from platform_defs.verify.cli import verify
from platform_defs.verify.compare.report import Report


def test_the_help_names_every_key_of_the_document() -> None:
    described = (verify.__doc__ or "").partition("JSON")[2]
    missing = [name for name in Report("p").to_json() if not re.search(rf"\b{name}\b", described)]
    assert not missing, f"add to the help of tidegate verify: {missing}"
    assert "..." not in described


def test_an_unexpected_error_is_no_difference_of_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(_: str) -> None:
        raise ZeroDivisionError("with a value that may be classified")

    monkeypatch.setattr("platform_defs.settings.contracts.find_pipeline", break_down)
    answer = CliRunner().invoke(app, ["verify", "bank_transfers", "-o", "json"])
    assert isinstance(answer.exception, InternalError)
    assert answer.exception.exit_code == 3
    document = json.loads(answer.stdout)
    assert (document["pipeline"], document["ok"]) == ("bank_transfers", None)
    assert re.search(
        r"In verify bank_transfers: ZeroDivisionError at .*test_cli_verify.py, line \d+", document["error"]
    )
    assert "classified" not in answer.output
