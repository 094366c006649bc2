"""A contract's schema, registered; and a contract, made of a schema that is registered or in a file."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from platform_defs.contract.catalogue import ASSETS, read_contracts
from platform_defs.contract.model import SUFFIX, Contract, Format
from platform_defs.contract.odcs import load
from platform_defs.errors import BadInput
from platform_defs.exchange.exporting import export_schema
from platform_defs.exchange.importing import SUFFIXES, Imported, Wanted, import_schema
from platform_defs.formats.writer_schema import WriterSchema
from platform_defs.operations.writer_fit import why_not
from resources.settings import settings

if TYPE_CHECKING:  # a command that asks no registry does not wait for its client
    from resources.registry.address import Registry
    from resources.registry.subjects import Subjects


_TEXT_KEYS: Mapping[str, tuple[Format, str]] = {
    "avro": ("avro", '"string"'),
    "json": ("json", '{"type": "string"}'),
    "protobuf": ("protobuf", 'syntax = "proto3"; message Key { string id = 1; }'),
}


@dataclass(frozen=True)
class Registered:
    """What the registry has of a contract now."""

    subject: str
    key: str  # the schema's id
    level: str | None  # what new versions are held to, by the subject itself
    new: bool  # whether the registry had no such version before


def register(contract: Contract, address: Registry, file: Path | None = None) -> Registered:
    """Register the contract's own schema, or the one of a file that fits it, under its subject.

    A subject is held to the contract's compatibility, except by NONE, which leaves one that is there as it is. The
    registry is asked first whether it would take the schema. Keys that are written with a schema, and have none yet,
    get that of a text. Raises BadInput with its reasons, and RegistryAway.
    """
    from resources.registry.subjects import Subjects

    wire, kind = contract.wire, contract.format
    if not wire.framed:
        raise _refused(contract, "its messages name no schema of a registry (framing: none)")
    document = _document(contract, file)
    subjects = Subjects(address)
    _register_keys(contract, subjects)
    is_there = subjects.version(wire.subject) is not None
    if is_there:
        _hold(subjects, wire.subject, wire.compatibility)
        if same := subjects.same(wire.subject, kind, document):
            return Registered(wire.subject, same.key, subjects.level(wire.subject), new=False)
        if reasons := subjects.incompatibilities(wire.subject, kind, document):
            held = subjects.level(wire.subject) or "the registry's own level"
            raise _refused(
                contract,
                f"the registry would not take the schema as the next version of {wire.subject}, which is held to "
                f"{held}: {'; '.join(reasons)}. Nothing was registered. Change the contract, or its compatibility",
            )
    key = subjects.register(wire.subject, kind, document)
    if not is_there:
        subjects.hold_to(wire.subject, wire.compatibility)
    return Registered(wire.subject, key, subjects.level(wire.subject), new=True)


def _register_keys(contract: Contract, subjects: Subjects) -> None:
    """Keys are texts, or messages with one text, where nobody has said otherwise."""
    subject = contract.wire.key_subject
    if subject and subjects.version(subject) is None:
        kind, document = _TEXT_KEYS[contract.wire.key_format]
        subjects.register(subject, kind, document)


def _hold(subjects: Subjects, subject: str, level: str) -> None:
    if level != "NONE" and subjects.level(subject) != level:
        subjects.hold_to(subject, level)


def _document(contract: Contract, file: Path | None) -> str:
    if file is None:
        return export_schema(contract, contract.format)
    document = _text(file)
    if refused := why_not(contract, WriterSchema(file.name, contract.format, document)):
        raise BadInput(f"messages of this schema do not fit the contract: {refused.reason}", file=str(file))
    return document


def import_from_registry(subject: str, address: Registry, wanted: Wanted) -> Imported:
    """The contract of the subject's newest version. Raises BadInput, RegistryAway."""
    from resources.registry.subjects import Subjects

    subjects = Subjects(address)
    found = subjects.version(subject)
    if found is None:
        close = difflib.get_close_matches(subject, subjects.subjects(), 3, 0.4)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise BadInput(f"the schema registry at {address} has no subject {subject}{hint}", field=subject)
    if found.schema is None:
        raise BadInput(f"version {found.number} of {subject} refers to a schema that the registry does not have")
    source = f"version {found.number} of {subject} (id {found.key})"
    return import_schema(found.schema, _with(wanted, subject=subject, source=source))


def import_from_file(file: Path, wanted: Wanted) -> Imported:
    """The contract of the schema in a file: .avsc, .proto or .json. Raises BadInput."""
    kind = SUFFIXES.get(file.suffix)
    if kind is None:
        raise BadInput("which language it is in is told by its name: .avsc, .proto or .json", file=str(file))
    return import_schema(WriterSchema(file.name, kind, _text(file)), _with(wanted, stem=file.stem, source=file.name))


def write(made: Imported, to: Path | None, folder: Path | None = None) -> Path:
    """Write the contract: to `to`, or where the catalogue finds it. Raises BadInput where a file or another contract of
    that id or table is there already.
    """
    folder = folder or settings().contracts or ASSETS
    path = to or folder / made.domain / f"{made.name}{SUFFIX}"
    if path.exists():
        raise BadInput("the file is there already: write to another with --to, and compare", file=str(path))
    load(path, made.text)
    for other in read_contracts(folder).good:
        if other.pipeline == made.pipeline or made.table in {table.name for table in other.tables}:
            raise BadInput(
                f"{other.path} has the id {other.pipeline} and the table {other.row_table.name} already: "
                "give another --topic or --domain, or change that contract"
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(made.text, encoding="utf-8")
    return path


def _with(wanted: Wanted, **more: str) -> Wanted:
    return Wanted(**{**vars(wanted), **more})


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", file=str(file)) from None
    except UnicodeDecodeError:
        raise BadInput("is not UTF-8", file=str(file)) from None


def _refused(contract: Contract, why: str) -> BadInput:
    return BadInput(why, file=str(contract.path) if contract.path else None, field=contract.pipeline)


def exported(contract: Contract, kind: Format | None) -> str:
    """The contract's schema, in its own format where none is given."""
    return export_schema(contract, kind or contract.format)
