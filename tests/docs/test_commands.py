"""Every command in README.md and docs/ is run, in a TIDEGATE_HOME of its own, as a newcomer would.

A ```sh block is run, line by line. A ```sh example block is not, since it has a placeholder or needs other servers; its
`tidegate` commands and options must exist all the same. test_tutorial.py walks docs/tutorial.md, and others walk the
pages of ELSEWHERE.
"""

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

ROOT = Path(__file__).parent.parent.parent
TUTORIAL = ROOT / "docs" / "tutorial.md"
ELSEWHERE = (
    "from-a-schema.md",
    "json-to-avro.md",
    "change-partitions.md",
    "production.md",
    "your-dagster-project.md",
)
WALKED = {TUTORIAL, *(ROOT / "docs" / "how-to" / name for name in ELSEWHERE)}
PAGES = [ROOT / "README.md", *sorted({*(ROOT / "docs").rglob("*.md")} - WALKED)]
# Run by the tests below, in their order; `make test` runs the tests themselves.
BY_NAME = {"make demo", "make test", "make up", "make down"}


def commands(info: str = "sh") -> list[str]:
    """Return the lines of every block of that kind, each once."""
    blocks = [block for page in PAGES for block in re.findall(rf"```{info}\n(.*?)```", page.read_text(), re.DOTALL)]
    return list(dict.fromkeys(line.strip() for block in blocks for line in block.splitlines() if line.strip()))


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield the environment of a user who has just typed `make demo`; in the end, `make down`."""
    environment = environment_of(tmp_path_factory.mktemp("newcomer"))
    try:
        message = run_command("make demo", environment)
        assert "200,000, of which 200,000 by this run" in message
        assert "Every message became two postings or one dead letter." in message
        assert re.search(r"lag +0\n", message)
        yield environment
    finally:
        run_command("make down", environment)
    assert left_running(environment) == []


def environment_of(home: Path) -> dict[str, str]:
    """Return the environment of a user who has set nothing but TIDEGATE_HOME."""
    chosen = {k: v for k, v in os.environ.items() if not k.startswith(("TIDEGATE_", "DAGSTER_"))}
    return chosen | {"TIDEGATE_HOME": str(home)}


# Each reads all messages of the demo, or runs Spark step by step.
LONGEST = ("tidegate replay", "tidegate verify", "tidegate plan bank_transfers --explain", "tidegate demo")


def _marked(command: str) -> Any:
    return pytest.param(command, marks=[pytest.mark.longest] if command.startswith(LONGEST) else [])


@pytest.mark.slow
@pytest.mark.parametrize("command", [_marked(line) for line in commands() if line not in BY_NAME])
def test_a_command_of_the_docs_does_what_it_says(newcomer: dict[str, str], command: str) -> None:
    run_command(f"uv run --no-sync {command}", newcomer)


def test_the_pages_name_the_make_targets_that_are_run_here() -> None:
    assert {line for line in commands() if line.startswith("make")} == BY_NAME


@pytest.mark.parametrize("command", [line for line in commands("sh example") if line.startswith("tidegate")])
def test_a_command_that_is_an_example_exists_with_its_options(command: str) -> None:
    reference = (ROOT / "docs" / "reference" / "cli.md").read_text()
    sections = dict(re.findall(r"^## (tidegate [a-z -]+)\n(.*?)(?=^## |\Z)", reference, re.DOTALL | re.MULTILINE))
    (section,) = [text for name, text in sections.items() if f"{command} ".startswith(f"{name} ")]
    ours = command.partition(" | ")[0]
    assert [option for option in re.findall(r"--[a-z-]+", ours) if f"`{option}" not in section] == []


@pytest.mark.parametrize("name", re.findall(r"`make ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text()))
def test_a_make_target_of_contributing_exists(name: str) -> None:
    assert re.search(rf"^{name}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.slow
def test_every_message_of_the_demo_is_in_the_tables_as_the_docs_say(newcomer: dict[str, str]) -> None:
    status = json.loads(run_command("uv run --no-sync tidegate stack status --show-password -o json", newcomer))
    with psycopg.connect(status["postgres"]["url"]) as connection:
        assert connection.execute("select sum(balance) from bank.balances").fetchone() == (0,)
        strays = connection.execute("""
            with rows as (select _partition p, _offset o, count(*) n from bank.postings group by 1, 2),
                 dead as (select partition p, "offset" o, count(*) n from tidegate.dead_letter
                           where pipeline = 'bank_transfers' group by 1, 2),
                 every as (select r.partition p, o from tidegate.batch_range r join tidegate.batch using (batch_id),
                                  generate_series(from_offset, until_offset - 1) o
                            where pipeline = 'bank_transfers' and replaced_by is null)
            select count(*) from every full join rows using (p, o) full join dead using (p, o)
             where every.p is null or (coalesce(rows.n, 0), coalesce(dead.n, 0)) not in ((2, 0), (0, 1))""").fetchone()
        assert strays == (0,)


@pytest.mark.slow
def test_the_demo_has_no_schema_registry(newcomer: dict[str, str]) -> None:
    status = json.loads(run_command("uv run --no-sync tidegate stack status -o json", newcomer))
    assert status["registry"] == {"url": None, "pid": None, "embedded": True}
    assert not (Path(newcomer["TIDEGATE_HOME"]) / "registry").exists()


@pytest.mark.slow
def test_make_up_shows_the_ui_and_a_trickle_and_make_down_leaves_no_process(newcomer: dict[str, str]) -> None:
    message = run_command("make up", newcomer)
    (address,) = set(re.findall(r"http://127\.0\.0\.1:\d+", message))
    with urllib.request.urlopen(address, timeout=30) as page:  # noqa: S310  # the address that it printed
        assert "Dagster" in page.read().decode()
    assert any("produce" in " ".join(process.cmdline()) for process in left_running(newcomer))
    run_command("make down", newcomer)
    assert left_running(newcomer) == []


def run_command(command: str, environment: dict[str, str]) -> str:
    """Return the stdout of `command`, which has to end with 0."""
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def left_running(environment: dict[str, str]) -> list[psutil.Process]:
    """Return the processes of this TIDEGATE_HOME, by their environment or their command line."""
    home, found = environment["TIDEGATE_HOME"], list[psutil.Process]()
    for process in psutil.process_iter():
        try:
            if (
                process.pid != os.getpid()
                and process.status() != psutil.STATUS_ZOMBIE
                and (process.environ().get("TIDEGATE_HOME") == home or home in " ".join(process.cmdline()))
            ):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found
