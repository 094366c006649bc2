"""Assignment of unused numbers to the fields of a Protobuf contract, written into its file.

The file's YAML keeps its comments and everything else as it is.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.message_path import MessagePath
from platform_defs.contract.reader.odcs import load
from platform_defs.errors import BadInput, LedgerMissing
from platform_defs.schemas.conversion.field_numbers import Assigned, assign

if TYPE_CHECKING:
    from platform_defs.settings.registry_address import Registry

# Numbers in the file's history: {property: fieldNumber, value: 3}, in one line or in two.
_WRITTEN = re.compile(r"(?:fieldNumber|pathNumbers)['\"]?\s*,?\s*[-+]?\s*value['\"]?\s*:\s*(\[[\d,\s]*\]|\d+)")


@dataclass(frozen=True)
class Numbered:
    """A contract whose fields have numbers, and the newly assigned ones."""

    contract: Contract
    assigned: tuple[Assigned, ...]
    unasked: tuple[str, ...]  # systems that were not queried for used numbers


def number_fields(contract: Contract, ledger_url: str | None, address: Registry | None) -> Numbered:
    """Assign numbers to the fields that lack one, and write them into the contract's file: the registered schema's,
    else new ones, higher than all used in git, the ledger and the registry. Raises BadInput, LedgerAway, RegistryAway.
    """
    known, used = dict[MessagePath, int](), set[int]()
    if address is not None:
        known, used = _registered(contract, address)
    used |= set(_in_git(contract.path)) | set(_in_ledger(contract, ledger_url))
    given = tuple(assign(contract, known, used))
    unasked = tuple(name for name, at in (("the ledger", ledger_url), ("the registry", address)) if at is None)
    return Numbered(_written(contract, given) if given else contract, given, unasked)


def _written(contract: Contract, given: tuple[Assigned, ...]) -> Contract:
    path = contract.path
    if path is None:
        raise BadInput("the contract has no file to write field numbers to", field=contract.pipeline)
    try:
        text = with_numbers(path.read_text(encoding="utf-8"), given)
        made = load(path, text)
    except BadInput as wrong:
        raise BadInput(f"field numbers cannot be written to it: {wrong.problem}", file=str(path)) from None
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.chmod(path.stat().st_mode)
    new.replace(path)
    return made


def _registered(contract: Contract, address: Registry) -> tuple[dict[MessagePath, int], set[int]]:
    """Return the numbers of the subject's newest version by path, and all numbers of any version."""
    from platform_defs.registry.subjects import Subjects
    from platform_defs.schemas.conversion.from_protobuf import from_protobuf

    known, used = dict[MessagePath, int](), set[int]()
    for version in Subjects(address).versions(contract.wire.subject):
        if version.schema is not None and version.schema.format == "protobuf":
            found = from_protobuf(version.schema, contract.wire.record)
            known = {item.path[:depth]: number for item in found.fields for depth, number in enumerate(item.numbers, 1)}
            used |= set(known.values())
    return known, used


def _in_ledger(contract: Contract, url: str | None) -> Iterator[int]:
    """Yield the numbers in applied contracts."""
    if url is None:
        return
    from platform_defs.ledger.contract_ledger import ContractLedger
    from platform_defs.ledger.migrations import reading
    from platform_defs.postgres.connection import connect

    try:
        with reading(connect(url)) as session:
            kept = ContractLedger(session, contract.pipeline).every()
    except LedgerMissing:
        return
    for one in kept:
        yield from _numbers(one.document)


def _in_git(path: Path | None) -> Iterator[int]:
    """Yield the numbers in the file's history; nothing without a repository."""
    if path is None or not path.exists():
        return
    yield from _numbers(path.read_text(encoding="utf-8"))
    asked = ["git", "log", "-p", "--format=", "--follow", "--", os.path.relpath(path, path.parent)]
    done = subprocess.run(asked, cwd=path.parent, capture_output=True, check=False)
    yield from _numbers(re.sub("^[-+ ]", "", done.stdout.decode(errors="replace"), flags=re.MULTILINE))


def _numbers(text: str) -> Iterator[int]:
    for found in _WRITTEN.findall(text):
        yield from map(int, re.findall(r"\d+", found))


_pyyaml: Any = yaml  # its stubs do not type compose
_NOT_LISTED = "write the numbers yourself, because the file does not list the fields one by one"


def with_numbers(text: str, assigned: Iterable[Assigned]) -> str:
    """Return the text with a fieldNumber, and pathNumbers if needed, in the custom properties of each assigned field.

    Raises BadInput if the fields are not written out.
    """
    fields = dict(_fields(_pyyaml.compose(text, Loader=yaml.SafeLoader)))
    edits = [_edit(text, fields.get(one.field), one) for one in assigned]
    if len({at for at, _ in edits}) < len(edits):  # two fields that are one by an alias
        raise BadInput(_NOT_LISTED)
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
        raise BadInput(_NOT_LISTED, field=one.field)
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
        raise BadInput(_NOT_LISTED, field=one.field)
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
