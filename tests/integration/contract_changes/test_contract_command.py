"""`tidegate contract diff` and `apply` on the command line."""

import json

import pytest
from typer.testing import CliRunner

from platform_defs.cli.main import app
from tests.integration.contract_changes.test_contract_apply import columns, exact, views, with_field
from tests.support.world import World


@pytest.mark.slow
def test_the_command_shows_what_it_would_do_and_does_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = views(world)
    after = with_field(before)
    monkeypatch.setattr("platform_defs.settings.contracts.find_pipeline", {after.name: after}.__getitem__)
    asked = CliRunner().invoke(app, ["contract", "diff", after.name, "--messages", "3", "-o", "json"])
    shown = json.loads(asked.stdout)
    assert (shown["version"], shown["becomes"], shown["bump"], shown["applied"]) == ("1.0.0", "1.1.0", "minor", False)
    assert [(item["class"], item["column"]) for item in shown["changes"]] == [("free", "channel")]
    assert shown["preview"]["before"] == shown["preview"]["after"] == {"rows": 8, "dead_letters": {}}
    assert "channel" not in columns(world, before.contract.row_table)
    for options in ([], ["--yes"], ["--yes"]):
        answer = CliRunner().invoke(app, ["contract", "apply", after.name, *options])
        assert answer.exit_code == 0, answer.output
        assert ('ADD COLUMN "channel" text' in answer.output) is (answer.output.count("Nothing to apply") == 0)
    assert "Nothing to apply" in answer.output
    exact(world, after)


def test_a_contract_that_the_ledger_does_not_have_is_said_to_be_unknown(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = views(world)
    world.rows("update tidegate.pipeline set contract_digest = null where name = %s", pipeline.name)
    monkeypatch.setattr("platform_defs.settings.contracts.find_pipeline", {pipeline.name: pipeline}.__getitem__)
    for command in (["diff"], ["apply"], ["apply", "--yes"]):
        answer = CliRunner().invoke(app, ["contract", command[0], pipeline.name, *command[1:]])
        assert "The previous contract is unknown" in answer.output
        assert f"{pipeline.name} (not known) -> 1.0.0" in answer.output
    assert "not known" not in CliRunner().invoke(app, ["contract", "diff", pipeline.name]).output
