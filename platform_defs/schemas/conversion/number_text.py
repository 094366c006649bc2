"""Writes field numbers into a contract's YAML, which keeps its comments and everything else as it is."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import yaml

from platform_defs.errors import BadInput
from platform_defs.schemas.conversion.field_numbers import Assigned

_pyyaml: Any = yaml  # its stubs do not type compose
_BY_HAND = "write the numbers by hand, because the file does not list the fields one by one"


def with_numbers(text: str, assigned: Iterable[Assigned]) -> str:
    """Return the text with a fieldNumber, and pathNumbers if needed, in the custom properties of each assigned field.

    Raises BadInput if the fields are not written out.
    """
    fields = dict(_fields(_pyyaml.compose(text, Loader=yaml.SafeLoader)))
    edits = [_edit(text, fields.get(one.field), one) for one in assigned]
    if len({at for at, _ in edits}) < len(edits):  # two fields that are one by an alias
        raise BadInput(_BY_HAND)
    for at, added in sorted(edits, reverse=True):
        text = text[:at] + added + text[at:]
    return text


def _fields(root: yaml.Node | None) -> Iterator[tuple[str, yaml.MappingNode]]:
    """Yield the message's fields, by name."""
    for item in _items(_value(root, "schema")):
        kind = _value(item, "physicalType")
        if isinstance(kind, yaml.ScalarNode) and kind.value == "topic":
            for one in _items(_value(item, "properties")):
                name = _value(one, "name")
                if isinstance(one, yaml.MappingNode) and isinstance(name, yaml.ScalarNode):
                    yield str(name.value), one


def _edit(text: str, field: yaml.MappingNode | None, one: Assigned) -> tuple[int, str]:
    """Return the position and the text of the insertion. Raises BadInput."""
    if field is None:
        raise BadInput(_BY_HAND, field=one.field)
    given = _value(field, "customProperties")
    wanted = {"fieldNumber": str(one.number)}
    if one.path_numbers:
        wanted["pathNumbers"] = f"[{', '.join(map(str, one.path_numbers))}]"
    there = {name.value for item in _items(given) if isinstance(name := _value(item, "property"), yaml.ScalarNode)}
    entries = [f"{{property: {name}, value: {value}}}" for name, value in wanted.items() if name not in there]
    if isinstance(given, yaml.SequenceNode) and given.value:
        at: int = given.value[0].start_mark.index
        separator = ", " if given.flow_style else f"\n{' ' * given.start_mark.column}- "
        return at, "".join(f"{entry}{separator}" for entry in entries)
    if given is not None:
        raise BadInput(_BY_HAND, field=one.field)
    written = f"customProperties: [{', '.join(entries)}]"
    if field.flow_style:
        return _end(_value(field, "name")), f", {written}"
    line = text.find("\n", _end(_value(field, "name")))
    return (len(text) if line < 0 else line), f"\n{' ' * field.start_mark.column}{written}"


def _value(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _items(node: yaml.Node | None) -> Sequence[yaml.Node]:
    return node.value if isinstance(node, yaml.SequenceNode) else ()


def _end(node: yaml.Node | None) -> int:
    assert node is not None  # noqa: S101  # a field was found by its name
    return node.end_mark.index
