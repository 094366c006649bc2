"""A place in a contract: its value, the places below it, and an error for it with file, line and field."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel

from platform_defs.contract.document.yaml_text import YamlText
from platform_defs.errors import BadInput, SeveralMistakes

T = TypeVar("T", covariant=True)
R = TypeVar("R")
Place = tuple[str | int, ...]  # such as ("schema", 0, "properties", 3, "required")


def one_of(names: Iterable[str], wrong: str | None = None) -> str:
    """Return a hint: the name that `wrong` was probably meant to be, or all of them."""
    known = list(names)
    close = get_close_matches(wrong or "", known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"use one of: {', '.join(known)}"


def shown(value: object) -> str:
    """Return `value` in a form that fits into a sentence."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def as_mapping(value: object) -> dict[Any, Any] | None:
    """Return `value` if YAML had a mapping there, else None."""
    return cast("dict[Any, Any]", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[Any] | None:
    """Return `value` if YAML had a list there, else None."""
    return cast("list[Any]", value) if isinstance(value, list) else None


@dataclass(frozen=True)
class Node(Generic[T]):
    """A cursor into a contract. `value` is the ODCS model's there, or plain YAML if ODCS leaves it open.

    Each function that reads a part of a contract takes the part's node, and raises `node.refused(...)` for a mistake.
    Parts that do not depend on it are still read, so that all mistakes are reported at once (`read`).
    """

    value: T
    text: YamlText
    place: Place = ()

    def child(self, key: str | int) -> Node[Any]:
        """Return the part under a key, or at a position of a list. Its value is None if nothing is written."""
        return Node(_below(self.value, key), self.text, (*self.place, key))

    def children(self, key: str) -> list[Node[Any]]:
        """Return the items of the list under `key`: none if nothing is written."""
        return self.child(key).items()

    def items(self) -> list[Node[Any]]:
        """Return the items of the list here: none if nothing is written, or no list."""
        return [self.child(position) for position in range(len(as_list(self.value) or ()))]

    def refused(self, message: str, *missing: Node[Any]) -> BadInput:
        """Return the error to raise for the value here, or for its absence; `missing`: for the absence of one of these.

        It is not kept if an unknown key, a mistake of its own, may be the absent key, misspelled.
        """
        error = BadInput(message, file=str(self.text.path), line=self.line, field=self.name)
        if any(one._is_misspelled() for one in missing or (self,)):
            self.text.consequences.add(error)
        return error

    def _is_misspelled(self) -> bool:
        beside = self.text.unknown_keys.get(self.place[:-1], ())
        return self.value is None and bool(self.place and get_close_matches(str(self.place[-1]), beside, 1))

    def read(self, reader: Callable[[Node[T]], R], otherwise: R) -> R:
        """Return what `reader` returns for this part; if it raises a mistake, keep that and return `otherwise`."""
        with self.keeping_mistakes():
            return reader(self)
        return otherwise

    @contextmanager
    def keeping_mistakes(self) -> Generator[None]:
        """Keep a mistake that the block raises for `raise_mistakes`, and continue after the block."""
        try:
            yield
        except BadInput as mistake:
            if mistake not in self.text.consequences:
                self.text.mistakes.append(mistake)

    def stop_at_mistakes(self) -> None:
        """Raise the latest of the kept mistakes again, if there are any: what follows depends on what was read."""
        if self.text.mistakes:
            raise self.text.mistakes.pop()

    def raise_mistakes(self) -> None:
        """Raise the kept mistake, or SeveralMistakes. Two readers of one part may have found the same."""
        found = dict.fromkeys(one for error in self.text.mistakes for one in error.mistakes)
        if len(found) == 1:
            raise self.text.mistakes[0]
        if found:
            raise SeveralMistakes(found)

    @property
    def line(self) -> int:
        """Its line in the file, counted from 1."""
        return self.text.line(*self.place)

    def written_keys(self) -> list[str]:
        """Return the keys of this mapping, as the file has them."""
        node = self.text.value
        for step in self.place:
            node = _below(node, step)
        return [str(key) for key in as_mapping(node) or ()]

    @property
    def name(self) -> str:
        """The place as a reader names it: transfers.amount.logicalTypeOptions.minimum."""
        node, parts = self.text.value, list[str]()
        for step in self.place:
            node = _below(node, step)
            item = (as_mapping(node) or {}) if isinstance(step, int) else {}
            named = next((item[key] for key in ("name", "property", "server") if isinstance(item.get(key), str)), None)
            if named and parts:
                parts[-1] = named  # "schema.transfers" says no more than "transfers"
            else:
                parts.append(str(step))
        return ".".join(parts)


def _below(node: Any, step: str | int) -> Any:
    if isinstance(node, BaseModel):
        return getattr(node, "schema_" if step == "schema" else str(step), None)
    try:
        return node[step]
    except (KeyError, IndexError, TypeError):
        return None
