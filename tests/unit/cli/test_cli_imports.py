"""Commands start quickly: help imports no command's module, and no command imports what it does not use."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from platform_defs.cli.main import COMMANDS, app, load
from tests.support.commands import HEAVY, run, tidegate

pytestmark = pytest.mark.long


SYSTEMS = {*HEAVY, "psycopg", "confluent_kafka", "pyarrow", "numpy"}
SUBCOMMANDS = ["stack up", "stack down", "stack status", "stack reset", "ui up", "ui down", "ui status"]
SUBCOMMANDS += ["topics list", "topics describe", "topics plan", "topics apply", "topics import", "topics delete"]
SUBCOMMANDS += ["groups list", "groups describe", "groups watch", "groups reset", "groups delete"]
SUBCOMMANDS += ["dlq list", "dlq show", "contract diff", "contract apply", "contract check"]
SUBCOMMANDS += ["contract validate", "unsent list", "unsent send", "unsent discard"]
SUBCOMMANDS += ["contract export", "contract register", "contract import", "schema list", "schema show", "schema fetch"]
SUBCOMMANDS += ["cluster health", "cluster skew", "cluster elect", "cluster reassign plan", "cluster reassign apply"]
SUBCOMMANDS += ["cluster reassign status", "cluster reassign cancel", "demo delivery", "demo groups"]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_tidegate_lists_each_command_with_its_own_first_sentence(name: str) -> None:
    assert load(name).help.partition("\n\n")[0] == COMMANDS[name][1]


def test_every_module_of_a_command_is_listed() -> None:
    folder = Path(__file__).parents[3] / "platform_defs"
    texts = {path: path.read_text() for path in folder.rglob("*.py") if "cli" in (path.stem, path.parent.name)}
    names = [name.replace("-", "_") for name in COMMANDS]
    has = {
        ".".join(path.relative_to(folder).with_suffix("").parts)
        for path, text in texts.items()
        if "typer.Typer(" in text
        or any(f"\ndef {name}(" in text for name in (names if path.stem == "cli" else {path.stem} & {*names}))
    }
    assert has == {*(module for module, _ in COMMANDS.values()), "cli.main"}


def test_the_help_of_tidegate_imports_none_of_its_commands() -> None:
    helped = tidegate("--help")
    assert helped.code == 0
    assert helped.packages.isdisjoint(SYSTEMS)


def test_no_module_of_a_command_imports_a_system() -> None:
    loaded = run("from platform_defs.cli.main import COMMANDS, app, load", "for name in COMMANDS: load(name)")
    assert loaded.packages.isdisjoint(SYSTEMS)


@pytest.mark.parametrize("name", [*COMMANDS, *SUBCOMMANDS])
def test_the_help_of_a_command_fits_a_terminal_of_80_columns(name: str) -> None:
    shown = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) <= 80
    prose = [line for line in shown.stdout.splitlines() if line.strip() and line[0] not in "╭│╰"]
    assert all(len(line.rstrip()) <= 79 for line in prose)


def test_stack_status_reads_no_contract(tmp_path: Path) -> None:
    asked = tidegate("stack", "status", TIDEGATE_HOME=str(tmp_path))
    assert asked.code == 0
    assert "not running (start it with tidegate stack up)" in asked.stdout
    assert asked.packages.isdisjoint({*SYSTEMS, "assets"})


def test_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert tidegate("--version").stdout == f"tidegate {version('tidegate')}\n"


@pytest.mark.parametrize("old", ["dlq list PIPELINE --unsent", "dlq send PIPELINE", "dlq discard PIPELINE"])
def test_the_former_words_for_undelivered_messages_are_accepted_with_a_warning(old: str) -> None:
    called = CliRunner().invoke(app, [*old.split(), "--help"])
    verb = old.split()[1]
    assert called.exit_code == 0
    assert f"tidegate unsent {verb}" in called.stderr
    assert f"unsent {verb} [OPTIONS]" in called.stdout
