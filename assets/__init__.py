"""The domains: a folder each, with `<name>.odcs.yaml` for each pipeline and, if wanted, `<name>.py` beside it.

To add a pipeline, add a file: nothing is registered anywhere. How they are found and read is in
platform_defs/contract/catalogue.py; these names are its.
"""

from platform_defs.contract.catalogue import (
    ASSETS,
    BrokenContract,
    Catalogue,
    Contracts,
    find_all,
    find_contract,
    find_pipeline,
    find_pipelines,
    read_contracts,
    with_transform,
)

__all__ = [
    "ASSETS",
    "BrokenContract",
    "Catalogue",
    "Contracts",
    "find_all",
    "find_contract",
    "find_pipeline",
    "find_pipelines",
    "read_contracts",
    "with_transform",
]
