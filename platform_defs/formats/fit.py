"""The reader for messages of a writer's schema, or the reason why a contract cannot read them."""

from dataclasses import dataclass
from typing import Protocol

from platform_defs.contract.model.contract import Contract
from platform_defs.formats.blocks.writer_schema import OtherRecord, SchemaNotCompatible, WriterSchema
from platform_defs.formats.supported import Reader, reader_of

_LONGEST = 2_000  # characters of a reason: a schema may have any number of fields that do not fit


class Make(Protocol):
    """Makes the reader for messages of one schema (`supported.reader_of`)."""

    def __call__(self, contract: Contract, writer: WriterSchema, *, indexed: bool) -> Reader: ...


@dataclass(frozen=True)
class Refused:
    """The reason why no message of a schema becomes a row."""

    error_class: str  # WrongSchemaType, SchemaNotCompatible, OtherRecord: the error class of its messages' dead letters
    reason: str  # one sentence or several, without the schema's id: "it is of type avro, and the contract reads json"


def reader_or_refusal(
    contract: Contract, writer: WriterSchema, *, indexed: bool, make: Make = reader_of
) -> Reader | Refused:
    """Return the reader for messages of the schema, or why there is none. Never raises for the content of the schema.

    `indexed`: Protobuf payloads begin with the indexes of their message.
    """
    if writer.format != contract.format:
        return Refused("WrongSchemaType", f"it is of type {writer.format}, but the contract reads {contract.format}")
    if writer.encrypted:
        return _not_compatible("registry rules encrypt some of its fields, so only ciphertext could be stored")
    try:
        return make(contract, writer, indexed=indexed)
    except SchemaNotCompatible as wrong:
        return _not_compatible("; ".join(wrong.reasons))
    except OtherRecord as other:
        return other_record(contract, other.record)
    except (ValueError, RecursionError) as error:  # a schema that the compiler takes and its runtime does not
        return _not_compatible(f"it cannot be loaded: {error}")


def other_record(contract: Contract, found: str) -> Refused:
    """Return the refusal of a schema of other records: `found` are their full names."""
    return Refused("OtherRecord", f"it describes {found}, but the contract reads {contract.wire.record}"[:_LONGEST])


def _not_compatible(reason: str) -> Refused:
    return Refused("SchemaNotCompatible", reason[:_LONGEST])
