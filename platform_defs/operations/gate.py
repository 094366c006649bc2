"""The gate for CI: does each contract's version say how much has changed in it?

Contracts are compared with what they were: in git, in the ledger, or in another file. It needs neither Spark nor Arrow,
and against git neither Kafka nor Postgres.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, Protocol

from platform_defs.contract.catalogue import BrokenContract, read_contracts
from platform_defs.contract.model import SUFFIX, Contract
from platform_defs.contract.odcs import load
from platform_defs.errors import BadInput, LedgerMissing, TidegateError
from platform_defs.evolution.changes import ChangeClass
from platform_defs.evolution.plan import Plan, plan

Result = Literal["fits", "new", "does not fit", "not asked"]


@dataclass(frozen=True)
class Checked:
    """One contract, and what the gate says of it."""

    pipeline: str
    file: Path | None
    result: Result
    plan: Plan | None = None  # None: there was no such contract before, or one of the two cannot be read
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gate:
    """What the gate says of all contracts."""

    against: str
    contracts: tuple[Checked, ...]

    @property
    def code(self) -> int:
        """The exit code: 1 where a contract does not fit, else 2 where one could not be asked, else 0."""
        found = {item.result for item in self.contracts}
        return 1 if "does not fit" in found else 2 if "not asked" in found else 0


class Against(Protocol):
    """Where a contract is looked up as it was."""

    def before(self, contract: Contract) -> Contract | None:
        """The contract of this pipeline as it was; None where there was none. Raises TidegateError where that cannot
        be asked.
        """
        ...


def gate(pipelines: Sequence[str], against: str) -> Gate:
    """Each of `pipelines`, or all that there are, against what they were. Raises BadInput for an unknown name."""
    found = read_contracts()
    wanted = set(pipelines)
    good = [contract for contract in found.good if not wanted or contract.pipeline in wanted]
    broken = [item for item in found.broken if not wanted or item.name in wanted]
    if unknown := wanted - {contract.pipeline for contract in good} - {item.name for item in broken}:
        names = ", ".join(contract.pipeline for contract in found.good)
        raise BadInput(f"there is no pipeline {min(unknown)!r}; the pipelines are: {names}")
    try:
        source = _source(against)
    except (TidegateError, OSError) as error:
        return Gate(against, tuple(_not_asked(contract, error) for contract in good))
    compared = _of_file(good, source) if isinstance(source, OneFile) else good
    return Gate(against, (*(_checked(contract, source) for contract in compared), *map(_broken, broken)))


def _source(against: str) -> Against:
    if against.startswith("git:"):
        return Git(against.removeprefix("git:"))
    if against == "ledger":
        return InLedger()
    return OneFile(load(Path(against)))


def _of_file(contracts: Sequence[Contract], source: "OneFile") -> list[Contract]:
    """The contract that the file is an earlier state of."""
    found = [contract for contract in contracts if contract.pipeline == source.contract.pipeline]
    if not found:
        raise BadInput(f"it is a contract of {source.contract.pipeline}, which is not among those to be checked")
    return found


def _checked(contract: Contract, source: Against) -> Checked:
    try:
        before = source.before(contract)
    except (TidegateError, OSError) as error:
        return _not_asked(contract, error)
    if before is None:
        return Checked(contract.pipeline, contract.path, "new")
    found = plan(before, contract)
    problems = [f"{c.what}: {c.sentence}" for c in found.changes if c.kind is ChangeClass.NEW_PIPELINE]
    if found.version_mistake:
        problems.append(found.version_mistake)
    return Checked(contract.pipeline, contract.path, "does not fit" if problems else "fits", found, tuple(problems))


def _not_asked(contract: Contract, error: Exception) -> Checked:
    return Checked(contract.pipeline, contract.path, "not asked", problems=(str(error),))


def _broken(item: BrokenContract) -> Checked:
    return Checked(item.name, item.path, "does not fit", problems=(str(item.error),))


@dataclass(frozen=True)
class OneFile:
    """A contract file that was kept elsewhere."""

    contract: Contract

    def before(self, contract: Contract) -> Contract | None:
        return self.contract if contract.pipeline == self.contract.pipeline else None


@dataclass(frozen=True)
class InLedger:
    """What the last run or `tidegate contract apply` has recorded."""

    def before(self, contract: Contract) -> Contract | None:
        from resources.endpoints import connection
        from resources.postgres.connection import connect
        from resources.postgres.contract_ledger import ContractLedger
        from resources.postgres.migrations import reading

        try:
            with reading(connect(connection().postgres_url)) as session:
                found = ContractLedger(session, contract.pipeline).applied()
                return found.contract(contract.pipeline) if found else None
        except LedgerMissing:
            return None


class Git:
    """The contracts of a commit: by their path, and, where a file was moved, by the id that they have."""

    def __init__(self, ref: str) -> None:
        self._ref = ref

    def before(self, contract: Contract) -> Contract | None:
        if contract.path is None:
            raise AssertionError(f"{contract.pipeline} was read from no file")
        folder = contract.path.parent
        self._commit(folder)
        for path in self._candidates(contract, folder):
            found = load(Path(f"{self._ref}:{path}"), self._show(folder, path), partial(self._beside, folder, path))
            if found.pipeline == contract.pipeline:
                return found
        return None

    def _commit(self, folder: Path) -> None:
        try:
            self._git(folder, "rev-parse", "--verify", "--quiet", f"{self._ref}^{{commit}}")
        except _GitRefused as error:
            known = error if str(error) else "it is no branch, tag or commit that is here; in CI, fetch it first"
            raise BadInput(str(known), field=f"git:{self._ref}") from error

    def _candidates(self, contract: Contract, folder: Path) -> Iterator[str]:
        """Paths in the repository: the file's own, then those of other contracts that name its id."""
        top = Path(self._git(folder, "rev-parse", "--show-toplevel").strip())
        own = os.path.relpath(contract.path or folder, top)
        if self._git(folder, "ls-tree", "--full-tree", "--name-only", self._ref, "--", own).strip():
            yield own
        try:
            named = self._git(top, "grep", "-l", "-F", contract.pipeline, self._ref, "--", f"*{SUFFIX}")
        except _GitRefused:  # none of them does
            return
        others = (line.removeprefix(f"{self._ref}:") for line in named.splitlines())
        yield from (path for path in others if path != own)

    def _show(self, folder: Path, path: str) -> str:
        return self._git(folder, "show", f"{self._ref}:{path}")

    def _beside(self, folder: Path, path: str, name: str) -> str:
        """The schema file of a contract."""
        try:
            return self._show(folder, os.path.normpath(os.path.join(os.path.dirname(path), name)))
        except _GitRefused as error:
            raise ValueError(str(error)) from error

    def _git(self, folder: Path, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=False)
        if done.returncode:
            raise _GitRefused(done.stderr.decode(errors="replace").strip())
        return done.stdout.decode(errors="replace")


class _GitRefused(BadInput):  # of this module only
    """git ended with an error; its words."""
