"""Lists that pages keep by hand agree with the code: files to touch, error classes."""

import re
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
NAMING = ("*.py", "*.sql", "*.toml", "*.yaml", "*.yml", "Makefile", "Dockerfile")  # files with code
OTHER_TEXTS = {
    "CreateTime",
    "LogAppendTime",
    "AvroType",
    "MemoryError",
    "MessageBlock",
    "ObjectShape",
    "PrimitiveName",
    "TidegateKey",
}  # types, names


def test_every_file_that_contributing_names_is_there() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?:platform_defs|resources|tests|docs|assets)/[\w./-]*)`", page)
    assert len(named) > 25
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_an_entry_of_contributing_names_every_file_that_its_example_is_in() -> None:
    """An entry gives a search for its example; each file that the search prints is named, or its folder is."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    entries = re.split(r"^\*\*", page.partition("## Add ...")[2], flags=re.MULTILINE)
    searches = {entry: search for entry in entries if (search := re.search(r"`(git grep [^`]*)`", entry))}
    assert len(searches) >= 6
    missing = list[str]()
    for entry, search in searches.items():
        printed = subprocess.run(shlex.split(search[1]), cwd=ROOT, capture_output=True, check=True, text=True)
        named = tuple(re.findall(r"`(platform_defs/[\w./-]*)`", entry))
        missing += [f"{search[1]}: {path}" for path in printed.stdout.split() if not path.startswith(named)]
    assert missing == []


def test_every_page_that_code_and_tests_name_is_there() -> None:
    """A comment, a docstring, a message or a test may name a page: docs/how-to/halts.md, for one."""
    tracked = subprocess.run(["git", "ls-files", *NAMING], cwd=ROOT, capture_output=True, check=True, text=True)
    found = {
        (page, file)
        for file in tracked.stdout.splitlines()
        if (ROOT / file).is_file()
        for page in re.findall(r"(?<![\w./-])docs/[\w./-]*\w\.md\b", (ROOT / file).read_text())
    }
    assert len(found) > 25
    assert [f"{file}: {page}" for page, file in sorted(found) if not (ROOT / page).exists()] == []


def test_every_error_class_of_decoding_is_in_the_page_about_dead_letters() -> None:
    """A class is a text of two capitalized words or more; OTHER_TEXTS are not classes."""
    keys = ROOT / "platform_defs" / "engine" / "task" / "message_keys.py"
    source = [*(ROOT / "platform_defs" / "formats").rglob("*.py"), keys]
    words = re.compile(r'"([A-Z][a-z]+(?:[A-Z]\w+)+)"')
    made = {name for path in source for name in words.findall(path.read_text())} - OTHER_TEXTS
    page = (ROOT / "docs/how-to/dead-letters.md").read_text()
    table = page.partition("At `decode`:")[2].partition("\n## ")[0]
    assert set(re.findall(r"`([A-Z]\w+)`", table)) == made
