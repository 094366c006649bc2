"""Checks that schemas are those the messages were written with: before a run, and before a batch is published."""

from collections.abc import Callable, Sequence

from platform_defs.contract.model.contract import Contract
from platform_defs.engine.interfaces.schema_finder import Schemas
from platform_defs.engine.interfaces.staged import FaultGroup, Staged
from platform_defs.engine.plan.replay_plan import SUFFIX
from platform_defs.errors import BadInput, Halt, SchemasNotGiven
from platform_defs.errors.halts import RegistrySwitched
from platform_defs.errors.words import plural
from platform_defs.offsets import PendingBatch

_MAX_NAMED = 20  # ids in a message


def refuse_switched(contract: Contract, schemas: Schemas | None) -> None:
    """Raise Halt if ids that messages named mean something else by now: the registry was rebuilt."""
    if schemas is not None and (found := schemas.switched()) is not None:
        raise _halt(contract, found, "Nothing was read.")


def refuse_switched_since(contract: Contract, schemas: Schemas | None, staged: Staged) -> None:
    """Raise Halt if ids that the messages of a batch name have changed their meaning since the messages were read:
    these may have been written with the schemas of either registry.
    """
    named = [one for item in staged.coverage for one in item.schemas]
    if schemas is not None and named and (found := schemas.switched_since(named)) is not None:
        raise _halt(contract, found, f"Nothing from batch {staged.pending.batch_id} was published.")


def _halt(contract: Contract, found: RegistrySwitched, what: str) -> Halt:
    seen = (
        f"the schema registry {found.registry} now returns different schemas for ids that messages already used "
        f"({_listed(found.keys)}): it was rebuilt, or is a different registry. {what}"
    )
    return Halt(contract.pipeline, found, seen)


def as_decided(schemas: Schemas | None, pending: PendingBatch) -> Schemas | None:
    """Return the finder of a batch's schemas: it accepts missing schemas if a person has decided about the batch."""
    decided = pending.without_schemas or pending.set_aside is not None
    return schemas.accepting() if schemas is not None and decided else schemas


def refuse_unknown(
    contract: Contract, schemas: Schemas | None, faults: Callable[[Staged], Sequence[FaultGroup]], staged: Staged
) -> None:
    """Raise SchemasNotGiven if messages name schemas and none of these is known, unless the registry is known to be the
    right one, or a person has decided about the batch: then these are dead letters. Raise BadInput if a replay would
    make dead letters of messages whose schema was known when they were published. `faults` counts the dead letters of a
    batch that is not published yet.
    """
    if schemas is None or not staged.dead_letters:
        return
    _refuse_forgotten(contract, schemas, staged)
    if any(item.schemas for item in staged.coverage) or staged.pending.resolved_by_user:
        return
    unknown = [group for group in faults(staged) if group.error_class == "UnknownSchemaId"]
    if not unknown or schemas.is_familiar():
        return
    messages = plural(sum(group.count for group in unknown), "message")
    text = unknown[0].samples[0]["message"]
    raise SchemasNotGiven.of(
        contract.pipeline,
        f"the registry has none of the schemas that are named by {messages} of batch {staged.pending.batch_id} "
        f"({text}). Is this the right registry (TIDEGATE_REGISTRY_URL, TIDEGATE_REGISTRY_NAME)? If it is, confirm it "
        f"with tidegate schema fetch {contract.pipeline}, or register a schema under the contract's subject: these "
        "messages then become dead letters",
    )


def _refuse_forgotten(contract: Contract, schemas: Schemas, staged: Staged) -> None:
    named = [one for item in staged.coverage for one in item.schemas]
    if not (keys := schemas.forgotten(staged.pending.ranges, named)):
        return
    live = contract.pipeline.removesuffix(SUFFIX)
    raise BadInput(
        "some messages to replay were published with schemas that are neither in the ledger nor in the registry "
        f"{schemas.registry}: {_listed(keys)}. They would become dead letters; nothing was changed. If "
        "TIDEGATE_REGISTRY_URL, TIDEGATE_REGISTRY_NAME or the context of the contract's subject has changed since, "
        f"correct it. Otherwise register the schemas under these ids, then: tidegate schema fetch {live}",
        field=live,
    )


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(keys[:_MAX_NAMED]) + ", ..." * (len(keys) > _MAX_NAMED)
