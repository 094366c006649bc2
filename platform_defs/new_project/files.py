"""The files of a project: all of a new one, and what an existing Dagster project lacks. None is ever overwritten."""

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, cast

import yaml

from platform_defs.contract.model.contract import Contract
from platform_defs.errors import BadInput
from platform_defs.settings.contracts import read_contracts
from platform_defs.settings.project import ASSETS, has_contracts, project_table
from platform_defs.settings.settings import settings

TEMPLATES = Path(__file__).parent / "templates"
CONTRACT = Path(ASSETS, "web", "page_views.odcs.yaml")
PYPROJECT, DEFINITIONS, WORKSPACE = "pyproject.toml", "definitions.py", "workspace.yaml"
COMPONENT = re.compile(r"^\s*type:\s*[\"']?tidegate\.TopicsComponent\b", re.MULTILINE)
LOADING = {"definitions", "TopicsComponent"}  # names of tidegate that load contracts


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project after `tidegate init`. `written`, `kept`: the files that it wrote, and those that were there, in the
    folder. `is_new`: no Dagster project was found; `had_files`: other files were, apart from hidden ones. `loads`: the
    options of `dagster` that load its definitions; None if they are not known. `has_tidegate`: they include Tidegate's.
    `contracts`: the folder of its contracts; `first`: one of them, None if none can be used.
    """

    folder: Path
    written: tuple[Path, ...]
    kept: tuple[Path, ...]
    is_new: bool
    had_files: bool
    loads: str | None
    has_tidegate: bool
    contracts: Path
    first: Contract | None


def write_project(folder: Path) -> Project:
    """Write the files that the project lacks. Raises BadInput if pyproject.toml cannot be read, or a file cannot be
    written; if something else is in the place of a file or folder, nothing is written.
    """
    if os.path.lexists(folder) and not folder.is_dir():
        raise BadInput(f"{folder} is a file; give a folder")
    had_files = folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())
    is_new = (
        not project_table(folder, "tool", "dg", "project")
        and "dagster" not in project_table(folder, "tool")
        and not any((folder / name).is_file() for name in (DEFINITIONS, WORKSPACE))
    )
    wanted = dict(_files(folder, is_new=is_new))
    kept = tuple(path for path in wanted if _is_there(folder, path))
    written = {path: text for path, text in wanted.items() if path not in kept}
    for path, text in written.items():
        _write(folder / path, text)
    contracts = settings().contracts or folder / ASSETS
    return Project(
        folder=folder,
        written=(*written,),
        kept=kept,
        is_new=is_new,
        had_files=had_files,
        loads=_loads(folder),
        has_tidegate=has_tidegate(folder),
        contracts=contracts,
        first=next(iter(read_contracts(contracts.resolve()).good), None),
    )


def write_contract(folder: Path, contracts: str = ASSETS) -> None:
    """Write a first contract into the folder `contracts` of a project, if it has none. Outside `assets/`, pipeline,
    topic and table are named after the folder, since they must differ from those of other folders.
    """
    if has_contracts(folder / contracts):
        return
    text, path = _template(CONTRACT.name), folder / CONTRACT
    if contracts != ASSETS:
        domain = re.sub(r"[^a-z0-9]+", "_", contracts.lower())
        text = re.sub(r"\bweb(?=[._]page_views)", domain, text).replace("domain: web", f"domain: {domain}")
        path = folder / contracts / domain / CONTRACT.name
    _write(path, text)


def has_tidegate(folder: Path) -> bool:
    """Return True if the project's definitions have Tidegate's: by a component, or a call of tidegate.definitions."""
    option, _, target = (_loads(folder) or "").partition(" ")
    module = target.partition(" ")[0].replace(".", "/")
    files = [folder / target.partition(" ")[0]] if option == "-f" else []
    files += [root / end for root in (folder, folder / "src") for end in (f"{module}.py", f"{module}/__init__.py")]
    if defs := _defs_folder(folder):
        files += defs.rglob("*.py")
        if any(
            COMPONENT.search(path.read_text(encoding="utf-8", errors="replace")) for path in defs.rglob("defs.yaml")
        ):
            return True
    return any(_loads_contracts(path) for path in files if path.is_file())


def _files(folder: Path, *, is_new: bool) -> Iterator[tuple[Path, str]]:
    """Yield the path and text of each file that the project should have."""
    if is_new:
        name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-") or "tidegate-project"
        yield Path(PYPROJECT), _template("pyproject.toml.txt").format(name=name)
        yield Path(DEFINITIONS), _template("definitions.py.txt")
        yield Path(WORKSPACE), _template("workspace.yaml")
        yield Path(".gitignore"), _template("gitignore.txt")
    contracts = settings().contracts
    if (defs := _defs_folder(folder)) and not has_tidegate(folder):
        read = ASSETS if contracts is None else os.path.relpath(contracts, folder.resolve())
        yield defs.relative_to(folder) / "tidegate" / "defs.yaml", _template("defs.yaml").replace(ASSETS, read)
    if is_new or not os.environ.get("DAGSTER_HOME"):  # else the instance is configured there
        yield Path("dagster.yaml"), _template("dagster.yaml")
    if contracts is None and not has_contracts(folder / ASSETS):
        yield CONTRACT, _template(CONTRACT.name)


def _is_there(folder: Path, path: Path) -> bool:
    """Return True if the project has the file. Raises BadInput if something else is in its place or in that of a
    folder above it, such as a link to nothing.
    """
    for above in path.parents:
        if os.path.lexists(folder / above) and not (folder / above).is_dir():
            raise BadInput("is not a folder; move it away", file=str(folder / above))
    if os.path.lexists(folder / path) and not (folder / path).is_file():
        raise BadInput("is not a file; move it away", file=str(folder / path))
    return (folder / path).exists()


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise BadInput(f"cannot be written: {error.strerror}", file=str(error.filename)) from error


def _loads(folder: Path) -> str | None:
    """Return the options of `dagster` that load the project: as pyproject.toml says, else workspace.yaml's first."""
    dagster, dg_project = project_table(folder, "tool", "dagster"), project_table(folder, "tool", "dg", "project")
    try:
        first_module = dagster["modules"][0]["name"]
    except (KeyError, IndexError, TypeError):
        first_module = None
    module = dagster.get("module_name") or first_module or dg_project.get("code_location_target_module")
    if module or dg_project:
        return f"-m {module or dg_project.get('root_module', '') + '.definitions'}"
    if (folder / WORKSPACE).is_file() and (first := _first_location(folder / WORKSPACE)):
        return first
    return "-m definitions" if (folder / DEFINITIONS).is_file() else None


