"""Whether schemas are those that the messages were written with: before a run, and before a batch is judged."""

from platform_defs.contract.model import Contract
from platform_defs.engine.ports import PipelineHold, Staged
from platform_defs.engine.schema_ports import Schemas
from platform_defs.errors import BadInput, Halt
from platform_defs.formats.supported import reader_of
from platform_defs.formats.writer_schema import OtherRecord, SchemaNotCompatible, WriterSchema
from platform_defs.halts import RegistrySwitched
from platform_defs.words import plural

_MOST_NAMED = 20  # ids in a message


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
    if schemas is not None and (found := schemas.switched()) is not None:
        raise _halt(contract, found, "Nothing was read.")


def refuse_switched_since(contract: Contract, schemas: Schemas | None, staged: Staged) -> None:
    """Raise Halt where ids that the messages of a batch name mean something else now that these are read: they may have
    been written by the schemas of either registry.
    """
    named = [one for item in staged.coverage for one in item.schemas]
    if schemas is not None and named and (found := schemas.switched_since(named)) is not None:
        raise _halt(contract, found, f"Nothing of batch {staged.pending.batch_id} was published.")


def _halt(contract: Contract, found: RegistrySwitched, what: str) -> Halt:
    names = ", ".join(found.keys[:_MOST_NAMED]) + ", ..." * (len(found.keys) > _MOST_NAMED)
    seen = (
        f"the schema registry {found.registry} has other schemas under ids that messages already named ({names}): it "
        f"was built again, or is another one. {what}"
    )
    return Halt(contract.pipeline, found, seen)


def refuse_unknown(contract: Contract, schemas: Schemas | None, ledger: PipelineHold, staged: Staged) -> None:
    """Raise BadInput where messages name schemas and none of these is known, unless the registry has one of those that
    the ledger keeps of it, or a person has decided about the batch: then these are dead letters.
    """
    if schemas is None or not staged.dead_letters or any(item.schemas for item in staged.coverage):
        return
    if staged.pending.judged_by_a_person:
        return
    unknown = [group for group in ledger.faults(staged) if group.error_class == "UnknownSchemaId"]
    if not unknown or schemas.is_familiar():
        return
    messages = plural(sum(group.count for group in unknown), "message")
    said = unknown[0].samples[0]["message"]
    raise BadInput(
        f"{messages} of batch {staged.pending.batch_id} name a schema, and the registry has none of these ({said}). Is "
        "this the right registry (TIDEGATE_REGISTRY_URL, TIDEGATE_REGISTRY_NAME)? Nothing was published and nothing "
        f"became a dead letter. If it is, make it known (tidegate schema fetch {contract.pipeline}): then these become "
        "dead letters",
        field=contract.pipeline,
    )
