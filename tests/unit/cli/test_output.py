"""Output may quote a message: nothing in it breaks a command or runs in a terminal."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.producers import __main__ as bench_producers
from bench.producers.faults import FAULTS
from bench.producers.measured import Measured
from platform_defs.cli import output
from platform_defs.producer_options.presets import PRESETS

NASTY = "[/x] [bold]b[/bold] :smile: \x1b[31mred\x1b]52;c;QQ==\x07 \x9b2J \u202eevil\u2066 \ud800 \x7f \x00 \r"
SHOWN = r"[/x] [bold]b[/bold] :smile: \x1b[31mred\x1b]52;c;QQ==\x07 \x9b2J \u202eevil\u2066 \ud800 \x7f \x00 \r"


@pytest.mark.parametrize(
    "show",
    [
        output.print_line,
        output.print_error,
        lambda text: output.print_table(["a"], [[text]]),
        lambda text: output.print_fields({"a": text}),
        lambda text: output.print_answer({}, text, output.Output.human),
    ],
    ids=["line", "error", "table", "fields", "answer"],
)
def test_neither_markup_nor_an_escape_sequence_passes(
    show: Callable[[str], None], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    show(NASTY)
    shown = "".join(capfd.readouterr())
    assert SHOWN in shown
    assert "\x1b" not in shown


def test_progress_shows_markup_as_it_is(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes this for a terminal
    with output.progress() as show:
        show("[/x]\x1b]52;c;QQ==\x07")
    assert r"[/x]\x1b]52;c;QQ==\x07" in capfd.readouterr().err


def test_a_text_stays_as_it_is_where_it_goes_into_a_file(capfd: pytest.CaptureFixture[str]) -> None:
    output.print_text("{\x9b}\n")
    assert capfd.readouterr().out == "{\x9b}\n"


def test_a_value_with_line_ends_passes_for_no_field(capfd: pytest.CaptureFixture[str]) -> None:
    output.print_fields({"key": "a\nstatus  redriven", "status": "open"})
    assert capfd.readouterr().out == "key     a\n        status  redriven\nstatus  open\n"


HEADS = [f"heading{n}" for n in range(12)]


def test_a_table_that_goes_into_a_pipe_is_not_cut(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    output.print_table(HEADS, [["x" * 100, *"abcdefghijk"]])
    heads, row = capfd.readouterr().out.splitlines()
    assert heads.split() == HEADS
    assert row.split() == ["x" * 100, *"abcdefghijk"]


def test_a_table_that_does_not_fit_into_a_terminal_is_folded(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes this for a terminal
    monkeypatch.setenv("COLUMNS", "40")
    output.print_table(["a"], [["x" * 100]])
    shown = capfd.readouterr().out
    assert shown.count("x") == 100
    assert "…" not in shown


def test_what_presets_measured_fits_into_80_columns_with_its_headings(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    found = [
        Measured(
            preset, fault, 20, 20, 500_000, 500_000, 22_250, 13_235, 10_322, 11_919, 2_003, 210_640, *[19_128.9] * 4
        )
        for preset in PRESETS
        for fault in FAULTS
    ]
    bench_producers._print(found)
    shown = re.sub(r"\x1b\[\d*m", "", capfd.readouterr().out)
    lines = [line.split() for line in shown.splitlines()]
    assert lines[0] == ["preset", "fault", "fired", "sent", "failed", "lost", "doubled", "reordered", "ghosts"]
    assert lines[1][2:] == ["20/20", "500000", "22250", "13235", "10322", "11919", "2003"]
    assert ["preset", "fault", "per", "second", "ratio", "p50", "ms", "p99", "ms", "max", "ms", "stall", "ms"] in lines
    assert len(lines) == 2 * len(found) + 3
    assert max(map(len, shown.splitlines())) <= 80


@given(st.text())
def test_what_is_shown_always_encodes_and_controls_nothing(text: str) -> None:
    shown = output.harmless(text)
    shown.encode()
    assert not any(one < " " and one not in "\n\t" for one in shown)
    assert not any("\x7f" <= one <= "\x9f" for one in shown)


def test_ordinary_texts_stay() -> None:
    for text in ("Zürich", "日本語 テキスト", "a\tb\n", "👩\u200d💻 family", "۱۲\u200c۳"):
        assert output.harmless(text) == text


@pytest.mark.parametrize("path", sorted(Path(output.__file__).parent.glob("*.py")), ids=lambda path: path.name)
def test_commands_print_nothing_past_it(path: Path) -> None:
    if path.name not in ("output.py", "main.py"):
        text = path.read_text()
        assert not [name for name in ("Console(", " print(", "typer.echo", "rich") if name in text]
