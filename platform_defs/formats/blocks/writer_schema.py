"""The schema that a message was written with, for messages that do not describe themselves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.contract import Contract, Format
from platform_defs.contract.model.message_path import MessagePath

Part = Literal["value", "key"]  # of a message: each may name a schema of its own


@dataclass(frozen=True)
class WriterSchema:
    """A schema that messages were written with, as the registry has it. A known one never changes."""

    key: str  # the registry's id as text, its GUID, or the path of a schema file
    format: Format
    document: str  # Avro or JSON Schema: JSON text; Protobuf: .proto text or base64 of a FileDescriptorProto
    references: tuple[tuple[str, str], ...] = ()  # (name, document), the whole closure, each before those that need it
    encrypted: bool = False  # True if rules of the registry encrypt fields: its messages contain ciphertext

    @property
    def size(self) -> int:
        """Characters of its text and of the schemas that it refers to."""
        return len(self.document) + sum(len(document) for _, document in self.references)


def schema_of_file(contract: Contract) -> WriterSchema:
    """Return the schema in the contract's schema file, with the files that it imports."""
    wire = contract.wire
    return WriterSchema(wire.schema_file, contract.format, wire.schema_text, wire.schema_imports)


class SchemaNotCompatible(Exception):
    """Messages of this schema cannot become rows of the contract: each is a dead letter of this class."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)  # sentences, one for each field that does not fit


class OtherRecord(Exception):
    """The schema has another record than the one that the contract reads."""

    def __init__(self, record: str) -> None:
        super().__init__(record)
        self.record = record  # the full name of the schema's record


MAX_LEVELS = 10  # of records in each other; what is deeper is shown as a whole


@dataclass(frozen=True)
class WriterField:
    """A field of a writer's schema, by its path; one of a nested record has the record's name in front."""

    path: MessagePath
    type: str  # in the words of the format: long (timestamp-micros)
    optional: bool  # True if a message may lack it
    reads_as: ColumnType  # the contract's type that takes every value of it, as far as there is one
    spelled_as: tuple[MessagePath, ...] = ()  # other paths that lead to it
    number: int | None = None  # Protobuf
