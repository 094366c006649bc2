"""Registration of a contract's schema, and creation of a contract from a schema in the registry or a file."""

from __future__ import annotations

import difflib
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from platform_defs.contract.model.contract import SUFFIX, Contract, Format
from platform_defs.contract.reader.catalogue import check_transform_file, read_contract, read_contracts
from platform_defs.contract.reader.wire import all_imports, imported_files
from platform_defs.errors import BadInput, RegistryAway
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.writer_fit import why_not
from platform_defs.schemas.conversion.exporting import export_schema
from platform_defs.schemas.conversion.importing import SUFFIXES, Imported, Wanted, import_schema
from platform_defs.schemas.survey import UNREADABLE, subject_of
from platform_defs.settings.settings import settings

if TYPE_CHECKING:  # a command without a registry does not load its client
    from platform_defs.registry.subjects import Subjects
    from platform_defs.settings.registry_address import Registry


_TEXT_KEYS: Mapping[str, tuple[Format, str]] = {
    "avro": ("avro", '"string"'),
    "json": ("json", '{"type": "string"}'),
    "protobuf": ("protobuf", 'syntax = "proto3"; message Key { string id = 1; }'),
}


@dataclass(frozen=True)
class Registered:
    """A contract's registered schema."""

    subject: str
    key: str  # the schema's id
    level: str | None  # the subject's compatibility for new versions
    new: bool  # the registry had no such version before


def register(contract: Contract, address: Registry, file: Path | None = None) -> Registered:
    """Register the contract's own schema, or the one of a file that fits it, under its subject.

    The subject gets the contract's compatibility, except for NONE, which leaves an existing subject unchanged. The
    registry first checks if it accepts the schema; if not, the subject's compatibility is restored. A key subject
    without a schema gets that of a text. Raises BadInput with the registry's reasons, and RegistryAway; both name the
    changes that stay in the registry.
    """
    from platform_defs.registry.subjects import Subjects

    subject_of(contract)
    registration = _Registration(contract, _document(contract, file), Subjects(address))
    try:
        done = registration.values()
        registration.keys()
    except BadInput as error:
        place = str(contract.path) if contract.path else None
        raise BadInput(f"{error.problem}. {registration.stays()}", file=place, field=contract.pipeline) from error
    except RegistryAway as error:
        raise error.adding(registration.stays()) from error
    return done


@dataclass(frozen=True)
class _Registration:
    """The subjects of one contract, and the changes made to them so far."""

    contract: Contract
    document: str
    subjects: Subjects
    changed: list[str] = field(default_factory=list[str])  # sentences

    def values(self) -> Registered:
        """Register the schema of the values, and set its subject's compatibility."""
        subject, level = self.contract.wire.subject, self.contract.wire.compatibility
        if self.subjects.version(subject) is not None:
            return self._next()
        key = self._add(subject, self.contract.format, self.document)
        self._hold(subject, level)
        return Registered(subject, key, level, new=True)

    def keys(self) -> None:
        """Register the schema of keys, a text or a message with one, unless their subject has a schema."""
        subject = self.contract.key_subject
        if subject and self.subjects.version(subject) is None:
            self._add(subject, *_TEXT_KEYS[self.contract.wire.key_format])

    def stays(self) -> str:
        """Return the sentence about the registry's state in an error."""
        if not self.changed:
            return "Nothing was registered or changed"
        return f"These changes stay in the registry: {'; '.join(self.changed)}. It is safe to run the command again"

    def _next(self) -> Registered:
        subject, wanted = self.contract.wire.subject, self.contract.wire.compatibility
        was = self.subjects.level(subject)
        level = was if wanted == "NONE" else wanted
        if level and level != was:
            self._hold(subject, level)
        try:
            same = self.subjects.same(subject, self.contract.format, self.document)
            if same:
                return Registered(subject, same.key, level, new=False)
            if reasons := self.subjects.incompatibilities(subject, self.contract.format, self.document):
                applied = level or "the registry's own level"
                raise BadInput(
                    f"the registry would not accept the schema as the next version of {subject} (compatibility: "
                    f"{applied}): {'; '.join(reasons)}. Change the contract, or its compatibility"
                )
            return Registered(subject, self._add(subject, self.contract.format, self.document), level, new=True)
        except BadInput:
            # Undo `_hold`; if the registry fails, the level stays in `changed`.
            with suppress(BadInput, RegistryAway):
                if self.changed:
                    self.subjects.hold_to(subject, was) if was else self.subjects.release(subject)
                    self.changed.clear()
            raise

    def _add(self, subject: str, kind: Format, document: str) -> str:
        with self._noted(f"{subject} has the schema"):
            return self.subjects.register(subject, kind, document)

    def _hold(self, subject: str, level: str) -> None:
        with self._noted(f"{subject} has the compatibility level {level}"):
            self.subjects.hold_to(subject, level)

    @contextmanager
    def _noted(self, change: str) -> Generator[None]:
        """Record the change, if it is made; without an answer, it may have been."""
        try:
            yield
        except RegistryAway:
            self.changed.append(f"perhaps {change}")
            raise
        self.changed.append(change)