def _first_location(workspace: Path) -> str | None:
    """Return the options of `dagster` for the first code location of workspace.yaml; None if it is not a file or module
    here.
    """
    try:
        (kind, entry), *_ = yaml.safe_load(workspace.read_bytes())["load_from"][0].items()
    except (OSError, yaml.YAMLError, TypeError, KeyError, IndexError, AttributeError, ValueError):
        return None
    option, key = {
        "python_file": ("-f", "relative_path"),
        "python_module": ("-m", "module_name"),
        "python_package": ("-m", "package_name"),
    }.get(kind, ("", ""))
    options = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {key: entry}
    if not option or not isinstance(options.get(key), str):
        return None
    folder = options.get("working_directory")
    return f"{option} {quote(options[key])}" + (f" -d {quote(str(folder))}" if folder else "")


def _loads_contracts(path: Path) -> bool:
    """Return True if the Python file uses tidegate.definitions or tidegate.TopicsComponent."""
    try:
        nodes = [*ast.walk(ast.parse(path.read_bytes()))]
    except (OSError, SyntaxError, ValueError):
        return False
    imported = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "tidegate"
    }
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "tidegate" and LOADING & {it.name for it in node.names}:
            return True
        if isinstance(node, ast.Attribute) and node.attr in LOADING and ast.unparse(node.value) in imported:
            return True
    return False


def _defs_folder(folder: Path) -> Path | None:
    """Return the folder that `dg` loads, as dg finds it: below src/ if there is one. None without a project of dg."""
    dg_project = project_table(folder, "tool", "dg", "project")
    if not dg_project:
        return None
    if not isinstance(dg_project.get("root_module"), str):
        raise BadInput("[tool.dg.project] has no root_module", file=str(folder / PYPROJECT))
    module = str(dg_project.get("defs_module") or f"{dg_project['root_module']}.defs")
    return (folder / "src" if (folder / "src").exists() else folder).joinpath(*module.split("."))


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
