"""What the gate says of contracts, and the exit code that follows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from platform_defs.evolution.plan import ChangePlan

Result = Literal["fits", "new", "does not fit", "not asked"]


@dataclass(frozen=True)
class Checked:
    """One contract, and what the gate says of it."""

    pipeline: str
    file: Path | None
    result: Result
    line: int | None = None  # of the file, where its mistake is
    plan: ChangePlan | None = None  # None: there was no such contract before, or one of the two cannot be read
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()  # what a reader should know, and does not fail


@dataclass(frozen=True)
class Gate:
    """What the gate says of all contracts."""

    against: str
    contracts: tuple[Checked, ...]
    error: str | None = None  # why nothing was compared

    @property
    def code(self) -> int:
        """The exit code: 2 where nothing was compared because of an error, else 1 where a contract does not fit, else 2
        where one could not be asked, else 0.
        """
        if self.error is not None:
            return 2
        found = {item.result for item in self.contracts}
        return 1 if "does not fit" in found else 2 if "not asked" in found else 0
