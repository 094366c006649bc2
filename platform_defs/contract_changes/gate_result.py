"""The gate's results for contracts, and its exit code."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from platform_defs.contract.evolution.plan import ChangePlan

Result = Literal["fits", "new", "does not fit", "not compared"]


@dataclass(frozen=True)
class Checked:
    """A contract, and its result."""

    pipeline: str
    file: Path | None
    result: Result
    line: int | None = None  # the line of the mistake in the file
    plan: ChangePlan | None = None  # None: there was no such contract before, or one of the two cannot be read
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()  # information that does not fail the gate


@dataclass(frozen=True)
class Gate:
    """The results of all contracts."""

    against: str
    contracts: tuple[Checked, ...]
    error: str | None = None  # why nothing was compared

    @property
    def code(self) -> int:
        """The exit code: 2 if nothing was compared because of an error, else 1 if a contract does not fit, else 2 if a
        system was unavailable, else 0.
        """
        if self.error is not None:
            return 2
        found = {item.result for item in self.contracts}
        return 1 if "does not fit" in found else 2 if "not compared" in found else 0
