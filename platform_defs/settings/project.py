"""The folder of the user's project, and the contracts in it, found from the working directory upwards."""

import tomllib
from itertools import chain
from pathlib import Path
from typing import Any, cast

from platform_defs.errors import BadInput

ASSETS = "assets"  # of a project: a folder for each domain, with its contracts
MARKS = ("dagster.yaml", "workspace.yaml")  # of a project that has no contracts there yet


def has_contracts(folder: Path) -> bool:
    """Return True if a folder of a domain has a contract."""
    return next(chain(folder.glob("[!.]*/*.odcs.yaml"), folder.glob("[!.]*/*.odcs.yml")), None) is not None


def project_upwards() -> Path | None:
    """Return the nearest folder, from the working directory upwards, that is a project; None without one."""
    for folder in (Path.cwd(), *Path.cwd().parents):
        if has_contracts(folder / ASSETS) or any((folder / mark).is_file() for mark in MARKS):
            return folder
    return None


def contracts_upwards() -> Path:
    """Return `assets/` of the nearest folder upwards that has contracts; without one, where the first would be."""
    for folder in (Path.cwd(), *Path.cwd().parents):
        if has_contracts(folder / ASSETS):
            return folder / ASSETS
    return (project_upwards() or Path.cwd()) / ASSETS


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


def no_contracts() -> BadInput:
    """Return the error for a working directory outside any project."""
    return BadInput(
        f"there are no contracts: neither {Path.cwd()} nor a folder above it has assets/<domain>/<name>.odcs.yaml. "
        "Change to your project's folder, create a project (tidegate init), or set TIDEGATE_CONTRACTS to the folder "
        "with the contracts"
    )
