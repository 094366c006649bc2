"""The fit of a writer's schema to a contract, for the gate, Dagster and `tidegate schema`.

Avro and Protobuf are read by the schema, so the schema decides. JSON is read without it, and the contract's rules
validate each message: its schema is a misfit only if no message that follows it could become a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from platform_defs.contract.evolution.changes import Change, ChangeClass
from platform_defs.contract.model.contract import Contract
from platform_defs.errors import BadInput
from platform_defs.formats.blocks.writer_schema import SchemaNotCompatible, WriterSchema, schema_of_file
from platform_defs.formats.writer_fields import doubts, fields_of

if TYPE_CHECKING:
    from platform_defs.formats.fit import Refused


def refuse_schema_file(contract: Contract) -> None:
    """Raise BadInput if no message of the schema file could become a row. For a contract without a
    schema file, do nothing.
    """
    wire = contract.wire
    if wire.framed or contract.format == "json":
        return
    if refused := why_not(contract, schema_of_file(contract)):
        file = str(contract.path.with_name(wire.schema_file)) if contract.path else wire.schema_file
        raise BadInput(f"the schema does not fit the contract: {refused.reason}", file=file)


def why_not(contract: Contract, writer: WriterSchema) -> Refused | None:
    """Return why none of the schema's messages becomes a row; None if some may. Never raises for a schema's content."""
    from platform_defs.formats.fit import Refused, other_record, reader_or_refusal  # pyarrow takes its time to load

    found = reader_or_refusal(contract, writer, indexed=True)
    if isinstance(found, Refused):
        return found
    if contract.format == "protobuf":
        from platform_defs.formats.protobuf.decode import ProtobufReader

        if isinstance(found, ProtobufReader) and found.others:
            return other_record(contract, ", ".join(found.others))
    if contract.format != "json":
        return None
    from platform_defs.formats.json.schema_fit import json_fit

    misfits = json_fit(contract, writer).misfits
    return Refused("SchemaNotCompatible", "; ".join(misfits)) if misfits else None


def misfit(contract: Contract, writer: WriterSchema) -> str | None:
    """Return why the schema's messages are dead letters; None if they may become rows, or are skipped on purpose."""
    refused = why_not(contract, writer)
    if refused is None or (refused.error_class == "OtherRecord" and contract.wire.other_records == "skip"):
        return None
    return refused.reason


def doubts_of(contract: Contract, writer: WriterSchema) -> tuple[str, ...]:
    """Return why some messages of a schema that fits may not become rows: a sentence for each field. Never raises."""
    if contract.format == "json":
        from platform_defs.formats.json.schema_fit import json_fit

        return json_fit(contract, writer).doubts
    try:
        return doubts(contract, fields_of(writer, contract.wire.record))
    except (SchemaNotCompatible, ValueError, RecursionError):
        return ()


def writer_changes(old: Contract, new: Contract, schemas: Iterable[WriterSchema]) -> tuple[Change, ...]:
    """Return a change for each of these schemas, which writers use, whose messages `old` reads better than `new`.

    A contract does not say which fields messages have besides those that it reads, nor with which types.
    """
    return tuple(found for schema in schemas for found in _writer_change(old, new, schema))


def _writer_change(old: Contract, new: Contract, schema: WriterSchema) -> Iterator[Change]:
    if misfit(old, schema) is not None:
        return
    if (reason := misfit(new, schema)) is not None:
        sentence = f"they become dead letters from now on: {reason}"
    elif added := [doubt for doubt in doubts_of(new, schema) if doubt not in doubts_of(old, schema)]:
        sentence = f"some may become dead letters from now on: {'; '.join(added)}"
    else:
        return
    yield Change("~", f"messages of schema {schema.key}", ChangeClass.BREAKS_PRODUCERS, sentence)
