"""A contract's YAML with its line numbers, and the mistakes that can be seen without knowing what it means.

`ContractText` answers three questions about a place in the file (a path of keys and list positions): which line it is
on, what a reader would call it, and how to refuse it.
"""

import typing
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, cast

from open_data_contract_standard.model import OpenDataContractStandard
from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML, YAMLError
from ruamel.yaml.error import MarkedYAMLError

from platform_defs.errors import BadInput

Place = tuple[str | int, ...]  # such as ("schema", 0, "properties", 3, "required")


def one_of(names: Iterable[str], wrong: str | None = None) -> str:
    """A list of what would be right, led by what `wrong` was probably meant to be."""
    known = list(names)
    close = get_close_matches(wrong or "", known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"use one of: {', '.join(known)}"


class ContractText:
    """One ODCS file: `document` is the typed model, everything else is about places in the text.

    Raises BadInput when the file cannot be read, is not YAML (a key given twice is not), or is not ODCS v3.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = self._parse()
        for place, key, known in unknown_keys(self.tree, OpenDataContractStandard, ()):
            raise self.refused(f"ODCS has no key {key!r} here; {one_of(known, key)}", *place, key)
        try:
            self.document = OpenDataContractStandard.model_validate(self.tree)
        except ValidationError as wrong:
            first = wrong.errors(include_url=False)[0]
            raise self.refused(f"{first['msg']}, not {first['input']!r}", *first["loc"]) from None

    def _parse(self) -> dict[str, Any]:
        try:
            tree = YAML(typ="rt").load(self.path.read_text(encoding="utf-8"))
        except OSError as wrong:
            raise BadInput(f"cannot be read: {wrong.strerror}", file=str(self.path)) from wrong
        except MarkedYAMLError as wrong:
            line = wrong.problem_mark.line + 1 if wrong.problem_mark else None
            problem = (wrong.problem or "not YAML").split("\n")[0]
            raise BadInput(f"not YAML: {problem}", file=str(self.path), line=line) from wrong
        except (YAMLError, UnicodeDecodeError) as wrong:
            raise BadInput(f"not YAML: {wrong}", file=str(self.path)) from wrong
        if not isinstance(tree, dict):
            raise BadInput("is not an ODCS contract: expected apiVersion, kind, id, ...", file=str(self.path), line=1)
        return tree

    def refused(self, message: str, *place: str | int) -> BadInput:
        """The error to raise for what stands at `place` (or should stand there)."""
        return BadInput(message, file=str(self.path), line=self.line(*place), field=self.name(*place))

    def line(self, *place: str | int) -> int:
        """The line of `place`, counted from 1; of the nearest part of it that exists."""
        node, line = cast("Any", self.tree), 0
        for step in place:
            try:
                line = (node.lc.item if isinstance(step, int) else node.lc.key)(step)[0]
                node = node[step]
            except (AttributeError, KeyError, IndexError, TypeError):
                break
        return line + 1

    def name(self, *place: str | int) -> str:
        """`place` as a reader names it: transfers.amount.logicalTypeOptions.minimum."""
        node, parts = cast("Any", self.tree), list[str]()
        for step in place:
            node = _child(node, step)
            named = _own_name(node) if isinstance(step, int) else None
            if named and parts:
                parts[-1] = named  # "schema.transfers" says no more than "transfers"
            else:
                parts.append(str(step))
        return ".".join(parts)


def _child(node: Any, step: str | int) -> Any:
    try:
        return node[step]
    except (KeyError, IndexError, TypeError):
        return None


def _own_name(node: Any) -> str | None:
    if not isinstance(node, dict):
        return None
    return next((node[key] for key in ("name", "property", "server") if isinstance(node.get(key), str)), None)


def unknown_keys(node: Any, model: type[BaseModel], place: Place) -> Iterator[tuple[Place, str, list[str]]]:
    """Keys that ODCS does not have: (where, the key, the keys known there). The package itself ignores most of them."""
    if not isinstance(node, dict):
        return
    known = {item.alias or name: item.annotation for name, item in model.model_fields.items()}
    for key, value in node.items():
        if key not in known:
            yield place, str(key), list(known)
        elif below := _model_in(known[key]):
            for position, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                at = (*place, key) if position is None else (*place, key, position)
                yield from unknown_keys(child, below, at)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The one model that an annotation such as `list[SchemaObject] | None` leads to; None where a union has two."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Union, UnionType, list):
        found = {inner for inner in map(_model_in, typing.get_args(annotation)) if inner}
        return found.pop() if len(found) == 1 else None
    return None
