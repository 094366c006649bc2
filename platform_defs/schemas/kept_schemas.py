"""`tidegate schema`: a schema from the ledger or the registry, and schemas stored in the ledger in advance."""

from dataclasses import dataclass

from platform_defs.contract.model.contract import Contract
from platform_defs.errors import BadInput
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.ledger.schema_ledger import SchemaLedger, registry_scope, schema_digest
from platform_defs.registry.client import RegistryClient
from platform_defs.registry.subjects import Subjects
from platform_defs.schemas.ledger import InBatch, SchemaAnswers
from platform_defs.schemas.survey import subject_of
from platform_defs.settings.registry_address import Registry

MAX_BATCHES = 20  # shown for a schema


@dataclass(frozen=True)
class Shown:
    """A schema, and the newest batches whose messages named it."""

    schema: WriterSchema
    source: str  # "the ledger" or "the registry"
    batches: tuple[InBatch, ...]


@dataclass(frozen=True)
class Fetched:
    """The schemas that were stored."""

    subject: str
    schemas: int  # of the subjects of values and keys
    new: tuple[str, ...]  # the ids that the ledger did not have


def show(contract: Contract, key: str, url: str, registry_name: str, address: Registry | None) -> Shown:
    """Return the schema of this id or GUID, from the ledger, else from the registry. Raises BadInput if neither
    has it.
    """
    subject = subject_of(contract)
    scope = registry_scope(registry_name, subject)
    answers = SchemaAnswers(url, scope)
    generation = answers.newest_generation(contract.pipeline)
    kept = SchemaLedger(url, scope).known(generation, [key]).get(key)
    if kept is not None:
        return Shown(kept, "the ledger", answers.batches(contract.pipeline, generation, key, MAX_BATCHES))
    found = RegistryClient(address).schema(key, subject) if address else None
    if found is None:
        lacking = "neither the ledger nor the registry has" if address else "the ledger does not have"
        one = f"a readable schema {key}"
        raise BadInput(f"{lacking} {one}; tidegate schema list {contract.pipeline} shows the available ones")
    return Shown(found, "the registry", ())


def fetch(contract: Contract, url: str, registry_name: str, address: Registry) -> Fetched:
    """Store every version of the contract's subjects in the ledger, so that no run has to query the registry for it.

    Raises BadInput if the registry has another schema under an id than the ledger; RegistryAway, LedgerAway.
    """
    subject, subjects = subject_of(contract), Subjects(address)
    scope = registry_scope(registry_name, subject)
    generation = SchemaAnswers(url, scope).newest_generation(contract.pipeline)
    every = [one for of in filter(None, (subject, contract.key_subject)) for one in subjects.versions(of)]
    found = {one.key: one.schema for one in every if one.schema is not None}
    if not found:
        raise BadInput(f"the schema registry at {address} has no readable version of {subject}", field=subject)
    ledger = SchemaLedger(url, scope)
    known = ledger.known(generation, found)
    if changed := [key for key, schema in known.items() if schema_digest(schema) != schema_digest(found[key])]:
        raise BadInput(
            f"the schema registry at {address} and the ledger have different schemas for {', '.join(changed)}: it "
            "is a different registry, or was rebuilt. Nothing was stored. The next run halts (registry_switched)"
        )
    new = [key for key in found if key not in known]
    ledger.keep(generation, [found[key] for key in new])
    return Fetched(subject, len(found), tuple(new))
