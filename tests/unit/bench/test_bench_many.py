"""`python -m bench.many`: its plan, its counts and its report."""

from array import array
from pathlib import Path

import pytest

from bench.many.plan import plan, write_project
from bench.many.report import BEGIN, END, percentile
from bench.many.watch import oldest
from bench.reports.page import write_between
from platform_defs.settings.contracts import find_all


def test_its_contracts_are_good_but_for_the_one_that_is_meant_to_be_bad(tmp_path: Path) -> None:
    planned = plan(25)
    assert [item.kind for item in planned].count("busy") == 1
    write_project(tmp_path / "project", planned)
    found = find_all(tmp_path / "project" / "assets")
    good = {item.name: item for item in found.pipelines}
    assert set(good) == {item.name for item in planned if item.kind != "bad contract"}
    assert [name for name, item in good.items() if item.transform] == [
        item.name for item in planned if item.kind == "failing transform"
    ]
    assert all(good[item.name].contract.topic == item.topic for item in planned if item.name in good)
    assert len(found.broken) == 1


def test_the_oldest_unread_message_is_found_over_all_partitions() -> None:
    times = {"t": [array("d", [10.0, 20.0]), array("d", [12.0]), array("d")]}
    assert oldest(times, {}, "t", 30.0) == 20.0
    assert oldest(times, {("t", 0): 1}, "t", 30.0) == 18.0
    assert oldest(times, {("t", 0): 1, ("t", 1): 1}, "t", 30.0) == 10.0
    assert oldest(times, {("t", 0): 2, ("t", 1): 1}, "t", 30.0) == 0.0


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([], 0.99) == 0.0
    assert percentile([3.0], 0.5) == 3.0
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.0
    assert percentile([float(n) for n in range(1, 101)], 0.99) == 99.0


def test_the_report_replaces_the_one_before_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_between(BEGIN, "new\n", END, page)
    write_between(BEGIN, "newer\n", END, page)
    assert page.read_text() == f"before\n{BEGIN}\n\nnewer\n\n{END}\nafter\n"
    page.write_text("no markers")
    with pytest.raises(ValueError, match="has no lines"):
        write_between(BEGIN, "new", END, page)
