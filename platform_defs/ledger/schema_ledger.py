"""The schemas in the ledger, and the generation of a registry that a pipeline's messages name."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from psycopg.types.json import Jsonb

from platform_defs.contract.odcs_writer import context_of
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.offsets import OffsetRange
from platform_defs.postgres.connection import connect, database_errors, queries

MAX_COMPARED = 20  # maximum schemas in use that are compared with the registry's


@dataclass(frozen=True)
class Generation:
    """The start of a generation: the offsets in one log, by partition, from which messages name its schemas; all of the
    log if none is given.
    """

    number: int
    topic_id: str | None
    from_offsets: Mapping[int, int]


@dataclass(frozen=True)
class SchemaInUse:
    """A schema that messages name, and its digest."""

    key: str
    sha256: str


@dataclass(frozen=True)
class SchemaLedger:
    """One registry's schemas in the ledger at `url`. Each method has its own connection, and raises LedgerAway."""

    url: str = field(repr=False)  # contains the password
    registry: str

    def known(self, generation: int, keys: Iterable[str]) -> dict[str, WriterSchema]:
        """Return the kept schemas among `keys`."""
        rows = self._ask("known_schemas", generation=generation, keys=list(keys))
        return {row[0]: schema_of(*row) for row in rows}

    def keep(self, generation: int, schemas: Sequence[WriterSchema]) -> dict[str, WriterSchema]:
        """Keep `schemas` permanently. Return what is kept now: another's schema if that came first."""
        with connect(self.url) as connection, database_errors(), connection.transaction():
            for schema in sorted(schemas, key=lambda item: item.key):  # the same order in all tasks: no deadlock
                connection.execute(
                    queries()["keep_schema"],
                    {
                        "registry": self.registry,
                        "generation": generation,
                        "key": schema.key,
                        "format": schema.format,
                        "document": schema.document,
                        "references": Jsonb([list(one) for one in schema.references]),
                        "encrypted": schema.encrypted,
                        "sha256": schema_digest(schema),
                    },
                )
        return self.known(generation, [schema.key for schema in schemas])

    def generations(self, pipeline: str) -> tuple[Generation, ...]:
        """Return the generations of a pipeline, ascending; none before its first run."""
        rows = self._ask("generations", pipeline=pipeline)
        return tuple(Generation(number, topic, {int(p): at for p, at in ats.items()}) for number, topic, ats in rows)

    def begin(self, pipeline: str) -> None:
        """Give a pipeline without a generation the registry's current one."""
        with connect(self.url) as connection, database_errors():
            connection.execute(queries()["first_generation"], {"registry": self.registry, "pipeline": pipeline})

    def in_use(self, pipeline: str, generation: int) -> tuple[SchemaInUse, ...]:
        """Return the schemas that a pipeline's newest batches name, then others that are kept from the registry."""
        rows = self._ask("schemas_in_use", pipeline=pipeline, generation=generation, most=MAX_COMPARED)
        return tuple(SchemaInUse(*row) for row in rows)

    def digests(self, generation: int, keys: Iterable[str]) -> dict[str, str]:
        """Return the digest (`schema_digest`) of each kept schema among `keys`."""
        return dict(self._ask("schema_digests", generation=generation, keys=list(keys)))

    def named_in(
        self, pipeline: str, topic_id: str | None, ranges: Sequence[OffsetRange]
    ) -> list[tuple[str, int, str]]:
        """Return registry, generation and key of each schema that published batches named in these ranges."""
        spans = {
            "partitions": [one.partition for one in ranges],
            "from_offsets": [one.from_offset for one in ranges],
            "until_offsets": [one.until_offset for one in ranges],
        }
        return [(*row,) for row in self._ask("schemas_named_in", pipeline=pipeline, topic_id=topic_id, **spans)]

    def _ask(self, query: str, **given: Any) -> list[tuple[Any, ...]]:
        with connect(self.url) as connection, database_errors():
            return connection.execute(queries()[query], {"registry": self.registry, **given}).fetchall()


def schemas_at(url: str, places: Collection[tuple[str, int, str]]) -> dict[tuple[str, int, str], WriterSchema]:
    """Return the schemas that the ledger has at these places: registry, generation and key. Raises LedgerAway."""
    found = dict[tuple[str, int, str], WriterSchema]()
    for registry, generation in {place[:2] for place in places}:
        keys = [key for *group, key in places if group == [registry, generation]]
        known = SchemaLedger(url, registry).known(generation, keys)
        found |= {(registry, generation, key): schema for key, schema in known.items()}
    return found


def registry_scope(registry: str, subject: str) -> str:
    """Return the ledger's name for the scope of the subject's ids: the registry's, and the context in it."""
    return f"{registry}{context_of(subject)}"


def schema_digest(schema: WriterSchema) -> str:
    """Return the SHA-256, in hexadecimal, of a schema's content, whatever its id."""
    return sha256(json.dumps([schema.format, schema.document, schema.references]).encode()).hexdigest()


def schema_of(key: str, kind: Any, document: str, references: Any, encrypted: bool) -> WriterSchema:
    """Return a schema from the ledger's columns."""
    return WriterSchema(key, kind, document, tuple((name, text) for name, text in references), encrypted)
