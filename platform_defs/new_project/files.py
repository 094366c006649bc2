"""The files of a project: all of a new one, and what an existing Dagster project lacks. None is ever overwritten."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platform_defs.errors import BadInput
from platform_defs.settings.project import ASSETS, has_contracts, project_tools

TEMPLATES = Path(__file__).parent / "templates"
CONTRACT = Path(ASSETS, "web", "page_views.odcs.yaml")
COMPONENT = "tidegate.TopicsComponent"
DEFINITIONS = "definitions.py"


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project after `tidegate init`. `written`, `kept`: the files that it wrote, and those that were there, in the
    folder. `loads`: the options of `dagster` that load its definitions. `has_tidegate`: they include Tidegate's.
    """

    folder: Path
    written: tuple[Path, ...]
    kept: tuple[Path, ...]
    loads: str
    has_tidegate: bool


def write_project(folder: Path) -> Project:
    """Write the files that the project lacks. Raises BadInput if pyproject.toml cannot be read, or a file cannot be
    written.
    """
    tools = project_tools(folder)
    dg_project: dict[str, Any] = tools.get("dg", {}).get("project", {})
    is_new = (
        not dg_project
        and "dagster" not in tools
        and not any((folder / name).exists() for name in (DEFINITIONS, "workspace.yaml"))
    )
    wanted = dict(_files(folder, dg_project, is_new=is_new))
    kept = tuple(path for path in wanted if (folder / path).exists())
    written = {path: text for path, text in wanted.items() if path not in kept}
    try:
        for path, text in written.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot be written: {error.strerror}", file=str(error.filename)) from error
    return Project(
        folder=folder,
        written=(*written,),
        kept=kept,
        loads=_loads(folder, tools, dg_project),
        has_tidegate=bool(dg_project) or "tidegate" in _text(folder / DEFINITIONS),
    )


def write_contract(folder: Path) -> None:
    """Write a first contract, if the project has none."""
    if not has_contracts(folder / ASSETS):
        (folder / CONTRACT).parent.mkdir(parents=True, exist_ok=True)
        (folder / CONTRACT).write_text(_template(CONTRACT.name), encoding="utf-8")


def _files(folder: Path, dg_project: dict[str, Any], *, is_new: bool) -> Iterator[tuple[Path, str]]:
    """Yield the path and text of each file that the project should have."""
    if is_new:
        name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-") or "tidegate-project"
        yield Path("pyproject.toml"), _template("pyproject.toml.txt").format(name=name)
        yield Path(DEFINITIONS), _template("definitions.py.txt")
        yield Path("workspace.yaml"), _template("workspace.yaml")
        yield Path(".gitignore"), _template("gitignore.txt")
    if dg_project and not (component := _defs_folder(folder, dg_project)).joinpath("tidegate").exists():
        yield component.relative_to(folder) / "tidegate" / "defs.yaml", _template("defs.yaml")
    if is_new or not os.environ.get("DAGSTER_HOME"):  # else the instance is configured there
        yield Path("dagster.yaml"), _template("dagster.yaml")
    if not has_contracts(folder / ASSETS):
        yield CONTRACT, _template(CONTRACT.name)


def _loads(folder: Path, tools: dict[str, Any], dg_project: dict[str, Any]) -> str:
    module = tools.get("dagster", {}).get("module_name") or dg_project.get("code_location_target_module")
    if dg_project and not module:
        module = f"{dg_project.get('root_module')}.definitions"
    if module is None and (folder / DEFINITIONS).exists():
        return "-m definitions"
    return f"-m {module}" if module else "--workspace workspace.yaml"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _defs_folder(folder: Path, dg_project: dict[str, Any]) -> Path:
    """Return the folder that `dg` loads, as dg finds it: below src/ if there is one."""
    module = str(dg_project.get("defs_module") or f"{dg_project.get('root_module')}.defs")
    return (folder / "src" if (folder / "src").exists() else folder).joinpath(*module.split("."))


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
