"""`python -m bench`: its comparisons and its output."""

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from subprocess import PIPE, Popen

from bench.__main__ import BEGIN, END
from bench.paths import AIMS, BY_HAND, BY_HAND_POSTINGS, PATHS, QUICK_AIMS, STAGED, TRANSFORMED
from bench.reports import picture
from bench.reports.aims import Figure, Ratio, table
from bench.reports.page import PAGE, write_between
from bench.rounds import tables
from bench.sizes import Sizes, watched


def test_a_figure_meets_its_aim_from_the_side_that_counts() -> None:
    assert Figure("speed", 1.0, 1.0).met
    assert not Figure("speed", 0.99, 1.0).met
    assert Figure("time", 1.9, 2.0, "at most").met
    assert not Figure("time", 2.1, 2.0, "at most").met


def test_the_table_of_aims_says_met_or_short() -> None:
    figures = [Figure("staged ÷ by hand", 0.634, 1.0), Figure("start", 9.5, 10, "at most", " s")]
    assert table(figures).splitlines()[2:] == [
        "| staged ÷ by hand | 0.63 | ≥ 1 | short |",
        "| start | 9.50 s | ≤ 10 s | met |",
    ]


def test_a_figure_that_falls_short_by_a_hair_does_not_read_as_if_it_were_met() -> None:
    assert "| 0.999 | ≥ 1 | short |" in Figure("staged ÷ by hand", 0.9987, 1.0).row
    assert "| 10.0004 s | ≤ 10 s | short |" in Figure("start", 10.0004, 10, "at most", " s").row


def test_a_ratio_is_the_median_of_the_ratios_of_each_round() -> None:
    seen = {"ours": [10.0, 30.0, 12.0], "theirs": [10.0, 10.0, 10.0]}
    assert Ratio("ours ÷ theirs", "ours", "theirs", 1.1).figure(seen).value == 1.2


def test_each_path_is_compared_with_a_path_that_is_measured() -> None:
    names = [path.name for path in PATHS]
    assert len(set(names)) == len(names)
    assert {path.against for path in PATHS if path.against is not None} <= set(names)
    assert {name for aim in AIMS for name in (aim.path, aim.against)} <= set(names)
    assert AIMS[: len(QUICK_AIMS)] == QUICK_AIMS


def test_two_rows_a_message_are_compared_with_a_loop_that_writes_two_rows() -> None:
    (transformed,) = [path for path in PATHS if path.name == TRANSFORMED]
    assert transformed.against == BY_HAND_POSTINGS


def test_each_yardstick_has_a_table_of_what_is_compared_with_it() -> None:
    paths = [path for path in PATHS if path.name in (STAGED, BY_HAND)]
    assert tables({STAGED: [60.0, 80.0], BY_HAND: [100.0, 100.0]}, paths).splitlines() == [
        "| path | messages/s | against the last one, in the same round |",
        "|---|---|---|",
        f"| {STAGED} | 70 | 0.70 (0.60 to 0.80) |",
        f"| {BY_HAND} | 100 | 1.00 |",
    ]


def test_the_plots_show_each_path_and_each_figure() -> None:
    names = {"ours": True, "theirs & others": False}
    drawn = picture.speeds({"ours": [10.0, 30.0], "theirs & others": [5.0, 5.0]}, names)
    assert texts(drawn) == ["ours", "20", "theirs &amp; others", "5"]
    drawn = picture.aims([Figure("speed", 0.5, 1.0), Figure("start", 5.0, 10.0, "at most", " s")])
    assert texts(drawn) == ["speed", "50%", "start", "200%"]


def texts(drawn: str) -> list[str]:
    """Return the texts below a plot's title."""
    return re.findall(r"<text[^>]*>([^<]*)", drawn)[1:]


def test_the_page_has_the_place_of_the_tables(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text(PAGE.read_text())
    write_between(BEGIN, f"one run\n{'word ' * 30}\n| {'cell ' * 30}|", END, page)
    reported = page.read_text().partition(BEGIN)[2].partition(END)[0].splitlines()
    assert [len(line) > 120 for line in reported] == [False] * (len(reported) - 1) + [True]
    assert reported[2] == "one run"


def test_sizes_are_compared_round_by_round_and_with_their_memory() -> None:
    speeds = {1_000: [100.0, 200.0, 100.0], 20_000: [90.0, 190.0, 94.9]}
    seen = Sizes(1_000, 20_000, speeds, {1_000: 500.0, 20_000: 510.0})
    assert [figure.row for figure in seen.figures] == [
        "| messages/s at 20,000 ÷ at 1,000 | 0.949 | ≥ 0.95 | short |",
        "| most memory at 20,000 ÷ at 1,000 | 1.02 | ≤ 1.1 | met |",
    ]
    assert seen.tables.splitlines()[2:] == ["| 1,000 | 100 | 500 |", "| 20,000 | 95 | 510 |"]
    assert Sizes.from_json(json.dumps(asdict(seen))) == seen


def test_memory_is_that_of_this_process_and_what_it_started() -> None:
    with watched() as alone:
        alone.look()
    holding = "held = bytearray(b'x' * 80_000_000); print(flush=True); input()"
    with Popen([sys.executable, "-c", holding], stdin=PIPE, stdout=PIPE) as child:
        with watched() as both:
            assert child.stdout is not None
            child.stdout.readline()
            both.look()
        child.communicate(b"\n")
    assert both.most > alone.most + 60
