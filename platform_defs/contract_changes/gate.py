"""The gate for CI: it checks that each contract's version reflects the size of its changes.

Contracts are compared with their earlier state: in git, in the ledger, or in another file; or with the schemas of
messages (registry_gate.py). It needs no Spark, and against git neither Arrow nor Kafka nor Postgres: it does not import
transforms, as `tidegate contract validate` does.
"""

import os
import subprocess
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from platform_defs.contract.evolution.changes import ChangeClass
from platform_defs.contract.evolution.plan import plan
from platform_defs.contract.model.contract import SUFFIX, Contract
from platform_defs.contract.reader.catalogue import BrokenContract, read_contracts
from platform_defs.contract.reader.odcs import load
from platform_defs.contract_changes.gate_result import Checked, Gate
from platform_defs.errors import BadInput, LedgerMissing, TidegateError
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.writer_fit import refuse_schema_file, writer_changes
from platform_defs.settings.settings import settings

if TYPE_CHECKING:
    from platform_defs.ledger.contract_ledger import ContractLedger

Check = Callable[[Contract], Checked]  # never raises errors of a system or a user's file: `not compared`
InUse = Callable[[Contract], Sequence[WriterSchema]]
Before = Callable[[Contract], Contract | None]  # the earlier contract; None if there was none


def gate(pipelines: Sequence[str], against: str) -> Gate:
    """Check each of `pipelines`, or all, against its earlier state. Raises BadInput for an unknown name."""
    chosen = read_contracts(settings().contracts_folder).chosen(pipelines)
    good, broken = chosen.good, chosen.broken
    try:
        check, compared = _against(against, good, broken)
    except (TidegateError, OSError) as error:
        unasked = (_not_asked(contract, error) for contract in good)
        return Gate(against, (*unasked, *map(_broken, broken)), str(error))
    return Gate(against, (*map(check, compared), *map(_broken, broken)))


def _against(
    against: str, contracts: Sequence[Contract], broken: Sequence[BrokenContract]
) -> tuple[Check, Sequence[Contract]]:
    """Return the check, and the contracts that it applies to."""
    if against.startswith("git:"):
        return partial(_compared, Git(against.removeprefix("git:")).before), contracts
    if against == "ledger":
        kept_contracts = InLedger()
        return partial(_compared, kept_contracts.before, in_use=kept_contracts.schemas_in_use), contracts
    if against == "registry":
        from platform_defs.contract_changes.registry_gate import RegistryGate

        return RegistryGate().check, [contract for contract in contracts if contract.wire.framed]
    kept = load(Path(against), accepted=True)
    found = [contract for contract in contracts if contract.pipeline == kept.pipeline]
    if not found and not any(item.is_called(kept.pipeline) for item in broken):
        raise BadInput(f"{against} is a contract of {kept.pipeline}, which is not one of the pipelines to check")
    return partial(_compared, lambda _: kept), found


def _compared(before: Before, contract: Contract, in_use: InUse | None = None) -> Checked:
    """Compare the contract with its earlier state, and with the schemas that its messages name."""
    try:
        refuse_schema_file(contract)
    except BadInput as error:
        return Checked(contract.pipeline, contract.path, "does not fit", problems=(str(error),))
    try:
        was = before(contract)
        schemas = in_use(contract) if was is not None and in_use else ()
    except (TidegateError, OSError) as error:
        return _not_asked(contract, error)
    if was is None:
        return Checked(contract.pipeline, contract.path, "new")
    found = plan(was, contract, of_writers=writer_changes(was, contract, schemas))
    problems = [f"{c.what}: {c.sentence}" for c in found.changes if c.kind is ChangeClass.NEW_PIPELINE]
    if found.version_mistake:
        problems.append(found.version_mistake)
    result = "does not fit" if problems else "fits"
    return Checked(contract.pipeline, contract.path, result, plan=found, problems=tuple(problems))


def _not_asked(contract: Contract, error: Exception) -> Checked:
    return Checked(contract.pipeline, contract.path, "not compared", problems=(str(error),))


def _broken(item: BrokenContract) -> Checked:
    line = item.error.line if item.error.file == str(item.path) else None
    return Checked(item.name, item.path, "does not fit", line, problems=(str(item.error),))


