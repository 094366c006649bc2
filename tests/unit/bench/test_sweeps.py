"""Sweeps of one option: the differences between their rows, the sums of their rounds, and the page."""

import json
import re
import xml.etree.ElementTree as xml
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from bench.producers import __main__ as bench_producers
from bench.producers import page, sweep_page, sweeping
from bench.producers.statistics import ProducerStatistics
from bench.producers.sweep_picture import sweep_picture
from bench.producers.sweeps import KEPT, VARIED, Setting, SweepRound, Swept, settings_of, sweep_of
from platform_defs.producer_options.config import refusal
from platform_defs.producer_options.options import OPTIONS
from platform_defs.producer_options.presets import PRESETS

DOCS = Path(__file__).parents[3] / "docs"
COUNTS, TENTHS = st.integers(0, 10_000_000), st.integers(0, 1_000_000).map(lambda tenths: tenths / 10)
HUNDREDTHS = st.integers(0, 1_000).map(lambda hundredths: hundredths / 100)
SWEPT = st.builds(
    lambda setting, *numbers: Swept(setting.vary, str(setting.value), setting.load, *numbers),
    st.sampled_from(settings_of(["all"])),
    *[COUNTS] * 4,
    *[TENTHS] * 4,
    COUNTS,
    TENTHS,
    HUNDREDTHS,
)


def test_the_rows_of_a_sweep_differ_in_one_option_alone() -> None:
    for vary, (option, values) in VARIED.items():
        found = settings_of([vary])
        assert [one.options[option] for one in found if one.load == "full"] == list(values)
        assert [one.options[option] for one in found if one.load == "steady"] == list(values)
        others = [{name: value for name, value in one.options.items() if name != option} for one in found]
        assert others == [others[0]] * len(others)
    assert len(settings_of(["all"])) == len({*settings_of([*VARIED])}) == 2 * (3 + 5 + 4 + 5)


def test_every_setting_is_one_that_librdkafka_takes() -> None:
    assert KEPT.keys() <= OPTIONS.keys()
    for setting in settings_of(["all"]):
        assert refusal(PRESETS["at_least_once"], setting.options) is None, setting


def test_rounds_are_summed_up_by_medians_and_averages() -> None:
    rounds = [SweepRound(100, speed, speed / 10, speed / 5, 4, 1_000, 1_200, 2_000) for speed in (300.0, 100.0, 110.0)]
    found = sweep_of(Setting("acks", 0, "full"), rounds)
    assert (found.messages_per_second, found.slowest, found.fastest) == (110, 100, 300)
    assert (found.p50_ms, found.p99_ms, found.least_p99_ms, found.rounds) == (11.0, 22.0, 20.0, 3)
    assert (found.batch_messages, found.batch_bytes, found.wire_bytes, found.compression_ratio) == (
        25.0,
        250,
        12.0,
        2.0,
    )


def test_statistics_of_intervals_are_added_up() -> None:
    counted = ProducerStatistics("t")

    def interval(sent: int, batches: int, messages: int, size: int) -> None:
        of_topic: Any = {"batchcnt": {"cnt": batches, "sum": messages}, "batchsize": {"sum": size}}
        counted(json.dumps({"tx_bytes": sent, "topics": {"t": of_topic} if batches else {}}))

    interval(100, 1, 1, 90)
    counted.restart()
    for number in (1, 2):
        interval(100 + 50 * number, 2, 30, 40)
    interval(200, 0, 0, 0)
    assert (counted.batches, counted.messages, counted.batch_bytes, counted.wire_bytes) == (4, 60, 80, 100)


def test_a_setting_that_breaks_ends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_one(_: object, setting: Setting, messages: int, turn: int) -> SweepRound:
        if setting.value == 0:
            raise TimeoutError
        return SweepRound(messages, 1.0, 1.0, 1.0, 1, 1, 1, turn)

    monkeypatch.setattr(sweeping, "_round", of_one)
    brokers: Any = None
    found = [*sweeping._sweep(brokers, settings_of(["acks"]), 2, 7, count(), lambda _: None)]
    broken = [one for one in found if isinstance(one, sweeping.Unmeasured)]
    assert [(one.value, one.load) for one in broken] == [("0", "full"), ("0", "steady")]
    assert {one.error for one in broken} == {"the brokers did not answer in time"}
    assert [one.rounds for one in found if isinstance(one, Swept)] == [2] * 4


