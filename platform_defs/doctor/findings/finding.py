"""A finding: how bad it is, what was found and where, and what to do."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """The severity of a finding, the worst first."""

    ERROR = "error"  # something does not work, or will lose or mix up data
    WARNING = "warning"  # it works, but one fault or some time later it will not; or it could not be checked
    OK = "ok"


@dataclass(frozen=True)
class Finding:
    """A few sentences. `subject`: the address, topic or part that it is about; `do` is empty if all is well."""

    severity: Severity
    area: str  # kafka, topics, postgres, ledger, pipelines, spark, java, dagster or clock
    subject: str
    what: str
    do: str = ""


@dataclass(frozen=True)
class Subject:
    """The area and the subject of findings."""

    area: str
    name: str

    def error(self, what: str, do: str) -> Finding:
        """Return a finding that makes `tidegate doctor` exit with 1."""
        return Finding(Severity.ERROR, self.area, self.name, what, do)

    def warning(self, what: str, do: str) -> Finding:
        """Return a finding that a person should know of."""
        return Finding(Severity.WARNING, self.area, self.name, what, do)

    def well(self, what: str) -> Finding:
        """Return a finding with nothing to do."""
        return Finding(Severity.OK, self.area, self.name, what)


def count(findings: Iterable[Finding]) -> dict[str, int]:
    """Return the number of findings of each severity: {"error": 0, "warning": 1, "ok": 12}."""
    found = [finding.severity for finding in findings]
    return {severity.value: found.count(severity) for severity in Severity}


def by_area(findings: Iterable[Finding]) -> dict[str, Sequence[Finding]]:
    """Return the findings of each area, areas and findings in the order in which they came."""
    areas = dict[str, list[Finding]]()
    for finding in findings:
        areas.setdefault(finding.area, []).append(finding)
    return {area: tuple(found) for area, found in areas.items()}
