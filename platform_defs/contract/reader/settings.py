"""The settings of a contract for the pipeline as a whole: limits, service levels, owners, and direct publication."""

import re
from collections.abc import Mapping
from typing import Any

from open_data_contract_standard.model import SchemaObject, Team

from platform_defs.contract.document.document import Document
from platform_defs.contract.document.node import Node, one_of
from platform_defs.contract.document.section import read_values
from platform_defs.contract.keys.contract_keys import LIMITS, PIPELINE_PROPERTIES, SERVICE_LEVEL_ENTRY, SERVICE_LEVELS
from platform_defs.contract.model.contract import Contract, Limits

_EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}")  # Dagster accepts no others
_STAGED = "or leave out publication, so that batches are staged first"
_UNITS = {"s": 1, "second": 1, "m": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400}


def read_limits(document: Document, custom: Mapping[str, Node[Any]]) -> Limits:
    """Return the limits, from customProperties and slaProperties. Raises BadInput for an unknown one, or one out of
    range.
    """
    found = read_values(LIMITS, custom)
    for item in document.children("slaProperties"):
        SERVICE_LEVEL_ENTRY.refuse_others(item)
        node: Node[str | None] = item.child("property")
        name = node.value or ""
        if name not in SERVICE_LEVELS.names():
            raise node.refused(f"unknown service level {name!r}; {one_of(SERVICE_LEVELS.names(), name)}")
        if SERVICE_LEVELS[name].attribute in found:
            raise node.refused(f"{name!r} is defined twice")
        number: float = SERVICE_LEVEL_ENTRY["value"].read(item.child("value"))
        unit: Node[str | None] = item.child("unit")
        factor = _UNITS.get(unit.value or "") or _UNITS.get((unit.value or "").removesuffix("s"))
        if factor is None:
            hint = one_of(("seconds", "minutes", "hours", "days"), unit.value or "")
            raise unit.refused(f"unknown unit {unit.value!r}; {hint}")
        found[SERVICE_LEVELS[name].attribute] = number * factor
    return Limits(**found)


def refuse_removed(document: Document) -> None:
    """Raise BadInput for a custom property that earlier versions of Tidegate had."""
    for item in document.children("customProperties"):
        if why := PIPELINE_PROPERTIES.removed.get(item.value.property or ""):
            raise item.child("property").refused(why)


def read_owners(document: Document) -> tuple[str, ...]:
    """Return ODCS' `team`: team:NAME if it has a name, and the members whose username is an e-mail address. Other
    members are for readers of the file.
    """
    team = document.value.team
    members = (team.members if isinstance(team, Team) else team) or []
    name = " ".join(team.name.split()) if isinstance(team, Team) and team.name else ""
    named = [f"team:{name}"] if name else []
    emails = [one.username for one in members if one.username and _EMAIL.fullmatch(one.username)]
    return tuple(dict.fromkeys([*named, *emails]))


def refuse_undirect(contract: Contract, tables: list[Node[SchemaObject]]) -> None:
    """Raise BadInput if the contract has publication: direct and anything that only a staged batch supports. A
    transform is refused in contract/reader/catalogue.py.
    """
    if contract.publication != "direct":
        return
    row_table = contract.row_table
    if row_table.disposition != "append":
        raise tables[0].refused(
            f"publication: direct writes to append tables only, and {row_table.name} is {row_table.disposition}: "
            "the newest message of a key cannot be determined among ranges that commit separately. Make the table "
            f"append, {_STAGED}"
        )
    for table in tables[1:]:
        raise table.refused(
            f"publication: direct does not support accumulate tables ({table.child('physicalName').value}): the "
            f"tasks would wait for each other's locks on groups. Remove the table, {_STAGED}"
        )
    for rule in tables[0].children("quality"):
        raise rule.refused(
            f"publication: direct does not support batch rules ({rule.child('name').value}): rows are published "
            f"before the whole batch can be checked. Remove the rule, {_STAGED}"
        )
    for column in tables[0].children("properties"):
        kind = next(item.type for item in row_table.columns if item.name == column.value.name)
        if not kind.copied:
            raise column.refused(
                f"publication: direct cannot write {kind.name} ({column.value.name}): COPY does not accept the "
                f"decoded form. Make it a string, {_STAGED}"
            )
