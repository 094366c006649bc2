"""The order in which workers get the tests, and the groups that stay together.

The last tests must be short, or one worker works while the others have nothing left to do.
"""

import json
import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

TESTS = Path(__file__).parent
GROUPS = "groups.json"
FOLDERS = ("docs", "chaos", "model", "integration", "suites", "unit")  # the folders of tests, the longest tests first
MARKS = {folder: folder for folder in FOLDERS} | {"chaos": "scenario"}
# Parts of the ids of the longest tests: they begin first, whatever folder they are in.
LONGEST = (
    "test_tutorial",
    "test_commands",
    "test_many_pipelines_at_once",
    "Dagsters daemon and web server",
    "whatever_happens_the_invariants_hold",
    "numbers_are_exact_or_refused_in_every_spelling",
    "wrong_bytes_harm_nothing",
    "no_classified_value_is_kept",
    "message that kills the worker",
    "executor killed",
    "speculative copies",
    "killed at each named point",
    "one broker of three",
)


def folder_mark(item: pytest.Item) -> pytest.MarkDecorator:
    """Return the mark of the folder that the test is in."""
    return getattr(pytest.mark, MARKS[_folder(item)])


def is_left_to_test_long(item: pytest.Item) -> bool:
    """Return True for a test of a repeated suite, unless its module names it in IN_CI."""
    in_ci = getattr(getattr(item, "module", None), "IN_CI", None)
    return in_ci is not None and getattr(item, "originalname", item.name) not in in_ci


def first_the_longest(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the tests, the longest first; each file that has a fixture of its own becomes a group."""
    found = list(items)
    for item in found:
        if _shares_its_file(item) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    return sorted(found, key=_rank)


def groups_of(items: Iterable[pytest.Item]) -> dict[str, str]:
    """Return the group of each test that has one, by test id."""
    marked = ((item.nodeid, item.get_closest_marker("xdist_group")) for item in items)
    return {name: str(mark.args[0]) for name, mark in marked if mark is not None}


class GroupScheduling(LoadScopeScheduling):
    """A scheduler that gives a worker all tests of a group, and any other test by itself, in their order.

    It is not xdist's own loadgroup: that renames the tests of a group, which pytest 9.2 ignores. Workers, which alone
    have seen the tests' marks, write the groups to `folder`.
    """

    def __init__(self, config: pytest.Config, log: Any, folder: Path) -> None:
        super().__init__(config, log)
        self._folder = folder

    @cached_property
    def _groups(self) -> Mapping[str, str]:
        return json.loads((self._folder / GROUPS).read_text())

    def _split_scope(self, nodeid: str) -> str:
        return self._groups.get(nodeid, nodeid)


def write_groups(folder: Path, items: Iterable[pytest.Item]) -> None:
    """Write the groups for `GroupScheduling`; every worker writes the same."""
    written = folder / f"{GROUPS}.{os.getpid()}"
    written.write_text(json.dumps(groups_of(items)))
    written.replace(folder / GROUPS)


def _rank(item: pytest.Item) -> tuple[int, int, int]:
    longest = next((number for number, part in enumerate(LONGEST) if part in item.nodeid), len(LONGEST))
    grouped = item.get_closest_marker("xdist_group") is not None
    return longest, FOLDERS.index(_folder(item)), 0 if grouped else 1


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).parts[0]


def _shares_its_file(item: pytest.Item) -> bool:
    """Return True if it uses a fixture of its file, which every worker with a test of that file would make again."""
    used = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009  # pytest has no public name for it
    return any(definition.scope == "module" for definitions in used.values() for definition in definitions)
