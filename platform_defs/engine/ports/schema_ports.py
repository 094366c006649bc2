"""What the engine is handed for messages that name their schemas. See engine/ports/run_ports.py."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from platform_defs.errors.halts import RegistrySwitched
from platform_defs.formats.blocks.writer_schema import Part, WriterSchema
from platform_defs.offsets import OffsetRange

NamedSchema = tuple[int, str, Part]  # its generation and key, and which part of a message names it


@dataclass(frozen=True, order=True)
class SchemaCount:
    """How many messages of a range name a schema that was known when they were read, with their values or keys."""

    generation: int
    key: str
    messages: int
    part: Part = "value"


def summed(counts: Iterable[SchemaCount]) -> tuple[SchemaCount, ...]:
    """The counts of several ranges as one of each schema and part, ascending."""
    found = Counter[NamedSchema]()
    for item in counts:
        found[item.generation, item.key, item.part] += item.messages
    return counted(found)


def counted(found: Mapping[NamedSchema, int]) -> tuple[SchemaCount, ...]:
    """Messages by what they name, ascending."""
    return tuple(SchemaCount(number, key, messages, part) for (number, key, part), messages in sorted(found.items()))


class SchemaFinder(Protocol):
    """Finds the schemas that messages name."""

    def generations(self, partition: int) -> Sequence[tuple[int, int]]:
        """(offset, generation), ascending: from that offset on, ids are those of that generation. The first is 0."""
        ...

    def find(self, generation: int, keys: Sequence[str]) -> Mapping[str, WriterSchema | None]:
        """Return the schema of each key; None for one that nobody has."""
        ...


class Schemas(SchemaFinder, Protocol):
    """As a run finds schemas. Travels to the workers, where each task has one of its own."""

    @property
    def registry(self) -> str:
        """The registry's name in the ledger."""
        ...

    def find(self, generation: int, keys: Sequence[str]) -> Mapping[str, WriterSchema | None]:
        """The schema of each key; None for one that the registry says it does not have. What is known is kept in the
        ledger for good, and asked of the registry no more; what is unknown is not kept. For what a run misses first it
        asks three times, since a follower may lag; a replay asks once. None also for one of a replaced registry that
        the ledger does not have.

        Raises RegistryAway where the registry has to be asked and does not answer; SchemasNotGiven where it answers,
        but not for one of these; LedgerAway.
        """
        ...

    def accepting(self) -> "Schemas":
        """The same, once a person has decided that messages whose schema is not given become dead letters: None is then
        also one that the registry refuses.
        """
        ...

    def switched(self) -> RegistrySwitched | None:
        """Whether ids in use mean something else by now. None also while the registry does not answer."""
        ...

    def switched_since(self, named: Iterable[SchemaCount]) -> RegistrySwitched | None:
        """As `switched`, of ids that messages name which have been read: what these ids meant before the answer, they
        meant when the messages were written. Raises LedgerAway.
        """
        ...

    def is_familiar(self) -> bool:
        """Return True if the registry has one of the schemas that the ledger keeps of it, or a version of the
        contract's subject. Raises RegistryAway.
        """
        ...

    def forgotten(self, ranges: Sequence[OffsetRange], named: Iterable[SchemaCount]) -> Sequence[str]:
        """The schemas that published batches named in these ranges, and that neither ledger nor registry has when
        they are replayed; none in a run. `named`: those that were found. Raises RegistryAway, LedgerAway.
        """
        ...
