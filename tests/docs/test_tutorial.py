"""docs/tutorial.md, walked from top to bottom in a copy of the project, as a newcomer would type it.

A `<!-- file: path -->` before a block writes it to that file. A ```sh block is run, and has to succeed unless it is
marked `sh fails`; the lines of a ```text block behind it must be in its output, one after the other.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from platform_defs.cli.main import COMMANDS

ROOT = Path(__file__).parent.parent.parent
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()
# The environment of these tests is already the result of this.
DONE = ("make install",)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language and marks, its text, and the file that it is written to, if any."""

    info: str
    text: str
    file: str | None


def blocks(page: str = TUTORIAL) -> list[Block]:
    found = re.findall(r"(?:<!-- file: (\S+) -->\n)?```([a-z ]*)\n(.*?)```", page, re.DOTALL)
    return [Block(info, text, file or None) for file, info, text in found]


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Path]:
    """Yield a copy of the project beside a TIDEGATE_HOME of its own, with this environment; stop it in the end."""
    folder = tmp_path / "tidegate"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in listed.stdout.decode().splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(Path(os.environ.get("VIRTUAL_ENV", ROOT / ".venv")))
    try:
        yield folder
    finally:
        run("tidegate stack down", folder)


@pytest.mark.longest
@pytest.mark.timeout(900)
def test_the_tutorial_does_what_it_says(clone: Path) -> None:
    walk(clone, blocks())


def walk(clone: Path, page: list[Block]) -> None:
    """Write the files, run the commands, and compare what they print."""
    printed = ""
    for block in page:
        if block.file:
            (clone / block.file).parent.mkdir(exist_ok=True)
            (clone / block.file).write_text(block.text)
        elif block.info in ("sh", "sh fails"):
            commands = "\n".join(line for line in block.text.splitlines() if line not in DONE)
            done = run(commands, clone)
            printed = done.stdout
            assert (done.returncode != 0) == ("fails" in block.info), f"{commands}\n{printed[-4000:]}"
        elif block.info == "text":
            _assert_in_order(block.text, printed)


def test_every_kind_of_block_is_in_the_tutorial() -> None:
    assert {block.info for block in blocks()} == {"sh", "sh fails", "text", "yaml", "json"}
    assert [block.file for block in blocks() if block.info == "yaml"] == ["assets/bank/card_payments.odcs.yaml"]


def test_the_message_of_the_tutorial_is_a_row_of_its_contract(tmp_path: Path) -> None:
    from platform_defs.contract.reader.odcs import load
    from platform_defs.verify.validators.validator import NoRow, Validator

    (contract,) = (block for block in blocks() if block.file)
    (message,) = (block.text for block in blocks() if block.info == "json")
    path = tmp_path / "card_payments.odcs.yaml"
    path.write_text(contract.text)
    validated = Validator(load(path)).value(message.encode())
    assert not isinstance(validated, NoRow)


def test_the_commands_of_the_tutorial_are_there() -> None:
    named = set(re.findall(r"\btidegate ([a-z]+)", TUTORIAL))
    assert named - set(COMMANDS) == set()


def _assert_in_order(wanted: str, printed: str) -> None:
    """Assert that every line of `wanted` is in `printed`, in this order, however wide the columns are."""
    rest = " ".join(printed.split())
    for line in wanted.splitlines():
        before, found, rest = rest.partition(" ".join(line.split()))
        assert found, f"{line!r} is not in what was printed:\n{printed[-4000:]}"
        del before


def run(commands: str, clone: Path) -> subprocess.CompletedProcess[str]:
    """Run the commands in one shell of the clone, which keeps the variables that earlier ones exported."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TIDEGATE_", "DAGSTER_", "VIRTUAL_ENV"))}
    given = {
        "TIDEGATE_HOME": str(clone.parent / "home"),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "PYTHONPATH": str(clone),  # the copy's modules, not those that the environment was installed from
        "COLUMNS": "200",
    }
    exports = clone.parent / "exports.sh"
    script = f"[ -f {exports} ] && source {exports}\nset -e\nset -o pipefail\n{commands}\nexport -p > {exports}\n"
    return subprocess.run(
        ["bash", "-c", script],
        cwd=clone,
        env={**kept, **given, "PATH": f"{clone}/.venv/bin:{kept['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