def _document(contract: Contract, file: Path | None) -> str:
    if file is None:
        return export_schema(contract, contract.format)
    document = _text(file)
    if contract.format == "protobuf" and (imports := ", ".join(imported_files(document))):
        raise BadInput(
            f"imports {imports}, and this command registers one file, without references: register the schema with the "
            "registry's own tools",
            file=str(file),
        )
    if refused := why_not(contract, WriterSchema(file.name, contract.format, document)):
        raise BadInput(f"messages of this schema do not fit the contract: {refused.reason}", file=str(file))
    return document


def import_from_registry(subject: str, address: Registry, wanted: Wanted) -> Imported:
    """Return the contract for the subject's newest version. Raises BadInput, RegistryAway."""
    from platform_defs.registry.subjects import Subjects

    subjects = Subjects(address)
    found = subjects.version(subject)
    if found is None:
        close = difflib.get_close_matches(subject, subjects.subjects(), 3, 0.4)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise BadInput(f"the schema registry at {address} has no subject {subject}{hint}", field=subject)
    source = f"version {found.number} of {subject} (id {found.key})"
    if found.schema is None:
        raise BadInput(f"{source} cannot be used: {UNREADABLE}", field=subject)
    return import_schema(found.schema, replace(wanted, subject=subject, source=source))


def import_from_file(file: Path, wanted: Wanted) -> Imported:
    """Return the contract for the schema in a file: .avsc, .proto or .json. Raises BadInput."""
    kind = SUFFIXES.get(file.suffix)
    if kind is None:
        raise BadInput("unknown kind of schema file; name it .avsc, .proto or .json", file=str(file))
    text = _text(file)
    imports = all_imports(text, lambda name: _text(file.parent / name)) if kind == "protobuf" else ()
    writer = WriterSchema(file.name, kind, text, imports)
    return import_schema(writer, replace(wanted, stem=file.stem, source=file.name))


def write(made: Imported, to: Path | None, folder: Path | None = None) -> Path:
    """Write the contract to `to`, or to its place in the catalogue. Raises BadInput if the file, or another contract of
    that id or table, exists, and for whatever `tidegate contract validate` would refuse.
    """
    folder = folder or settings().contracts_folder
    path = to or folder / made.domain / f"{made.name}{SUFFIX}"
    if path.exists():
        raise BadInput(
            "the file already exists: write to a different file with --to, and compare the two", file=str(path)
        )
    among = path.resolve().is_relative_to(folder.resolve())
    check_transform_file(read_contract(path.resolve(), folder.resolve() if among else None, made.text))
    known = read_contracts(folder)
    for other in (*known.good, *(item.contract for item in known.broken if item.contract)):
        if other.pipeline == made.pipeline or made.table in {table.name for table in other.tables}:
            raise BadInput(
                f"{other.path} already has the id {other.pipeline} and the table {other.row_table.name}: give a "
                "different --topic or --domain, or change that contract"
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(made.text, encoding="utf-8")
    return path


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", file=str(file)) from None
    except UnicodeDecodeError:
        raise BadInput("is not UTF-8", file=str(file)) from None
