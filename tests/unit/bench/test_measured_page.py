"""The table of docs/explanation/producers.md: what is written can be read, and rows of other pairs are kept."""

import re
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.producers import page, sweep_page
from bench.producers.__main__ import main
from bench.producers.faults import FAULTS, pairs
from bench.producers.measured import Measured
from bench.producers.picture import picture
from platform_defs.errors import BadInput
from platform_defs.producer_options.presets import PRESETS

COUNTS = st.integers(0, 10_000_000)
TIMES = st.integers(0, 1_000_000).map(lambda tenths: tenths / 10)
MEASURED = st.builds(
    Measured,
    *(st.sampled_from([*PRESETS]), st.sampled_from([*FAULTS]), *[COUNTS] * 2, COUNTS.map(lambda sent: sent + 1)),
    *([COUNTS] * 7 + [TIMES] * 4),
)
PLAIN = ("at_least_once", "one_in_flight")  # every replica acknowledges, and brokers know no batch by its number
TRANSACTIONAL = "transactional"
DOCS = Path(__file__).parents[3] / "docs"


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


def test_the_page_has_the_marks_that_measurements_go_between() -> None:
    for module in (page, sweep_page):
        _, rows, _ = page.between(DOCS / page.PAGE, module.BEGIN, module.END)
        assert module.rows(rows), module.__name__


def test_the_page_holds_every_pair_and_the_picture_is_of_its_rows() -> None:
    found = page.rows((DOCS / page.PAGE).read_text())
    every = [(fault.name, preset.name) for fault, presets in pairs(["all"], ["all"]) for preset in presets]
    assert [(one.fault, one.preset) for one in found] == every
    assert all(one.fired == one.rounds for one in found)
    assert all(one.sent == one.delivered + one.failed for one in found)
    assert (DOCS / page.PICTURE).read_text() == picture(found)


def test_the_page_and_the_command_name_every_fault() -> None:
    text = (DOCS / page.PAGE).read_text()
    help_text = main.__doc__ or ""
    assert [name for name in FAULTS if f"`{name}`" not in text] == []
    assert [name for name in FAULTS if f"\n      {name} " not in help_text and f"\n  {name} " not in help_text] == []


def measured() -> dict[tuple[str, str], Measured]:
    """Return the page's rows by fault and preset."""
    return {(one.fault, one.preset): one for one in page.rows((DOCS / page.PAGE).read_text())}


def test_what_the_table_shows_is_what_the_presets_promise() -> None:
    """Except for the two faults against which, as the page says, no preset can promise anything."""
    idempotent = {name for name, preset in PRESETS.items() if preset.options["enable.idempotence"]}
    for (fault, name), one in measured().items():
        if name in {*idempotent, *PLAIN} and fault != "unclean":
            assert one.lost == 0, one
        if name in idempotent and fault not in {"unclean", "away"}:
            assert (one.doubled, one.reordered) == (0, 0), one


def test_each_sentence_of_the_page_has_its_rows() -> None:
    found = measured()
    assert all(found["leader_loss", name].lost > 0 for name in ("fire_and_forget", "leader"))
    assert all(found["isr_flap", name].reordered > 0 for name in PLAIN)
    assert all(found["cut_answers", name].doubled > 0 for name in PLAIN)
    assert all(found["unclean", name].lost > 0 for name in PRESETS)
    timed_out = found["away", "asynchronous"]
    assert min(timed_out.failed, timed_out.ghosts, timed_out.doubled) > 0
    assert all(
        found["away", name].doubled == found["away", name].ghosts == 0 for name in ("synchronous", TRANSACTIONAL)
    )
    assert (found["zombie", TRANSACTIONAL].failed > 0, found["zombie", TRANSACTIONAL].ghosts) == (True, 0)


def test_the_page_s_ratios_are_those_of_its_rows() -> None:
    speed = {preset: one.messages_per_second for (fault, preset), one in measured().items() if fault == "none"}
    text = " ".join((DOCS / page.PAGE).read_text().split())
    assert f"`asynchronous` has {speed['asynchronous'] / speed['at_least_once']:.2f} times the throughput" in text
    assert f"`transactional` has {speed[TRANSACTIONAL] / speed['asynchronous']:.2f} of `asynchronous`" in text
    assert 500 < speed["asynchronous"] / speed["synchronous"] < 600
