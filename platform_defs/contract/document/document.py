"""A contract as ODCS has it: the typed model over the YAML, and the mistakes found without knowing a key's meaning."""

import typing
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any

from open_data_contract_standard.model import OpenDataContractStandard
from pydantic import BaseModel, ValidationError

from platform_defs.contract.document.node import Node, Place, as_list, as_mapping, one_of, shown
from platform_defs.contract.document.yaml_text import Beside, YamlText
from platform_defs.errors import BadInput

Document = Node[OpenDataContractStandard]
_WANTED = {  # by the first word of pydantic's type of error: bool_parsing, model_type, ...
    "bool": "true or false",
    "string": "a string",
    "int": "a whole number",
    "float": "a number",
    "list": "a list",
    "dict": "a mapping",
    "model": "a mapping",
}


def read_document(
    path: Path, content: str | None = None, beside: Beside | None = None, *, strict: bool = True
) -> Document:
    """Return the whole file, or its `content`; keys that ODCS does not have are kept as mistakes (`raise_mistakes`).
    Raises BadInput if it cannot be read, is not YAML, or has values that ODCS does not accept. Unless `strict`, a value
    of another type that says the same is accepted, such as "yes" for true.
    """
    text = YamlText(path, content, beside)
    tree, raw = as_mapping(text.value), Node[Any](text.value, text)
    if tree is None:
        raise BadInput("is not an ODCS contract: expected apiVersion, kind, id, ...", file=str(path), line=1)
    tree = deepcopy(tree)
    unknown = [*unknown_keys(tree, OpenDataContractStandard, ())]
    for place, key, known in unknown:
        message = f"ODCS does not define a key {key!r} here; {one_of(known, key)}"
        text.mistakes.append(Node(None, text, (*place, key)).refused(message))
        parent: Any = tree  # without the key, of which the model would report nothing else
        for step in place:
            parent = parent[step]
        for same in [name for name in parent if str(name) == key]:
            del parent[same]
    for place, key, _ in unknown:  # from here on, or an unknown key would be taken for another one, misspelled
        text.unknown_keys.setdefault(tuple(place), []).append(key)
    try:
        return Node(OpenDataContractStandard.model_validate(tree, strict=strict), text)
    except ValidationError as wrong:
        for error in wrong.errors(include_url=False):
            at = raw
            for step in error["loc"]:
                at = at.child(step)
            text.mistakes.append(at.refused(_type_mistake(error["type"], error["input"])))
        raw.raise_mistakes()
        raise


def _type_mistake(kind: str, written: object) -> str:
    """Return the mistake in a value that ODCS does not accept, by the kind of pydantic's error."""
    if kind == "string_type" and isinstance(written, bool | int | float):
        text = str(written).lower() if isinstance(written, bool) else str(written)
        return f"must be a string: put {text} in quotes"
    wanted = _WANTED.get(kind.partition("_")[0], "of the type that ODCS defines")
    return f"must be {wanted}, not {shown(written)}"


def unknown_keys(node: object, model: type[BaseModel], place: Place) -> Iterator[tuple[Place, str, list[str]]]:
    """Yield keys that ODCS does not have: (place, key, keys known there). The package itself ignores most of them."""
    known = _annotations(model)
    for key, value in (as_mapping(node) or {}).items():
        if not isinstance(key, str) or key not in known:
            yield place, str(key), list(known)
        elif below := _model_in(known[key]):
            for at, child in _parts(value, (*place, key)):
                yield from unknown_keys(child, below, at)


def _parts(value: object, place: Place) -> list[tuple[Place, object]]:
    """Return a list's items, or the value itself."""
    items = as_list(value)
    return [(place, value)] if items is None else [((*place, position), item) for position, item in enumerate(items)]


@cache
def _annotations(model: type[BaseModel]) -> dict[str, Any]:
    return {item.alias or name: item.annotation for name, item in model.model_fields.items()}


@cache
def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the one model that an annotation such as `list[SchemaObject] | None` leads to; None if a union has two."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Union, UnionType, list):
        found = {inner for inner in map(_model_in, typing.get_args(annotation)) if inner}
        return found.pop() if len(found) == 1 else None
    return None
