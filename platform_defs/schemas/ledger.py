"""The ledger's answers about the schemas that a pipeline's messages named."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from platform_defs.formats.blocks.writer_schema import Part, WriterSchema
from platform_defs.ledger.migrations import reading
from platform_defs.ledger.schema_ledger import schema_of
from platform_defs.postgres.connection import connect, queries


@dataclass(frozen=True)
class Named:
    """A schema that messages named, how many of them did, and in which batches."""

    generation: int  # of the registry
    schema: WriterSchema
    first_seen_at: datetime
    messages: int
    first_batch: int
    last_batch: int


@dataclass(frozen=True)
class InBatch:
    """The number of messages in a batch that named a schema for their value, or for their key."""

    batch_id: int
    committed_at: datetime
    part: Part
    messages: int


@dataclass(frozen=True)
class SchemaAnswers:
    """Queries to the ledger at `url` about one registry's schemas. Each raises LedgerMissing, LedgerOutdated,
    LedgerTooNew or LedgerAway.
    """

    url: str = field(repr=False)  # contains the password
    registry: str  # its name in the ledger, and the context in it

    def named(self, pipeline: str) -> tuple[Named, ...]:
        """Return the schemas that the values of the pipeline's messages named, the most recent first."""
        rows = self._ask("named_schemas", pipeline=pipeline)
        return tuple(Named(generation, schema_of(*row[:5]), *row[5:]) for generation, *row in rows)

    def batches(self, pipeline: str, generation: int, key: str, most: int) -> tuple[InBatch, ...]:
        """Return the newest batches whose messages named a schema."""
        rows = self._ask("batches_naming", pipeline=pipeline, generation=generation, key=key, most=most)
        return tuple(InBatch(*row) for row in rows)

    def newest_generation(self, pipeline: str) -> int:
        """Return the pipeline's newest generation of the registry; else the newest of any pipeline, or 1."""
        return int(self._ask("newest_generation", pipeline=pipeline)[0][0])

    def _ask(self, query: str, **given: Any) -> Sequence[tuple[Any, ...]]:
        with reading(connect(self.url)) as connection:
            return connection.execute(queries()[query], {"registry": self.registry, **given}).fetchall()
