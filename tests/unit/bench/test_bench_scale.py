"""The benchmarks of docs/explanation/scale.md: their messages, and the model fitted to their numbers."""

import json
from collections.abc import Callable

import pytest

from bench.curves import CURVES, Point
from bench.partitions import FEW, LEDGER, MANY, RANGE, TASK, line, model_table
from bench.reports.scale_page import PAGE, markers


def test_the_line_is_that_of_the_points() -> None:
    start, slope = line({n: 0.002 + 3e-6 * n for n in FEW})
    assert (start, slope) == (pytest.approx(0.002), pytest.approx(3e-6))


def test_the_model_says_by_what_factor_it_misses() -> None:
    """A step that grows with the square of n is, at ten thousand, far from the line through smaller n."""
    assert "| 1.00 | 1.00 |" in model_table(_seen(lambda n: 0.002 + 3e-6 * n))
    last = model_table(_seen(lambda n: 0.002 + 1e-8 * n * n)).splitlines()[-1].split("|")
    assert float(last[-2]) > 2


@pytest.mark.parametrize("size", [100, 1_000, 10_000])
def test_messages_are_as_large_and_as_bad_as_they_are_said_to_be(size: int) -> None:
    values = list(Point("", messages=1_000, size=size, bad=0.3).values)
    good = [value for value in values if _is_json(value)]
    assert len(values) - len(good) == 300
    assert all(abs(len(value) - size) <= 15 for value in good)


@pytest.mark.parametrize("name", ["partitions", *(f"curves {name}" for name in CURVES)])
def test_each_has_a_place_in_the_page(name: str) -> None:
    begin, end = markers(name)
    assert PAGE.read_text().count(begin) == PAGE.read_text().count(end) == 1


def _seen(seconds: Callable[[int], float]) -> dict[int, dict[str, float]]:
    """Return `seconds(n)` as the time of every step, by the number of partitions."""
    return {n: {str(step): seconds(n) for step in (*LEDGER, TASK, RANGE)} for n in (*FEW, *MANY)}


def _is_json(value: bytes) -> bool:
    try:
        json.loads(value)
    except ValueError:
        return False
    return True
