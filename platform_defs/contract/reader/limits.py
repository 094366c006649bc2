"""The settings of a contract for the pipeline as a whole: its limits and service levels."""

from collections.abc import Mapping
from typing import Any

from platform_defs.contract.document.document import Document
from platform_defs.contract.document.node import Node, one_of
from platform_defs.contract.document.section import read_values
from platform_defs.contract.keys.keys import LIMITS, PIPELINE_PROPERTIES, SERVICE_LEVEL_ENTRY, SERVICE_LEVELS
from platform_defs.contract.model.contract import Limits

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
        found[SERVICE_LEVELS[name].attribute] = _seconds(item)
    return Limits(**found)


def refuse_removed(document: Document) -> None:
    """Raise BadInput for a custom property that earlier versions of Tidegate had."""
    for item in document.children("customProperties"):
        if why := PIPELINE_PROPERTIES.removed.get(item.value.property or ""):
            raise item.child("property").refused(why)


def _seconds(item: Node[Any]) -> float:
    number: float = SERVICE_LEVEL_ENTRY["value"].read(item.child("value"))
    unit: Node[str | None] = item.child("unit")
    name = unit.value or ""
    factor = _UNITS.get(name) or _UNITS.get(name.removesuffix("s"))
    if factor is None:
        raise unit.refused(f"unknown unit {unit.value!r}; {one_of(('seconds', 'minutes', 'hours', 'days'), name)}")
    return number * factor
