"""The contracts of every domain in a folder: a subfolder each, with `<name>.odcs.yaml` and, if wanted, `<name>.py`.

`read_contracts` reads the contracts alone, without importing Spark; `find_all` imports their transforms as well. A
contract or transform that cannot be used affects no other: it is returned as a BrokenContract, with the error to show.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, cast

from platform_defs.contract.model.contract import SUFFIX, Contract, stem
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.model.transform_sources import transform_sources
from platform_defs.contract.reader.odcs import check_fits_without_transform, load, refused
from platform_defs.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

_HEAD = 1 << 20  # characters of a file that are searched for signs of a contract
_LIKE_A_CONTRACT = re.compile(r"""\bkind["']?\s*:\s*["']?DataContract\b|\bphysicalType["']?\s*:\s*["']?topic\b""")


# The folders above the contracts whose transforms this process has imported. Dagster restores sys.path after it has
# loaded definitions, so a run appends them again (spark/session.py), here and in Spark's workers.
import_roots = dict[str, None]()


@dataclass(frozen=True)
class BrokenContract:
    """A contract, or the transform next to it, that cannot be used."""

    path: Path
    error: BadInput
    contract: Contract | None = None  # if the contract itself could be read

    @property
    def domain(self) -> str:
        return self.path.parent.name

    @property
    def name(self) -> str:
        """The pipeline's name; if it could not be read, the folder and the file: `bank/transfers`."""
        return self.contract.pipeline if self.contract else f"{self.domain}/{stem(self.path)}"

    def is_called(self, name: str) -> bool:
        """Return True if a user may mean this contract by the name: bank_transfers also if no id could be read."""
        return name in (self.name, f"{self.domain}_{stem(self.path)}")

    def may_read(self, topic: str) -> bool:
        """Return False if the contract certainly does not read the topic: the file does not contain its name."""
        if self.contract is not None:
            return self.contract.topic == topic
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return True
        return re.search(rf"(?<![\w.-]){re.escape(topic)}(?![\w.-])", text) is not None


@dataclass(frozen=True)
class Contracts:
    """Every contract under a folder, by path."""

    good: tuple[Contract, ...]
    broken: tuple[BrokenContract, ...]

    def chosen(self, names: Sequence[str]) -> Contracts:
        """Return the contracts of the pipelines with these names; all of them without names. Raises BadInput for a name
        that no contract has, with the names there are.
        """
        good = tuple(contract for contract in self.good if not names or contract.pipeline in names)
        others = {*names} - {contract.pipeline for contract in good}
        broken = tuple(item for item in self.broken if not names or any(map(item.is_called, others)))
        for name in sorted(others):
            if not any(item.is_called(name) for item in broken):
                known = ", ".join(contract.pipeline for contract in self.good) or "none"
                message = f"there is no pipeline {name!r}; the pipelines are: {known}"
                if self.broken:
                    message += f". These contracts cannot be used: {'; '.join(str(item.error) for item in self.broken)}"
                raise BadInput(message)
        return Contracts(good, broken)


@dataclass(frozen=True)
class Catalogue:
    """Every pipeline under a folder, by path, with its transform; and the contracts that cannot be one."""

    pipelines: tuple[Pipeline, ...]
    broken: tuple[BrokenContract, ...]


def contract_files(folder: Path) -> list[Path]:
    """Return every file at any depth of `folder` that was meant as a contract, by its name or its content: one that
    nothing reads would go unnoticed. Links to folders are followed, except to one that is being read already.

    Hidden folders are skipped: editors keep copies in them, and a Kubernetes volume what its files link to (`..data`).
    """
    files = list[Path]()
    for root, below, names in os.walk(folder, followlinks=True):
        inside = Path(root)
        files += [inside / name for name in (*below, *names) if name.lower().endswith((".yaml", ".yml"))]
        read = {path.resolve() for path in (inside, *inside.parents)}
        below[:] = [name for name in below if not name.startswith(".") and (inside / name).resolve() not in read]
    return sorted(path for path in files if path.stem.lower().endswith(".odcs") or _reads_like_a_contract(path))


def read_contracts(folder: Path, loaded: Iterable[Contract] = ()) -> Contracts:
    """Return the contracts of every domain. If two claim the same pipeline or table, neither is good. `loaded`: as in
    read_files.
    """
    return read_files(contract_files(folder), folder, loaded)


