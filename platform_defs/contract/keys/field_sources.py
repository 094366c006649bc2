"""Fields that read the message's key, timestamp, headers or position: the sources, and the types of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from platform_defs.contract.document.node import Node, one_of
from platform_defs.contract.document.section import Kind
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
_MAX_NAME = 1_000  # characters of a header's name


def source_of(name: str) -> Source:
    """Return the source of this name, which may be header:tenant. Raises KeyError."""
    return SOURCES[ONE_HEADER if name.startswith(HEADER) else name]


def _source(node: Node[Any], _: str) -> str:
    source = str(node.value)
    try:
        source_of(source)
    except KeyError:
        raise node.refused(f"unknown source {node.value!r}; {one_of(SOURCES, source)}") from None
    name = source.removeprefix(HEADER)
    if not name.isprintable() or not 1 <= len(name) <= _MAX_NAME:
        raise node.refused(f"a header name has 1 to {_MAX_NAME:,} printable characters; {name!r} does not")
    return source


SOURCE = Kind(", ".join(SOURCES), _source)