@dataclass(frozen=True)
class InLedger:
    """The contracts recorded by the last run or `tidegate contract apply`."""

    def before(self, contract: Contract) -> Contract | None:
        with suppress(LedgerMissing), self._opened(contract) as ledger:
            found = ledger.applied()
            return found.contract(contract.pipeline) if found else None
        return None

    def schemas_in_use(self, contract: Contract) -> Sequence[WriterSchema]:
        with self._opened(contract) as ledger:
            return ledger.schemas_in_use()

    @contextmanager
    def _opened(self, contract: Contract) -> Generator["ContractLedger"]:
        from platform_defs.ledger.contract_ledger import ContractLedger
        from platform_defs.ledger.migrations import reading
        from platform_defs.postgres.connection import connect
        from platform_defs.stack.endpoints import ledger_alone

        with reading(connect(ledger_alone())) as session:
            yield ContractLedger(session, contract.pipeline)


@dataclass(frozen=True, eq=False)  # caches the repository's state
class Git:
    """The contracts of a commit: by their path, or by their id if a file was moved."""

    ref: str  # a branch, tag or commit

    def before(self, contract: Contract) -> Contract | None:
        assert contract.path is not None  # noqa: S101  # every contract here was read from a file
        top = self._top(contract.path.parent)
        if self._unchanged(contract, top):
            return contract
        for path in self._candidates(contract, top):
            place, content = Path(f"{self.ref}:{path}"), self._show(top, path)
            found = load(place, content, partial(self._beside, top, path), accepted=True)
            if found.pipeline == contract.pipeline:
                return found
        return None

    def _unchanged(self, contract: Contract, top: Path) -> bool:
        """Return True if its files are as in the commit: most are, and need not be read twice."""
        folder = (contract.path or top).parent
        wire = contract.wire
        read = (wire.schema_file, *(name for name, _ in wire.schema_imports)) if wire.schema_file else ()
        files = [contract.path or top, *(folder / name for name in read)]
        own = {os.path.relpath(file, top) for file in files}
        return own <= self._paths(top) and not own & self._changed(top)

    def _candidates(self, contract: Contract, top: Path) -> Iterator[str]:
        """Yield paths in the repository: the file's own, then those of other contracts that name its id."""
        own, there = os.path.relpath(contract.path or top, top), self._paths(top)
        if own in there:
            yield own
        try:
            named = _git(top, "grep", "-l", "-F", contract.pipeline, self.ref, "--", f"*{SUFFIX}")
        except _GitRefused:  # none of them does
            return
        others = (line.removeprefix(f"{self.ref}:") for line in named.splitlines())
        yield from (path for path in others if path != own)

    def _show(self, top: Path, path: str) -> str:
        return _git(top, "show", f"{self.ref}:{path}")

    def _beside(self, top: Path, path: str, name: str) -> str:
        """Return the schema file of a contract. Raises ValueError if the commit does not have it."""
        try:
            return self._show(top, os.path.normpath(os.path.join(os.path.dirname(path), name)))
        except _GitRefused as error:
            raise ValueError(str(error)) from error

    @cache  # noqa: B019  # lives as long as the command
    def _top(self, folder: Path) -> Path:
        return Path(_git(folder, "rev-parse", "--show-toplevel").strip())

    @cache  # noqa: B019
    def _changed(self, top: Path) -> frozenset[str]:
        """Return every file that differs from the commit."""
        return frozenset(_git(top, "diff", "--name-only", "--no-renames", "-z", self.ref).split("\0"))

    @cache  # noqa: B019
    def _paths(self, top: Path) -> frozenset[str]:
        """Return every file of the commit. Raises BadInput if there is no such commit."""
        try:
            _git(top, "rev-parse", "--verify", "--quiet", f"{self.ref}^{{commit}}")
        except _GitRefused as error:
            what = "no such branch, tag or commit in this repository; in CI fetch it first (fetch-depth: 0)"
            raise BadInput(what, field=f"git:{self.ref}") from error
        return frozenset(_git(top, "ls-tree", "-r", "-z", "--full-tree", "--name-only", self.ref).split("\0"))


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=False)
    if done.returncode:
        raise _GitRefused(done.stderr.decode(errors="replace").strip())
    return done.stdout.decode(errors="replace")


class _GitRefused(BadInput):  # of this module only
    """git ended with an error; its message."""