def read_files(paths: Iterable[Path], folder: Path | None = None, loaded: Iterable[Contract] = ()) -> Contracts:
    """Return the contracts in these files, compared with each other. `folder`: the contracts' folder that has them;
    without it, they may be in folders of any name. `loaded`: contracts that must not claim the same either.
    """
    read, good, broken = list[Contract](), list[Contract](), list[BrokenContract]()
    for path in paths:
        try:
            read.append(read_contract(path, folder))
        except BadInput as error:
            broken.append(BrokenContract(path, error))
        except Exception as error:  # noqa: BLE001  # nothing in one file may keep the others from being read
            unforeseen = BadInput(f"cannot be read: {type(error).__name__}: {error}", file=str(path))
            broken.append(BrokenContract(path, unforeseen))
    clashes = _clashes([*read, *loaded])
    for contract in read:
        try:
            if clash := clashes.get(_path(contract)):
                raise clash
            check_transform_file(contract)
            good.append(contract)
        except BadInput as mistake:
            broken.append(BrokenContract(_path(contract), mistake, contract))
        except Exception as error:  # noqa: BLE001  # as above
            unforeseen = _unforeseen(error, contract.transform_path or _path(contract))
            broken.append(BrokenContract(_path(contract), unforeseen, contract))
    return Contracts(tuple(good), tuple(sorted(broken, key=lambda item: item.path)))


def find_all(folder: Path, loaded: Iterable[Contract] = ()) -> Catalogue:
    """Return the pipelines of every domain, their transforms imported. `loaded`: as in read_files."""
    return load_pipelines(read_contracts(folder, loaded))


def load_pipelines(contracts: Contracts) -> Catalogue:
    """Return the pipelines of these contracts, their transforms imported."""
    pipelines, broken = list[Pipeline](), list(contracts.broken)
    for contract in contracts.good:
        try:
            pipelines.append(with_transform(contract))
        except BadInput as error:
            broken.append(BrokenContract(_path(contract), error, contract))
        except Exception as error:  # noqa: BLE001  # nothing in one file may keep the others from being loaded
            unforeseen = _unforeseen(error, contract.transform_path or _path(contract))
            broken.append(BrokenContract(_path(contract), unforeseen, contract))
    return Catalogue(tuple(pipelines), tuple(sorted(broken, key=lambda item: item.path)))


def find_contract(name: str, folder: Path) -> Contract:
    """Return the contract of the pipeline called `name`. Raises BadInput: its own mistake, or the names there are."""
    found = read_contracts(folder).chosen([name])
    for item in found.broken:
        raise item.error
    return found.good[0]


def with_transform(contract: Contract) -> Pipeline:
    """Return the pipeline of `contract`. Raises BadInput for a transform that is unusable, or missing and needed."""
    check_transform_file(contract)
    beside = contract.transform_path
    if beside is None or not beside.exists():
        return Pipeline(contract)
    sources = transform_sources(contract)
    transform = _transform(beside)
    if changed := sorted({name for name, _ in {*sources} ^ {*transform_sources(contract)}}):
        raise BadInput(f"{changed[0]} changed while it was being imported; try again", file=str(beside))
    return Pipeline(contract, transform, sources)


def check_transform_file(contract: Contract) -> None:
    """Raise BadInput for a contract that needs a transform and has none, or must not have the one next to it. Imports
    no transform.
    """
    beside = contract.transform_path
    if beside is None or not beside.exists():
        check_fits_without_transform(contract)
        return
    if contract.row_table.disposition == "upsert":
        raise BadInput(
            "an upsert table cannot have a transform: a tombstone has no fields to transform, and each key is one "
            "row. Use a downstream asset instead",
            file=str(beside),
        )
    if contract.publication == "direct":
        raise BadInput(
            "publication: direct cannot have a transform: the task that reads a range publishes it before Spark "
            "can transform it. Remove the transform, or use publication: staged",
            file=str(beside),
        )


def read_contract(path: Path, folder: Path | None = None, content: str | None = None) -> Contract:
    """Return the contract in the file, or in `content`, which is to become the file. Raises BadInput for every mistake
    that shows without other files. `folder`: as in read_files.
    """
    if folder is not None and (path.parent.parent != folder or not stem(path) or not path.name.endswith(SUFFIX)):
        raise BadInput(
            f"a contract's path must be {folder.name}/<domain>/<name>{SUFFIX}; rename or move this file", file=str(path)
        )
    if (content is not None or path.is_file()) and not path.name.endswith(SUFFIX):
        raise BadInput(f"a contract is called <name>{SUFFIX}; rename this file", file=str(path))
    contract = load(path, content)
    if folder is not None and contract.domain != path.parent.name:
        message = f"domain is {contract.domain!r}, but the file is in the folder {path.parent.name!r}; use one name"
        raise refused(contract, message, "domain")
    return contract


