"""The kinds of values that keys take. Each function returns a kind, with its description."""

from collections.abc import Callable
from typing import Any

from platform_defs.contract.document.node import Node, as_list, one_of, shown
from platform_defs.contract.document.section import Kind
from platform_defs.contract.model.message_path import MessagePath, parse_path, spell_path
from platform_defs.contract.model.row_rules import pattern_mistake


def words(known: tuple[str, ...], described: str = "") -> Kind:
    """One of several words."""

    def read(node: Node[Any], name: str) -> str:
        if node.value not in known:
            raise node.refused(f"unknown {name} {node.value!r}; {one_of(known, str(node.value))}")
        return node.value

    return Kind(described or ", ".join(known), read)


def text(described: str = "text") -> Kind:
    """A text that is not empty."""
    return _checked(described, lambda value: isinstance(value, str) and value.strip())


def whole(described: str, most: int, *, least: int = 1, reserved: range = range(0)) -> Kind:
    """A whole number from `least` to `most`, outside of the reserved range."""
    return _checked(
        described, lambda value: isinstance(value, int) and least <= value <= most and value not in reserved
    )


def positive(described: str, most: float) -> Kind:
    """A number above 0 and up to `most`."""
    return _checked(described, lambda value: isinstance(value, int | float) and 0 < value <= most, float)


def _checked(described: str, fits: Callable[[Any], object], made: Callable[[Any], Any] = lambda value: value) -> Kind:
    """Values of YAML that fit; true and false, which Python takes for numbers, never do."""

    def read(node: Node[Any], name: str) -> Any:
        if isinstance(node.value, bool) or not fits(node.value):
            raise node.refused(f"{name} must be {described}, not {shown(node.value)}")
        return made(node.value)

    return Kind(described, read)


def several(described: str, item: Kind, least: int = 0) -> Kind:
    """A list of values of one kind, `least` of them or more."""

    def read(node: Node[Any], name: str) -> tuple[Any, ...]:
        listed = as_list(node.value)
        if listed is None or len(listed) < least:
            raise node.refused(f"{name} must be {described}, not {shown(node.value)}")
        return tuple(item.read(one, name) for one in node.items())

    return Kind(described, read, lambda values: [item.write(value) for value in values])


def _path(node: Node[Any], _: str) -> MessagePath:
    if not isinstance(node.value, str):
        raise node.refused(f"{node.value!r} is not text")
    try:
        return parse_path(node.value)
    except ValueError as wrong:
        raise node.refused(str(wrong)) from None


def _pattern(node: Node[Any], _: str) -> str:
    if not isinstance(node.value, str):
        raise node.refused("a pattern must be a string; put it in quotes")
    if reason := pattern_mistake(node.value):
        hint = "is not an RE2 regular expression (which has no lookarounds or backreferences)"
        raise node.refused(f"{node.value!r} {hint}: {reason}")
    return node.value


PATH = Kind("keys with dots between them", _path, spell_path)  # of a value in a message
RE2 = Kind("string", _pattern)
