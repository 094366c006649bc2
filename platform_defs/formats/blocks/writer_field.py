"""A field of a writer's schema, as all formats show it to people."""

from dataclasses import dataclass

from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.message_path import MessagePath

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
