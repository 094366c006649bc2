"""The folder of the user's project, and the contracts in it, found from the working directory upwards."""

import tomllib
from itertools import chain
from pathlib import Path
from typing import Any, cast

from platform_defs.errors import BadInput

ASSETS = "assets"  # of a project: a folder for each domain, with its contracts
MARKS = ("dagster.yaml", "workspace.yaml")  # of a project that has no contracts there yet
TABLES = {"dagster", "dg"}  # below [tool] in pyproject.toml: of such a project, too


def has_contracts(folder: Path) -> bool:
    """Return True if a folder of a domain has a contract."""
    return next(chain(folder.glob("[!.]*/*.odcs.yaml"), folder.glob("[!.]*/*.odcs.yml")), None) is not None


def project_upwards(start: Path | None = None) -> Path | None:
    """Return the nearest folder, from `start` or the working directory upwards, that is a project; None without one."""
    start = start or Path.cwd()
    return next((folder for folder in (start, *start.parents) if _is_project(folder)), None)


def _is_project(folder: Path) -> bool:
    if has_contracts(folder / ASSETS) or any((folder / mark).is_file() for mark in MARKS):
        return True
    try:
        return not TABLES.isdisjoint(project_table(folder, "tool"))
    except BadInput:  # reported where the table is needed
        return False


def contracts_upwards(*starts: Path) -> Path:
    """Return `assets/` of the nearest folder that has contracts, upwards from each of `starts` in turn and from the
    working directory; without one, where the first would be.
    """
    for start in (*starts, Path.cwd()):
        for folder in (start, *start.parents):
            if has_contracts(folder / ASSETS):
                return folder / ASSETS
    projects = (project_upwards(start) for start in (*starts, Path.cwd()))
    return (next(filter(None, projects), None) or Path.cwd()) / ASSETS


def project_table(folder: Path, *names: str) -> dict[str, Any]:
    """Return a table of the folder's pyproject.toml, such as ("tool", "dg"); an empty one if it is not there. Raises
    BadInput if the file cannot be read, or has something else there.
    """
    path = folder / "pyproject.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot be read: {error}", file=str(path)) from error
    for name in names:
        value: Any = table.get(name, {})
        if not isinstance(value, dict):
            raise BadInput(f"{name} is not a table", file=str(path), field=".".join(names))
        table = cast("dict[str, Any]", value)
    return table


def no_contracts(*starts: Path) -> BadInput:
    """Return the error for a working directory, and other folders to start from, outside any project."""
    folders = " nor ".join(dict.fromkeys(map(str, (*starts, Path.cwd()))))
    advice = "Pass the folder with the contracts" if starts else "Change to your project's folder"
    return BadInput(
        f"there are no contracts: neither {folders} nor a folder above it has assets/<domain>/<name>.odcs.yaml. "
        f"{advice}, create a project (tidegate init), or set TIDEGATE_CONTRACTS to the folder "
        "with the contracts"
    )