def _reads_like_a_contract(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return _LIKE_A_CONTRACT.search(file.read(_HEAD)) is not None
    except OSError:
        return False


def _clashes(contracts: Iterable[Contract]) -> dict[Path, BadInput]:
    """Return the error of each file that claims the same pipeline or table as another: the files do not decide which
    one is meant.
    """
    claims: dict[tuple[str, str], list[Contract]] = defaultdict(list)
    for contract in contracts:
        claims["pipeline", contract.pipeline].append(contract)
        for table in contract.tables:
            claims["table", table.name].append(contract)
    found = dict[Path, BadInput]()
    for (kind, name), claimants in claims.items():
        for contract in claimants if len(claimants) > 1 else ():
            others = ", ".join(str(other.path) for other in claimants if other.path != contract.path)
            message = f"{kind} {name} is also defined in {others}; give one of them another name"
            if not others:
                message = f"{kind} {name} is loaded twice from this file, with two prefixes; load its folder once"
            place = ("id", None) if kind == "pipeline" else ("physicalName", name)
            found.setdefault(_path(contract), refused(contract, message, *place))
    return found


def _path(contract: Contract) -> Path:
    assert contract.path is not None  # noqa: S101  # every contract here was read from a file
    return contract.path


def _transform(path: Path) -> Callable[[DataFrame], DataFrame]:
    """Return the function `transform` of the file, imported as `assets.<domain>.<name>`: with the name of the folder of
    contracts, as the file itself would be. What the file imports is found above that folder as well, after all that is
    installed.
    """
    name = path.stem
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise BadInput(f"{name!r} is not a Python module name; rename the contract and its transform", file=str(path))
    contracts = path.absolute().parents[1].resolve()  # links below it have the name of the link
    import_roots[str(contracts.parent)] = None
    append_import_roots()
    full_name = f"{contracts.name}.{path.parent.name}.{name}"
    spec = importlib.util.spec_from_file_location(full_name, path, loader=_Compiled(full_name, str(path)))
    if spec is None or spec.loader is None:
        raise BadInput("cannot be imported", file=str(path))
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(full_name)
    sys.modules[full_name] = module  # dataclasses look it up; not after the import: workers get it by value
    try:
        with redirect_stdout(sys.stderr):  # stdout is a command's JSON document
            spec.loader.exec_module(module)
            found = getattr(module, "transform", None)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's file may raise anything: sys.exit, pytest.skip, a class of its own
        raise _unforeseen(error, path) from error
    finally:
        sys.modules.pop(full_name, None)
        if before is not None:
            sys.modules[full_name] = before
    return _checked(found, path)


def append_import_roots() -> None:
    """Let this process import what is next to contracts, after all that is installed."""
    sys.path += [root for root in import_roots if root not in sys.path]


class _Compiled(SourceFileLoader):
    """Compiles the file as it is now. Python finds cached bytecode by the second of the file's last change and its
    size, so bytecode of an older text could run under the digest of this one. Modules that the file imports still use
    the cache.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _unforeseen(error: BaseException, path: Path) -> BadInput:
    """Return the error for an exception of a user's own code, whose text may itself raise, or be invalid UTF-8."""
    try:
        text = str(error).encode("utf-8", "backslashreplace").decode()
    except Exception:  # noqa: BLE001  # __str__ is a user's, too
        text = "its text cannot be shown"
    # The line of the file at which it raised.
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    line = lines[-1] if lines else None
    if isinstance(error, SyntaxError) and error.filename == str(path):
        line = error.lineno
    return BadInput(f"cannot be imported: {type(error).__name__}: {text}", file=str(path), line=line)


def _checked(found: object, path: Path) -> Callable[[DataFrame], DataFrame]:
    """Return `found` if it can be called with one DataFrame."""
    wanted = "transform(messages: DataFrame) -> DataFrame"
    if not callable(found):
        raise BadInput(f"has no function {wanted}", file=str(path), field="transform")
    try:
        inspect.signature(found).bind(None)
    except TypeError as error:
        raise BadInput(f"transform takes one argument, {wanted}: {error}", file=str(path), field="transform") from error
    except ValueError:  # written in C: it has no signature
        pass
    except Exception as error:  # a callable of a user's own class
        raise _unforeseen(error, path) from error
    return cast("Callable[[DataFrame], DataFrame]", found)
