"""The contract file for a message found in a schema: ODCS in YAML, with notes on inferred parts as comments."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from platform_defs.contract.document.node import as_list
from platform_defs.contract.document.yaml_scalar import yaml_scalar
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.odcs_writer import document
from platform_defs.formats.blocks.excerpt import printable

_WIDEST = 116  # characters of a comment


def contract_yaml(contract: Contract, notes: Iterable[str], of_fields: Mapping[str, str]) -> str:
    """Return the text of the file, which `odcs.load` reads. `of_fields`: the note on a field, by its name."""
    comments = (line for note in notes for line in _comment(note))
    head = "# Imported from a schema. The following was inferred:"
    return "\n".join([head, *comments, *_mapping(document(contract), "", of_fields), ""])


def _mapping(written: Mapping[str, Any], indent: str, notes: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a mapping. Custom properties and columns are one line each."""
    in_a_line = written.get("physicalType") == "table"
    for key, value in _keys(written):
        if (items := as_list(value)) is None:
            yield f"{indent}{key}: {yaml_scalar(value)}"
            continue
        yield f"{indent}{key}:"
        for item in items:
            if in_a_line or key == "customProperties":
                yield f"{indent}  - {{{', '.join(f'{name}: {yaml_scalar(one)}' for name, one in _keys(item))}}}"
            else:
                first, *rest = _mapping(item, f"{indent}    ", notes)
                note = notes.get(item["name"], "") if key == "properties" else ""
                yield f"{indent}  - {first.strip()}{f' # {_one_line(note)}' if note else ''}"
                yield from rest


def _keys(written: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the keys, without a physicalType that repeats the logicalType."""
    for key, value in written.items():
        if key != "physicalType" or value != written.get("logicalType"):
            yield key, value


def _comment(text: str) -> Iterator[str]:
    """Yield the lines of a comment, wrapped between words."""
    line = "# -"
    for word in _one_line(text).split(" "):
        if len(line) + len(word) + 1 > _WIDEST:
            yield line
            line = "#  "
        line = f"{line} {word}"
    yield line


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))[:500]
