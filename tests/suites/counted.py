"""The results of a suite's cases, and the page with their totals: docs/reference/conformance.md."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.tables import table

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGE = REFERENCE / "conformance.md"
_SHOWN = 40  # faults in a failure
_TOTALS = ("suite", "cases", "agree", "documented differences", "faults")


@dataclass(frozen=True)
class Difference:
    """A difference from a suite that Tidegate has on purpose."""

    what: str
    page: str  # the page of docs/reference that describes it
    word: str  # the page's word for it


@dataclass
class Counted:
    """The results of a suite's cases."""

    suite: str
    differences: Mapping[str, Difference]  # the permitted ones, by name
    agree: int = 0
    documented: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])

    def add(self, case: str, wrong: str | None, difference: str | None = None) -> None:
        """Count a case: `wrong` is its fault, None if there is none; `difference` names a documented one."""
        if wrong is not None:
            self.faults.append(f"{case}: {wrong}")
        elif difference is not None:
            self.documented[difference] += 1
        else:
            self.agree += 1

    @property
    def row(self) -> Sequence[str]:
        """The row of the page's table of totals."""
        counts = self.agree, self.documented.total(), len(self.faults)
        return (self.suite, *(f"{count:,}" for count in (sum(counts), *counts)))

    def check(self) -> None:
        """Raise AssertionError for a fault, for a difference that is not described, or for other totals on the page."""
        shown = "\n".join(self.faults[:_SHOWN])
        assert not self.faults, f"{self.row}: {len(self.faults):,} faults, such as\n{shown}"
        for name in self.documented:
            found = self.differences[name]
            assert found.word in (REFERENCE / found.page).read_text(), f"{found.page} does not say {found.word}"
        text = PAGE.read_text()
        rows = [row.split("|") for row in text.splitlines() if row.startswith("| ")]
        there = [[cell.strip() for cell in row[1:-1]] for row in rows]
        assert [*self.row] in there, f"write into {PAGE.name}:\n{table(_TOTALS, [self.row])}"
        for name, count in sorted(self.documented.items()):
            wanted = [self.suite, self.differences[name].what, f"{count:,}", _link(self.differences[name].page)]
            assert wanted in there, f"write into {PAGE.name}:\n{table(('suite', 'what', 'cases', 'page'), [wanted])}"


def _link(page: str) -> str:
    return f"[{page.removesuffix('.md')}]({page})"
