"""The contracts of a folder, for code of your own."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from platform_defs.errors import BadInput
from platform_defs.settings import contracts

if TYPE_CHECKING:
    from platform_defs.contract.model.contract import Contract


def find_contract(name: str, folder: str | PathLike[str] | None = None) -> Contract:
    """Return the contract of the pipeline called `name`, for `topic_asset`. `folder`: as `contracts` of `definitions`.

    Raises BadInput: its own mistake, the names there are, or a folder that does not exist.
    """
    return contracts.find_contract(name, existing_folder(folder, "folder"))


def existing_folder(folder: str | PathLike[str] | None, argument: str) -> Path | None:
    """Return the folder of contracts, absolute; None if none is given. Raises BadInput if there is no such folder."""
    if folder is None:
        return None
    path = Path(fspath(folder)).resolve()
    if not path.is_dir():
        raise BadInput(f"there is no folder {path}", field=argument)
    return path
