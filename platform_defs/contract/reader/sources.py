"""Fields whose value is the message's key, timestamp, a header or the like: the sources, and the types of each."""

from collections.abc import Mapping
from typing import Any

from open_data_contract_standard.model import SchemaProperty

from platform_defs.contract.column_types import ColumnType
from platform_defs.contract.node import Node, one_of

HEADER = "header:"  # and the header's name
# By source, the kinds of its types. Of a header that is no text, the value is the text of a number, a date and so on.
KINDS: Mapping[str, tuple[str, ...]] = {
    "key": ("string", "bytes"),
    "timestamp": ("timestamp",),
    "timestampType": ("string",),
    "topic": ("string",),
    "partition": ("integer",),
    "offset": ("integer",),
    "headers": ("json",),
    f"{HEADER}NAME": (
        *("string", "bytes", "integer", "double", "decimal", "boolean", "date", "timestamp", "time", "uuid"),
    ),
}
_VALUE_ONLY = ("aliases", "fieldNumber", "pathNumbers")
_MAX_NAME = 1_000  # characters of a header's name


def read_source(item: Node[SchemaProperty], of: ColumnType, given: Mapping[str, Node[Any]]) -> str:
    """Return the source of a field from its custom properties, empty for a field of the message's value. Raises
    BadInput for an unknown source, one that has no such type, and keys that are for fields of the value.
    """
    if "source" not in given:
        return ""
    node = given["source"]
    source = node.value
    known = f"{HEADER}NAME" if isinstance(source, str) and source.startswith(HEADER) else source
    if not isinstance(known, str) or known not in KINDS or source == f"{HEADER}NAME":
        raise node.refused(f"unknown source {source!r}; {one_of(KINDS, str(source))}, with a header's name for NAME")
    name = source.removeprefix(HEADER)
    if not name or len(name) > _MAX_NAME or "\0" in name or not name.isprintable():
        raise node.refused(f"{name!r} is not the name of a header: 1 to {_MAX_NAME:,} printable characters")
    if of.kind not in KINDS[known]:
        raise node.refused(f"source {source} is of type {' or '.join(KINDS[known])}, not {of.name}")
    if item.value.physicalName is not None:
        wrong = "physicalName is the key in the message's value, and a field with a source is not there: leave it out"
        raise item.child("physicalName").refused(wrong)
    for key in _VALUE_ONLY:
        if key in given:
            raise given[key].refused(f"{key} is for fields of the message's value, and this one has a source")
    return source
