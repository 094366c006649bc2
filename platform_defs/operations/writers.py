"""The schemas that a pipeline's messages were written with, against a changed contract: which of them still fit it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from platform_defs.contract.model import Contract
from platform_defs.formats.writer_schema import WriterSchema
from platform_defs.operations.writer_fit import AnotherRecord, why_not
from platform_defs.words import plural
from resources.postgres.connection import Connection, queries


@dataclass(frozen=True)
class WriterFit:
    """A schema that the ledger keeps, and how many messages of published batches name it."""

    key: str  # the registry's id, or the schema's GUID
    generation: int  # of the registry, in which the id means this
    messages: int
    first_batch: int
    why: str  # none of its messages would become a row; empty where they may

    def to_json(self) -> Mapping[str, Any]:
        return asdict(self)


def judge_writers(connection: Connection, contract: Contract) -> tuple[WriterFit, ...]:
    """Each schema that messages of the pipeline have named, by the contract as it would be. Asks no registry."""
    if not contract.wire.framed:
        return ()
    rows = connection.execute(queries()["writers_of"], {"pipeline": contract.pipeline}).fetchall()
    return tuple(_fit(contract, *row) for row in rows)


def said(fits: Sequence[WriterFit]) -> str:
    """The line of a plan: 7 schemas of writers, 6 fit; schema 3 does not: ..."""
    refused = [one for one in fits if one.why]
    first = f"The ledger has {plural(len(fits), 'schema')} of its writers; {len(fits) - len(refused)} fit."
    lines = [
        f"  Schema {one.key} does not: {one.why}. {plural(one.messages, 'message')} since batch {one.first_batch}"
        for one in refused
    ]
    return "\n".join([first, *lines])


def _fit(
    contract: Contract,
    key: str,
    generation: int,
    kind: Any,
    document: str,
    references: Any,
    encrypted: bool,
    messages: int,
    first_batch: int,
) -> WriterFit:
    named = tuple((name, text) for name, text in references)
    writer = WriterSchema(key, kind, document, named, encrypted)
    return WriterFit(key, generation, messages, first_batch, _why_not(contract, writer))


def _why_not(contract: Contract, writer: WriterSchema) -> str:
    try:
        return why_not(contract, writer) or ""
    except AnotherRecord:
        return ""  # the contract reads another one