@given(st.lists(SWEPT, max_size=20))
def test_a_table_reads_as_what_it_was_written_from(swept: list[Swept]) -> None:
    assert sweep_page.rows(f"Words.\n\n{sweep_page.table(swept)}\nMore.") == swept


@given(st.lists(SWEPT, max_size=20), st.lists(SWEPT, max_size=20))
def test_a_new_row_takes_the_place_of_an_older_one_of_its_setting_alone(old: list[Swept], new: list[Swept]) -> None:
    found = {(one.vary, one.value, one.load): one for one in sweep_page.merged(old, new)}
    assert found == {(one.vary, one.value, one.load): one for one in [*old, *new]}
    assert xml.fromstring(sweep_picture([*found.values()])).tag.endswith("svg")  # noqa: S314  # our own text


def test_a_sweep_is_printed_in_80_columns(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    swept = [
        Swept(
            s.vary,
            str(s.value),
            s.load,
            5,
            210_640,
            210_640,
            210_640,
            533.8,
            19_506.3,
            9.9,
            5_555.6,
            999_999,
            180.1,
            3.39,
        )
        for s in settings_of(["all"])
    ]
    bench_producers._print_sweeps(swept)
    shown = re.sub(r"\x1b\[\d*m", "", capfd.readouterr().out)
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.count("batch bytes B/message ratio") == len(VARIED)


def test_a_preset_or_a_fault_does_not_go_with_a_sweep() -> None:
    with pytest.raises(typer.BadParameter, match="leave out --preset and --fault"):
        bench_producers.main(preset=["all"], fault=["none"], vary=[bench_producers.Vary.acks])


def measured() -> dict[tuple[str, str, str], Swept]:
    """Return the page's rows by option, value and load."""
    found = sweep_page.rows((DOCS / page.PAGE).read_text())
    return {(one.vary, one.value, one.load): one for one in found}


def test_the_page_holds_every_setting_and_the_plot_is_of_its_rows() -> None:
    assert list(measured()) == [(one.vary, str(one.value), one.load) for one in settings_of(["all"])]
    assert all(one.rounds >= 5 for one in measured().values())
    assert (DOCS / sweep_page.PICTURE).read_text() == sweep_picture([*measured().values()])


def test_each_number_of_the_page_s_sentences_is_that_of_its_row() -> None:
    found = measured()
    text = " ".join((DOCS / page.PAGE).read_text().split())
    by_linger = {value: round(found["linger", value, "steady"].batch_messages) for value in ("0", "20", "100")}
    small = found["batch", "16384", "full"].batch_messages
    assert f"20 ms fill a batch with {by_linger['20']} messages and 100 ms with {by_linger['100']}," in text
    assert f"16,384 bytes hold {small:.0f} messages" in text
    assert f"It sends {by_linger['0']} messages a batch instead of {by_linger['20']}" in text
    none, gzip, snappy, lz4, zstd = (
        f"{found['compression', str(codec), 'full'].wire_bytes:.0f}" for codec in VARIED["compression"][1]
    )
    assert (
        f"takes {none} without it, {lz4} with lz4, {snappy} with snappy, {gzip} with gzip and {zstd} with zstd" in text
    )
    least = [found["acks", str(acks), "steady"].least_p99_ms for acks in VARIED["acks"][1]]
    assert least == sorted(least)
    zero, one, every = (f"{value:.0f}" for value in least)
    assert f"a p99 of {zero} ms with acks=0, {one} ms with acks=1 and {every} ms with acks=all" in text
    speeds = [found["acks", str(acks), "full"] for acks in VARIED["acks"][1]]
    assert max(one.slowest for one in speeds) < min(one.fastest for one in speeds)  # they overlap
