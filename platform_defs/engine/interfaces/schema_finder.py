"""The protocols that find the schemas which messages name. See engine/interfaces/broker_and_auditor.py."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from platform_defs.errors.halts import RegistrySwitched
from platform_defs.formats.blocks.writer_schema import Part, WriterSchema
from platform_defs.ledger.published import SchemaCount
from platform_defs.offsets import OffsetRange

NamedSchema = tuple[int, str, Part]  # its generation and key, and which part of a message names it


def summed(counts: Iterable[SchemaCount]) -> tuple[SchemaCount, ...]:
    """Return the counts of several ranges as one for each schema and part, ascending."""
    found = Counter[NamedSchema]()
    for item in counts:
        found[item.generation, item.key, item.part] += item.messages
    return counted(found)


def counted(found: Mapping[NamedSchema, int]) -> tuple[SchemaCount, ...]:
    """Return messages by what they name, ascending."""
    return tuple(SchemaCount(number, key, messages, part) for (number, key, part), messages in sorted(found.items()))


class SchemaFinder(Protocol):
    """Finds the schemas that messages name."""

    def generations(self, partition: int) -> Sequence[tuple[int, int]]:
        """Return (offset, generation), ascending: from that offset on, ids are those of that generation. The first is
        0.
        """
        ...

    def find(self, generation: int, keys: Sequence[str]) -> Mapping[str, WriterSchema | None]:
        """Return the schema of each key; None for one that does not exist."""
        ...


class Schemas(SchemaFinder, Protocol):
    """A run's finder of schemas. Travels to the workers, where each task has one of its own."""

    @property
    def registry(self) -> str:
        """The registry's name in the ledger."""
        ...

    def find(self, generation: int, keys: Sequence[str]) -> Mapping[str, WriterSchema | None]:
        """Return the schema of each key; None for one that the registry reports missing. A known schema is kept in the
        ledger permanently, and not requested from the registry again; an unknown one is not kept. For a missing schema,
        a run first asks three times, since a follower may lag; a replay asks once. None also for a schema of a replaced
        registry that the ledger does not have.

        Raises RegistryAway if the registry has to be queried and does not answer; SchemasNotGiven if it answers, but
        not for one of these; LedgerAway.
        """
        ...

    def accepting(self) -> "Schemas":
        """Return the same finder, once a person has decided that messages whose schema is not given become dead
        letters: it returns None also for a schema that the registry refuses.
        """
        ...

    def switched(self) -> RegistrySwitched | None:
        """Return the ids in use that mean something else by now; None if there are none, or while the registry does not
        answer.
        """
        ...

    def switched_since(self, named: Iterable[SchemaCount]) -> RegistrySwitched | None:
        """Return the same as `switched`, for ids named by messages that have been read: if an id is unchanged after the
        read, the messages were written with it. Raises LedgerAway.
        """
        ...

    def is_familiar(self) -> bool:
        """Return True if the registry has one of the schemas that the ledger has recorded for it, or a version of the
        contract's subject. Raises RegistryAway.
        """
        ...

    def forgotten(self, ranges: Sequence[OffsetRange], named: Iterable[SchemaCount]) -> Sequence[str]:
        """Return the schemas that published batches named in these ranges, and that neither ledger nor registry has
        when they are replayed; none in a run. `named`: those that were found. Raises RegistryAway, LedgerAway.
        """
        ...
