"""Messages as JSON text, from the value of each field."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from platform_defs.contract.model.contract import Field
from platform_defs.contract.model.message_path import MessagePath
from platform_defs.verify.decoders.documents import Document, Pairs, compact, parse

Json: TypeAlias = bytes  # a JSON text, in UTF-8
NOTHING = object()  # instead of a value: no such member


class MessageTemplate:
    """Puts the values of fields, as JSON texts, at their paths."""

    def __init__(self, fields: Sequence[Field]) -> None:
        tree: dict[str, Any] = {}
        for number, item in enumerate(fields):
            if any(len(other.path) > len(item.path) == _shared(other.path, item.path) for other in fields):
                continue  # a json field with other fields inside: it is their object
            inner = tree
            for key in item.path[:-1]:
                inner = inner.setdefault(key, {})
            inner[item.path[-1]] = number
        self._order: list[int] = []  # of fields, as they come in the text
        self._text = self._written(tree)
        self._in_order = self._order == list(range(len(fields)))

    def fill(self, values: Sequence[Json]) -> Json:
        """Return the message whose fields, in the order of `fields`, have these values."""
        return self._text % (tuple(values) if self._in_order else tuple(values[number] for number in self._order))

    def _written(self, node: dict[str, Any] | int) -> bytes:
        if isinstance(node, int):
            self._order.append(node)
            return b"%b"
        members = (
            compact(key).encode().replace(b"%", b"%%") + b":" + self._written(inner) for key, inner in node.items()
        )
        return b"{" + b",".join(members) + b"}"


def _shared(one: MessagePath, other: MessagePath) -> int:
    """Return the number of keys that two paths have in common at their start."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def replaced(message: Json, path: MessagePath, value: Document | object) -> Json:
    """Return `message` with another value at `path`, or with none (NOTHING); missing objects on the way are made."""
    return json_of(_replaced(parse(message), path, value))


def json_of(document: Document) -> Json:
    """Return the text of a document; half of a surrogate pair, which UTF-8 lacks, becomes its escape sequence."""
    return compact(document).encode("utf-8", "backslashreplace")


def _replaced(document: Document, path: MessagePath, value: Any) -> Document:
    if not path:
        return value
    key, rest = path[0], path[1:]
    members = dict(document) if isinstance(document, Pairs) else {}
    members[key] = _replaced(members.get(key), rest, value)
    return Pairs((key, inner) for key, inner in members.items() if inner is not NOTHING)
