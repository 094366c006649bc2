"""The project's aims, and whether the measured figures meet them: the last table that a benchmark prints."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Seen = Mapping[str, Sequence[float]]  # by path, the messages per second of each round


@dataclass(frozen=True)
class Figure:
    """A figure with an aim."""

    what: str
    value: float
    aim: float
    direction: Literal["at least", "at most"] = "at least"
    unit: str = ""

    @property
    def met(self) -> bool:
        """True if the figure reaches its aim."""
        return self.value >= self.aim if self.direction == "at least" else self.value <= self.aim

    @property
    def row(self) -> str:
        """Its line of the table."""
        sign = "≥" if self.direction == "at least" else "≤"
        verdict = "met" if self.met else "short"
        return f"| {self.what} | {self._written}{self.unit} | {sign} {self.aim:g}{self.unit} | {verdict} |"

    @property
    def _written(self) -> str:
        """The value with as many digits as distinguish it from an aim that it misses."""
        texts = (f"{self.value:,.{digits}f}" for digits in range(2, 9))
        return next((text for text in texts if self.met or float(text.replace(",", "")) != self.aim), f"{self.value}")


@dataclass(frozen=True)
class Result:
    """A benchmark's result: its tables, in Markdown, and the figures that have an aim."""

    text: str
    figures: Sequence[Figure]


@dataclass(frozen=True)
class Ratio:
    """An aim for the ratio of one path to another, in the same round."""

    what: str
    path: str
    against: str
    aim: float

    def figure(self, seen: Seen) -> Figure:
        """Return the figure: the median of the rounds."""
        return Figure(self.what, statistics.median(ratios(seen[self.path], seen[self.against])), self.aim)


def ratios(speeds: Sequence[float], others: Sequence[float]) -> list[float]:
    """Return one path's speed as a share of the other's, round by round; sorted."""
    return sorted(speed / other for speed, other in zip(speeds, others, strict=True))


def table(figures: Sequence[Figure]) -> str:
    """Return all figures, in Markdown."""
    return "\n".join(["| figure | measured | aim | |", "|---|---|---|---|", *(figure.row for figure in figures)])
