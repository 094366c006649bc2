"""Whether schemas are those that the messages were written with: before a run, and before a batch is judged."""

from platform_defs.contract.model import Contract
from platform_defs.engine.ports import PipelineHold, Staged
from platform_defs.engine.schema_ports import Schemas
from platform_defs.errors import BadInput, Halt
from platform_defs.formats.supported import reader_of
from platform_defs.formats.writer_schema import OtherRecord, SchemaNotCompatible, WriterSchema
from platform_defs.words import plural


def refuse_schema_file(contract: Contract) -> None:
    """Raise BadInput where no message of the schema beside the contract could become a row."""
    if contract.wire.framed or contract.format == "json":
        return
    file = str(contract.path.with_name(contract.wire.schema_file)) if contract.path else contract.wire.schema_file
    try:
        reader_of(contract, WriterSchema(contract.wire.schema_file, contract.format, contract.wire.schema_text))
    except SchemaNotCompatible as wrong:
        raise BadInput(f"the schema does not fit the contract: {'; '.join(wrong.reasons)}", file=file) from wrong
    except OtherRecord as other:
        raise BadInput(f"the schema is of {other.record}, not of {contract.wire.record}", file=file) from other


def refuse_switched(contract: Contract, schemas: Schemas | None) -> None:
    """Raise Halt where ids that messages named mean something else by now: the registry was built again."""
    if schemas is None or (found := schemas.switched()) is None:
        return
    names = ", ".join(found.keys)
    seen = (
        f"the schema registry {found.registry} has other schemas under ids that messages already named ({names}): it "
        "was built again, or is another one. Nothing was read."
    )
    raise Halt(contract.pipeline, found, seen)


def refuse_unknown(contract: Contract, schemas: Schemas | None, ledger: PipelineHold, staged: Staged) -> None:
    """Raise BadInput where messages name schemas and none of these is known, unless the registry has those that earlier
    messages named: then it is the right one, and these are dead letters.
    """
    if schemas is None or not staged.dead_letters or any(item.schemas for item in staged.coverage):
        return
    unknown = [group for group in ledger.faults(staged) if group.error_class == "UnknownSchemaId"]
    if not unknown or schemas.is_familiar():
        return
    messages = plural(sum(group.count for group in unknown), "message")
    said = unknown[0].samples[0]["message"]
    raise BadInput(
        f"{messages} of batch {staged.pending.batch_id} name a schema, and the registry has none of these ({said}). Is "
        "this the right registry (TIDEGATE_REGISTRY_URL, TIDEGATE_REGISTRY_NAME)? Nothing was published and nothing "
        "became a dead letter",
        field=contract.pipeline,
    )
