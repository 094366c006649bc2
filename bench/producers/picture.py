"""The effect of each fault on each preset, as an SVG: a bar for lost, doubled and reordered messages."""

from collections.abc import Iterable, Sequence
from math import log10

from bench.producers.measured import Measured

COLOURS = {"lost": "#c0392b", "doubled": "#d68910", "reordered": "#2471a3"}
LEFT, TOP, WIDE, HIGH, BAR = 130, 62, 104, 46, 10  # pixels


def picture(measured: Sequence[Measured]) -> str:
    """Return the SVG: a column a fault, a row a preset. A bar's length is the logarithm of the share of
    messages sent.
    """
    faults = list(dict.fromkeys(one.fault for one in measured if one.fault != "none"))
    presets = list(dict.fromkeys(one.preset for one in measured))
    cells = [one for one in measured if one.fault in faults]
    width, height = LEFT + WIDE * len(faults) + 10, TOP + HIGH * len(presets) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *_legend(),
        *(_text(LEFT + WIDE * n, TOP - 10, fault) for n, fault in enumerate(faults)),
        *(_text(8, TOP + HIGH * n + 26, preset) for n, preset in enumerate(presets)),
        *(part for one in cells for part in _cell(one, faults.index(one.fault), presets.index(one.preset))),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _legend() -> Iterable[str]:
    yield _text(8, 22, "Share of the messages sent, on a logarithmic scale; nothing where there were none:")
    for n, (name, colour) in enumerate(COLOURS.items()):
        yield f'<rect x="{490 + 90 * n}" y="13" width="10" height="10" fill="{colour}"/>'
        yield _text(505 + 90 * n, 22, name)


def _cell(one: Measured, column: int, row: int) -> Iterable[str]:
    x, y = LEFT + WIDE * column, TOP + HIGH * row
    yield f'<rect x="{x}" y="{y}" width="{WIDE - 8}" height="{HIGH - 8}" fill="#f2f3f4"/>'
    for n, (name, colour) in enumerate(COLOURS.items()):
        count: int = getattr(one, name)
        if count:
            share = count / one.sent
            length = round(max(0.05, 1 + log10(share) / 6) * (WIDE - 50))  # full for all; the least for a millionth
            label = f"{share:.2%}" if share >= 0.0001 else "&lt; 0.01%"
            at = y + 4 + BAR * n
            yield f'<rect x="{x}" y="{at}" width="{length}" height="{BAR - 2}" fill="{colour}"/>'
            yield f'<text x="{x + length + 3}" y="{at + 8}" font-size="9">{label}</text>'


def _text(x: int, y: int, text: str) -> str:
    return f'<text x="{x}" y="{y}">{text}</text>'
