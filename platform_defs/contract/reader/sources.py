"""Fields that read the message's key, timestamp, headers or position: the sources, and the types of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from open_data_contract_standard.model import SchemaProperty

from platform_defs.contract.document.node import Node, one_of
from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.contract import HEADER


@dataclass(frozen=True)
class Source:
    """A source of a field's values. `kinds`: the types that the field may have."""

    kinds: tuple[str, ...]
    meaning: str


ONE_HEADER = f"{HEADER}NAME"  # in SOURCES, for every name
SOURCES: Mapping[str, Source] = {
    "key": Source(
        ("string", "bytes"), "the key: `string` as `keyFormat` says, `bytes` as it is; null if there is none"
    ),
    "timestamp": Source(("timestamp",), "the timestamp, in ms; null if there is none"),
    "timestampType": Source(("string",), "`CreateTime` (set by the producer) or `LogAppendTime` (set by the broker)"),
    "topic": Source(("string",), "the topic"),
    "partition": Source(("integer",), "the partition"),
    "offset": Source(("integer",), "the offset"),
    "headers": Source(("json",), "all headers in order: a list of `{name, value}`, empty if there are none"),
    ONE_HEADER: Source(
        ("string", "bytes", "integer", "double", "decimal", "boolean", "date", "timestamp", "time", "uuid"),
        "the value of the header NAME",
    ),
}
_VALUE_ONLY = ("aliases", "fieldNumber", "pathNumbers", "unit")
_MAX_NAME = 1_000  # characters of a header's name


def check_source(item: Node[SchemaProperty], of: ColumnType, given: Mapping[str, Node[Any]]) -> None:
    """Raise BadInput for an unknown source, one that has no such type, and keys that are for fields of the message's
    value.
    """
    node: Node[str] = given["source"]
    source = node.value
    known = SOURCES.get(ONE_HEADER if source.startswith(HEADER) else source)
    if known is None:
        raise node.refused(f"unknown source {node.value!r}; {one_of(SOURCES, source)}")
    name = source.removeprefix(HEADER)
    if not name.isprintable() or not 1 <= len(name) <= _MAX_NAME:
        raise node.refused(f"a header name has 1 to {_MAX_NAME:,} printable characters; {name!r} does not")
    if of.kind not in known.kinds:
        raise node.refused(f"source {source} requires type {', '.join(known.kinds)}; this field is {of.name}")
    if item.value.physicalName is not None:
        raise item.child("physicalName").refused("physicalName does not apply to a field with a source. Remove it")
    for key in _VALUE_ONLY:
        if key in given:
            raise given[key].refused(f"{key} does not apply to a field with a source. Remove it")
