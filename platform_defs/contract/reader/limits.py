"""The settings of a contract for the pipeline as a whole: its limits and service levels."""

from collections.abc import Sequence
from typing import Any, cast, get_args

from platform_defs.contract.document.document import Document
from platform_defs.contract.document.node import Node, one_of
from platform_defs.contract.keys.keys import PIPELINE_PROPERTIES, SERVICE_LEVEL_ENTRY, SERVICE_LEVELS
from platform_defs.contract.model.contract import Evolution, Limits, Publishing
from platform_defs.contract.reader.names import custom_values

LIMITS = {  # custom property → field of Limits, its type
    "batchMessages": ("batch_messages", int),
    "lagMessages": ("lag_messages", int),
    "deadLetterShare": ("dead_letter_share", float),
    "deadLetterMinimum": ("dead_letter_minimum", int),
}
LEVELS = {"freshness": "freshness_seconds", "latency": "lag_seconds", "retention": "retention_seconds"}
_UNITS = {"s": 1, "second": 1, "m": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400}


def read_limits(document: Document) -> Limits:
    """Return the limits, from customProperties and slaProperties. Raises BadInput for an unknown one, or one out of
    range.
    """
    custom = custom_values(document, PIPELINE_PROPERTIES)
    found = {LIMITS[name][0]: _limit(name, node) for name, node in custom.items() if name in LIMITS}
    for item in document.children("slaProperties"):
        item.refuse_keys_outside(SERVICE_LEVEL_ENTRY)
        node = item.child("property")
        name: str = node.value or ""
        if name not in LEVELS:
            raise node.refused(f"unknown service level {name!r}; {one_of(SERVICE_LEVELS.names(), name)}")
        if LEVELS[name] in found:
            raise node.refused(f"{name!r} is defined twice")
        found[LEVELS[name]] = _seconds(item)
    return Limits(**cast("dict[str, Any]", found))


def refuse_removed(document: Document) -> None:
    """Raise BadInput for a custom property that earlier versions of Tidegate had."""
    for item in document.children("customProperties"):
        if why := PIPELINE_PROPERTIES.removed.get(item.value.property or ""):
            raise item.child("property").refused(why)


def read_evolution(document: Document) -> Evolution:
    """Return the custom property `evolution`; manual by default."""
    return cast("Evolution", _chosen(document, "evolution", get_args(Evolution), "manual"))


def read_publication(document: Document) -> Publishing:
    """Return the custom property `publication`; staged by default."""
    return cast("Publishing", _chosen(document, "publication", get_args(Publishing), "staged"))


def _chosen(document: Document, name: str, choices: Sequence[str], otherwise: str) -> str:
    """Return the custom property of this name, which is one of `choices`; `otherwise` by default."""
    node = custom_values(document, PIPELINE_PROPERTIES).get(name)
    if node is None:
        return otherwise
    if node.value not in choices:
        raise node.refused(f"unknown {name} {node.value!r}; {one_of(choices, str(node.value))}")
    return node.value


def _limit(name: str, node: Node[Any]) -> int | float:
    kind, value = LIMITS[name][1], node.value
    if isinstance(value, bool) or not isinstance(value, int if kind is int else int | float) or not value > 0:
        raise node.refused(f"{name} must be a positive {'whole ' * (kind is int)}number, not {value!r}")
    if name == "deadLetterShare" and value > 1:
        raise node.refused(f"{name} must be a share between 0 and 1, not {value!r}")
    if value > 2**63 - 1:
        raise node.refused(f"{name} must be at most 2^63 - 1, not {value!r}")
    return kind(value)


def _seconds(item: Node[Any]) -> float:
    value, unit = item.child("value"), item.child("unit")
    if isinstance(value.value, bool) or not isinstance(value.value, int | float) or not value.value > 0:
        raise value.refused(f"value must be a positive number, not {value.value!r}")
    name: str = unit.value or ""
    factor = _UNITS.get(name) or _UNITS.get(name.removesuffix("s"))
    if factor is None:
        raise unit.refused(f"unknown unit {unit.value!r}; {one_of(('seconds', 'minutes', 'hours', 'days'), name)}")
    if value.value > 1e9:
        raise value.refused(f"value must be at most a billion, not {value.value!r}")
    return float(value.value) * factor
