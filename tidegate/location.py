"""Tidegate's definitions, for any Dagster code location."""

import re
from collections.abc import Sequence
from os import PathLike

import dagster as dg

from platform_defs.code_location import load
from tidegate.contracts import chosen_folder


def definitions(
    contracts: str | PathLike[str] | None = None,
    *,
    key_prefix: str | Sequence[str] = (),
    group: str | None = None,
    schedules: bool = True,
    include: Sequence[dg.AssetsDefinition] = (),
) -> dg.Definitions:
    """Return topics, tables, checks, jobs, sensors and schedules for every contract of a folder. Merge them with your
    own: `dg.Definitions.merge(mine, tidegate.definitions())`.

    `contracts`: the folder, with a subfolder for each domain; a relative one begins at the folder of the module that
    calls if it is there, else at the working directory. By default TIDEGATE_CONTRACTS, or `assets/` of the nearest
    folder that has contracts, upwards from the module that calls, else from the working directory. `key_prefix`: of all
    asset keys; it also becomes part of the names of jobs, sensors and schedules, so that one code location can have
    several folders. `group`: the asset group, in place of each contract's domain. `schedules`: False leaves out the
    nightly prune and verification. `include`: assets that write topics (`topic_asset`).

    Opens no connection. A contract that cannot be used becomes an asset with a failed check. Raises BadInput if there
    is no such folder, or none with contracts.
    """
    folder = chosen_folder(contracts, "contracts")
    prefix = (key_prefix,) if isinstance(key_prefix, str) else tuple(key_prefix)
    names = "_".join(["tidegate", *(re.sub(r"\W", "_", part) for part in prefix), ""])
    return load(folder, include, prefix=prefix, names=names, group=group, schedules=schedules)
