"""The plots of docs/explanation/performance.md, as SVG: the speed of each path, and each figure's share of its aim."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from xml.sax.saxutils import escape

from bench.reports.aims import Figure, Seen

LEFT, WIDE, HIGH, BAR = 470, 420, 26, 14  # pixels
OURS, OTHERS, SHORT, RANGE = "#2471a3", "#909497", "#d68910", "#17202a"


def speeds(seen: Seen, ours: Mapping[str, bool]) -> str:
    """Return the plot with a bar for each path, as long as its median; a line from its slowest round to its fastest."""
    longest = max(max(found) for found in seen.values())
    rows: list[str] = []
    for number, (name, found) in enumerate(sorted(seen.items(), key=lambda one: -median(one[1]))):
        scale = WIDE / longest
        rows += _bar(number, name, median(found) * scale, OURS if ours[name] else OTHERS, f"{median(found):,.0f}")
        y = HIGH * number + 40 + BAR // 2
        rows.append(
            f'<path d="M{LEFT + min(found) * scale:.0f} {y}H{LEFT + max(found) * scale:.0f}" stroke="{RANGE}"/>'
        )
    return _drawing(rows, len(seen), "Messages a second: median, least and most of the rounds")


def aims(figures: Sequence[Figure]) -> str:
    """Return a plot with a bar for each figure, as long as the share of its aim that it reaches; the line is the
    aim.
    """
    rows: list[str] = []
    for number, figure in enumerate(figures):
        share = figure.value / figure.aim if figure.direction == "at least" else figure.aim / figure.value
        length = min(share, 2.0) * WIDE / 2
        rows += _bar(number, figure.what, length, OURS if figure.met else SHORT, f"{share:.0%}")
    end = HIGH * len(figures) + 40
    rows.append(f'<path d="M{LEFT + WIDE / 2:.0f} 34V{end}" stroke="{RANGE}" stroke-dasharray="4 3"/>')
    return _drawing(rows, len(figures), "Share of the aim that is reached (at the line: all of it; cut off at 200%)")


def _bar(number: int, name: str, length: float, colour: str, text: str) -> Iterable[str]:
    y = HIGH * number + 40
    yield f'<text x="{LEFT - 8}" y="{y + 11}" text-anchor="end">{escape(name)}</text>'
    yield f'<rect x="{LEFT}" y="{y}" width="{length:.0f}" height="{BAR}" fill="{colour}"/>'
    yield f'<text x="{LEFT + WIDE + 10}" y="{y + 11}">{text}</text>'


def _drawing(rows: Iterable[str], count: int, title: str) -> str:
    width, height = LEFT + WIDE + 80, HIGH * count + 50
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
    parts = [
        f'{head} font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="8" y="20" font-weight="bold">{title}</text>',
        *rows,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"
