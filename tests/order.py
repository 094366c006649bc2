"""The order in which tests are given to the workers, and what keeps some of them together.

What is last must be short, or one worker works while the others have nothing left to do.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOMS = ("docs", "chaos", "model", "integration", "unit")  # the folders of tests, the longest tests first
MARKS = {room: room for room in ROOMS} | {"chaos": "scenario"}
# What takes longest of all: it begins first, whatever room it is in. Parts of test ids.
LONGEST = (
    "test_tutorial",
    "test_commands",
    "Dagsters run daemon",
    "whatever_happens_the_invariants_hold",
    "executor killed",
    "speculative copies",
    "killed at each named point",
    "one broker of three",
)


def room_of(item: pytest.Item) -> pytest.MarkDecorator:
    """The mark of the folder that the test is in."""
    return getattr(pytest.mark, MARKS[_room(item)])


def first_the_longest(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The tests, the longest first; each file that has a fixture of its own becomes a group."""
    found = list(items)
    for item in found:
        if _shares_its_file(item) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    return sorted(found, key=_rank)


def _rank(item: pytest.Item) -> tuple[int, int, int]:
    longest = next((number for number, part in enumerate(LONGEST) if part in item.nodeid), len(LONGEST))
    grouped = item.get_closest_marker("xdist_group") is not None
    return longest, ROOMS.index(_room(item)), 0 if grouped else 1


def _room(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).parts[0]


def _shares_its_file(item: pytest.Item) -> bool:
    """Whether it uses a fixture of its file's, which every worker with a test of that file would make again."""
    used = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009  # pytest has no public name for it
    return any(definition.scope == "module" for definitions in used.values() for definition in definitions)
