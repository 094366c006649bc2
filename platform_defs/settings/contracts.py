"""The user's contracts: in the folder given, else in that of TIDEGATE_CONTRACTS, else in `assets/` of the nearest
folder upwards from the working directory that has contracts.

To add a pipeline, add a file: nothing is registered anywhere. contract/reader/catalogue.py finds and reads
them; these are its functions, for that folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_defs.contract.reader import catalogue
from platform_defs.contract.reader.catalogue import BrokenContract, Catalogue, Contracts, with_transform
from platform_defs.settings.project import contracts_upwards, has_contracts, no_contracts
from platform_defs.settings.settings import settings

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from platform_defs.contract.model.contract import Contract
    from platform_defs.contract.model.pipeline import Pipeline


def read_contracts(folder: Path | None = None) -> Contracts:
    """Return the contracts of every domain; none outside a project. If two claim the same pipeline or table, neither is
    good.
    """
    return catalogue.read_contracts(folder or settings().contracts_folder)


def find_all(folder: Path | None = None, loaded: Iterable[Contract] = ()) -> Catalogue:
    """Return the pipelines of every domain, their transforms imported. `loaded`: contracts that must not claim the same
    pipeline or table. Raises BadInput outside a project.
    """
    return catalogue.find_all(folder or contracts_folder(), loaded)


def find_contract(name: str, folder: Path | None = None) -> Contract:
    """Return the contract of the pipeline called `name`. Raises BadInput: its own mistake, or the names there are."""
    return catalogue.find_contract(name, folder or contracts_folder())


def find_pipeline(name: str, folder: Path | None = None) -> Pipeline:
    """Return the pipeline called `name`, with its transform. Raises BadInput as find_contract does, or for the
    transform.
    """
    return with_transform(find_contract(name, folder))


def contracts_folder(*starts: Path) -> Path:
    """Return the folder of TIDEGATE_CONTRACTS, else `assets/` of the nearest folder that has contracts, upwards from
    each of `starts` in turn and from the working directory. Raises BadInput outside a project.
    """
    if (chosen := settings().contracts) is not None:
        return chosen
    folder = contracts_upwards(*starts)
    # A contract with another name, or in another folder, is an error of its own, and does not hide the rest.
    if not (has_contracts(folder) or catalogue.contract_files(folder)):
        raise no_contracts(*starts)
    return folder


__all__ = [
    "BrokenContract",
    "Catalogue",
    "Contracts",
    "contracts_folder",
    "find_all",
    "find_contract",
    "find_pipeline",
    "read_contracts",
    "with_transform",
]
