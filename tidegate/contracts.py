"""The contracts of a folder that a user names, or of the project that calls."""

import traceback
from os import PathLike
from pathlib import Path

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.reader import catalogue
from platform_defs.errors import BadInput
from platform_defs.settings.contracts import contracts_folder
from platform_defs.settings.project import has_contracts


def find_contract(name: str, folder: str | PathLike[str] | None = None) -> Contract:
    """Return the contract of the pipeline called `name`, for `topic_asset`. `folder`: as `contracts` of `definitions`.
    Raises BadInput: its own mistake, the names there are, or what is wrong with the folder.
    """
    return catalogue.find_contract(name, chosen_folder(folder, "folder"))


def chosen_folder(chosen: str | PathLike[str] | None, field: str) -> Path:
    """Return the folder of contracts that a user passes. A relative one begins at the folder of the module that calls
    Tidegate if it is there, else at the working directory. Without one, the search upwards begins at the same two.
    Raises BadInput, which names the argument `field`.
    """
    start = _calling_folder()
    if chosen is None:
        return contracts_folder(start)
    # A user may pass anything.
    if not isinstance(chosen, (str, PathLike)) or chosen == "":  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadInput("pass the path of a folder with contracts", field=field)
    places = dict.fromkeys((start / chosen, Path.cwd() / chosen))
    folder = next((place.resolve() for place in places if place.is_dir()), None)
    if folder is None:
        relative = "" if Path(chosen).is_absolute() else " (from the module that calls, or the working directory)"
        raise BadInput(f"there is no folder {' or '.join(map(str, places))}{relative}", field=field)
    files = catalogue.contract_files(folder)
    if not files:
        raise BadInput(f"{folder} has no contract <domain>/<name>.odcs.yaml", field=field)
    if not has_contracts(folder) and any(path.parent == folder for path in files):
        raise BadInput(f"{folder} is the folder of a domain; pass the one above, {folder.parent}", field=field)
    return folder


def _calling_folder() -> Path:
    """Return the folder of the module that calls this package; the working directory if that has no file."""
    for frame, _ in traceback.walk_stack(None):
        if frame.f_globals.get("__name__", "").partition(".")[0] != "tidegate":
            file = frame.f_globals.get("__file__")
            return Path(file).absolute().parent if file else Path.cwd()
    return Path.cwd()
