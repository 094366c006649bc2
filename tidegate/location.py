"""Tidegate's definitions, for any Dagster code location."""

import re
from collections.abc import Sequence
from os import PathLike
from typing import cast

import dagster as dg

from platform_defs.code_location import load
from platform_defs.errors import BadInput
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
    prefix = (key_prefix,) if isinstance(key_prefix, str) else key_prefix
    _refuse_unusable(prefix, group, schedules, include)
    names = "_".join(["tidegate", *(re.sub(r"\W", "_", part) for part in prefix), ""])
    return load(folder, include, prefix=tuple(prefix), names=names, group=group, schedules=schedules)


def _refuse_unusable(prefix: object, group: object, schedules: object, include: object) -> None:
    """Raise BadInput, which names the argument, for one of a wrong type, and for names that Dagster does not accept."""
    parts = cast("Sequence[object]", prefix) if isinstance(prefix, Sequence) else [None]
    if not all(isinstance(part, str) and re.fullmatch(r"[A-Za-z0-9_.-]+", part) for part in parts):
        raise BadInput("pass a name, or a list of names, of letters, digits, _, - and .", field="key_prefix")
    if group is not None and not (isinstance(group, str) and re.fullmatch(r"[A-Za-z0-9_/]+", group)):
        raise BadInput("pass a name of letters, digits and _", field="group")
    if not isinstance(schedules, bool):
        raise BadInput("pass True or False", field="schedules")
    assets = cast("Sequence[object]", include) if isinstance(include, Sequence) else [None]
    if not all(isinstance(asset, dg.AssetsDefinition) for asset in assets):
        raise BadInput("pass a list of assets, made with tidegate.topic_asset", field="include")
