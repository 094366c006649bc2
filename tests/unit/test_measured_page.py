"""The table of docs/explanation/producers.md: what is written can be read, and rows of other pairs are kept."""

import re
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.errors import BadInput
from platform_defs.operations.measuring import page
from platform_defs.operations.measuring.faults import FAULTS, pairs
from platform_defs.operations.measuring.picture import picture
from platform_defs.producing.measured import Measured
from platform_defs.producing.presets import PRESETS

COUNTS = st.integers(0, 10_000_000)
TIMES = st.integers(0, 1_000_000).map(lambda tenths: tenths / 10)
MEASURED = st.builds(
    Measured,
    *(st.sampled_from([*PRESETS]), st.sampled_from([*FAULTS]), *[COUNTS] * 2, COUNTS.map(lambda sent: sent + 1)),
    *([COUNTS] * 7 + [TIMES] * 4),
)
DOCS = Path(__file__).parent.parent.parent / "docs"


@given(st.lists(MEASURED, max_size=20))
def test_a_table_reads_as_what_it_was_written_from(measured: list[Measured]) -> None:
    assert page.rows(f"Words.\n\n{page.table(measured)}\nMore.") == measured


@given(st.lists(MEASURED, max_size=20), st.lists(MEASURED, max_size=20))
def test_a_new_row_takes_the_place_of_an_older_one_of_its_pair_alone(old: list[Measured], new: list[Measured]) -> None:
    found = {(one.fault, one.preset): one for one in page.merged(old, new)}
    wanted = {(one.fault, one.preset): one for one in [*old, *new]}
    assert found == wanted
    assert page.merged(page.merged(old, new), new) == page.merged(old, new)


@given(st.lists(MEASURED, max_size=20))
def test_a_picture_is_xml_with_a_bar_for_each_count(measured: list[Measured]) -> None:
    every = page.merged([], measured)
    bars = re.findall(r'fill="#(c0392b|d68910|2471a3)"', picture(every))
    wanted = sum(
        bool(count) for one in every for count in (one.lost, one.doubled, one.reordered) if one.fault != "none"
    )
    assert len(bars) == 3 + wanted
    assert xml.fromstring(picture(every)).tag.endswith("svg")  # noqa: S314  # our own text


def test_a_page_without_its_marks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="lacks the lines"):
        page.write(tmp_path, [])


def test_the_page_holds_pairs_that_there_are_and_the_picture_is_of_its_rows() -> None:
    found = page.rows((DOCS / page.PAGE).read_text())
    every = [(fault.name, preset.name) for fault, presets in pairs(["all"], ["all"]) for preset in presets]
    shown = {(one.fault, one.preset) for one in found}
    assert [(one.fault, one.preset) for one in found] == [pair for pair in every if pair in shown]
    assert all(one.fired == one.rounds for one in found)
    assert (DOCS / page.PICTURE).read_text() == picture(found)


def test_the_page_and_the_command_name_every_fault() -> None:
    text = (DOCS / page.PAGE).read_text()
    help_text = (DOCS / "reference" / "cli.md").read_text().partition("## tidegate presets measure")[2]
    assert [name for name in FAULTS if f"`{name}`" not in text] == []
    assert [name for name in FAULTS if f"\n      {name} " not in help_text and f"\n  {name} " not in help_text] == []


def test_what_the_table_shows_is_what_the_presets_promise() -> None:
    idempotent = [name for name, preset in PRESETS.items() if preset.options["enable.idempotence"]]
    plain = ["at_least_once", "one_in_flight"]
    for one in page.rows((DOCS / page.PAGE).read_text()):
        if one.preset in {*idempotent, *plain} and one.fault != "unclean":
            assert one.lost == 0, one
        if one.preset in idempotent and one.fault != "unclean":
            assert (one.doubled, one.reordered) == (0, 0), one
        if one.preset in plain:
            assert one.doubled > 0 or one.fault != "cut_answers", one
            assert one.reordered > 0 or one.fault != "isr_flap", one
        if (one.preset, one.fault) in {("leader", "leader_loss"), ("fire_and_forget", "broker_kill")}:
            assert (one.lost > 0, one.failed) == (True, 0), one
        assert one.fault != "zombie" or one.ghosts == 0, one
