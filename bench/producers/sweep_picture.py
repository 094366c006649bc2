"""The effect of varying one option of a producer, as an SVG: throughput, latency and the size of batches."""

from collections.abc import Iterable, Mapping, Sequence
from math import log10

from bench.producers.sweeps import VARIED, Load, Swept

LEFT, TOP, ROW, PANEL = 120, 66, 22, 34  # pixels
WIDE, GAP = 130, 85  # of a column of bars, and of the numbers behind them
COLUMNS = (
    ("messages a second, full load", "#2471a3"),
    ("p99 ms, steady load (log)", "#d68910"),
    ("messages a batch, steady (log)", "#1e8449"),
    ("bytes a message, full load", "#7d3c98"),
)


def sweep_picture(swept: Sequence[Swept]) -> str:
    """Return the SVG: a panel a sweep, a row a value, a column a measure. Bars of throughput and bytes are linear, from
    0; those of latency and batches are logarithmic. A line goes from the slowest to the fastest round.
    """
    by_sweep = {vary: _by_value(swept, vary) for vary in VARIED}
    rows = sum(map(len, by_sweep.values()))
    width = LEFT + len(COLUMNS) * (WIDE + GAP)
    height = TOP + rows * ROW + len(VARIED) * PANEL
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(8, 22, "One option varied, all others kept; medians, lines from the slowest to the fastest round"),
        *(_text(LEFT + n * (WIDE + GAP), 50, name, colour) for n, (name, colour) in enumerate(COLUMNS)),
    ]
    y = TOP
    for vary, values in by_sweep.items():
        parts.append(_text(8, y + 16, VARIED[vary][0], weight="bold"))
        y += PANEL - ROW // 2
        for value, loads in values.items():
            parts += _row(value, loads, swept, y)
            y += ROW
        y += ROW // 2
    return "\n".join([*parts, "</svg>"]) + "\n"


def _by_value(swept: Sequence[Swept], vary: str) -> Mapping[str, Mapping[Load, Swept]]:
    found = dict[str, dict[Load, Swept]]()
    for one in swept:
        if one.vary == vary:
            found.setdefault(one.value, {})[one.load] = one
    return found


def _row(value: str, loads: Mapping[Load, Swept], swept: Sequence[Swept], y: int) -> Iterable[str]:
    yield _text(24, y + 14, value)
    full, steady = loads.get("full"), loads.get("steady")
    if full is not None:
        most = max(1, *(one.fastest for one in swept if one.load == "full"))
        yield from _bar(0, y, full.messages_per_second / most, f"{full.messages_per_second:,}")
        ends = [LEFT + round(WIDE * speed / most) for speed in (full.slowest, full.fastest)]
        most_bytes = max(1, *(one.wire_bytes for one in swept if one.load == "full"))
        yield from _bar(3, y, full.wire_bytes / most_bytes, f"{full.wire_bytes:,}")
        yield f'<line x1="{ends[0]}" x2="{ends[1]}" y1="{y + 9}" y2="{y + 9}" stroke="#17202a" stroke-width="2"/>'
    if steady is not None:
        others = [one for one in swept if one.load == "steady"]
        yield from _bar(1, y, _share(steady.p99_ms, [one.p99_ms for one in others]), f"{steady.p99_ms:,}")
        yield from _bar(
            2, y, _share(steady.batch_messages, [one.batch_messages for one in others]), f"{steady.batch_messages:,}"
        )


def _bar(column: int, y: int, share: float, label: str) -> Iterable[str]:
    x, length = LEFT + column * (WIDE + GAP), max(2, round(share * WIDE))
    yield f'<rect x="{x}" y="{y + 3}" width="{length}" height="{ROW - 9}" fill="{COLUMNS[column][1]}"/>'
    yield _text(x + WIDE + 6 if column == 0 else x + length + 6, y + 14, label)


def _share(value: float, of: Sequence[float]) -> float:
    """Return the share: from 0.1 for the least to 1 for the most, by their logarithms."""
    low, high = log10(max(min(of), 0.1)), log10(max(*of, 0.1))
    return 1.0 if high <= low else 0.1 + 0.9 * (log10(max(value, 0.1)) - low) / (high - low)


def _text(x: int, y: int, text: str, colour: str = "#17202a", weight: str = "normal") -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}" font-weight="{weight}">{text}</text>'
