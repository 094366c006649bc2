"""The schemas that messages name, for a read-only command: nothing is kept, and no ledger is needed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from platform_defs.contract.model.contract import Contract
from platform_defs.errors import BadInput, LedgerAway, LedgerMissing, LedgerOutdated
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.ledger.schema_ledger import Generation, SchemaLedger, registry_scope
from platform_defs.registry.client import client_of, is_possible
from platform_defs.registry.policy import RUN
from platform_defs.registry.schemas import generations_of
from platform_defs.settings.registry_address import Registry
from platform_defs.settings.settings import settings


@dataclass(frozen=True)
class ReadOnlySchemas:
    """See engine.ports.schema_ports.SchemaFinder. Asks the ledger, if there is one, then the registry."""

    contract: Contract
    address: Registry | None  # None: there is no registry
    ledger: SchemaLedger | None = None
    opened: tuple[Generation, ...] = ()  # the pipeline's, ascending; none without a ledger
    topic_id: str | None = None

    def generations(self, partition: int) -> Sequence[tuple[int, int]]:
        return generations_of(self.opened, self.topic_id, partition)

    def find(self, generation: int, keys: Sequence[str]) -> Mapping[str, WriterSchema | None]:
        """See engine.ports.schema_ports.SchemaFinder. Raises RegistryAway, LedgerAway, and BadInput if a schema is not
        in the ledger and there is no registry.
        """
        found: dict[str, WriterSchema | None] = dict.fromkeys(keys)
        if self.ledger is not None:
            found |= self.ledger.known(generation, keys)
        missing = [key for key, schema in found.items() if schema is None and is_possible(key)]
        newest = self.opened[-1].number if self.opened else 1
        if not missing or generation != newest:  # a replaced registry cannot be asked
            return found
        if self.address is None:
            raise BadInput(
                f"messages use schema {missing[0]}, which is not in the ledger, and no schema registry is configured: "
                "set TIDEGATE_REGISTRY_URL, or start the embedded one (tidegate stack up --registry)"
            )
        return found | client_of(self.address).lookup(missing, RUN, self.contract.wire.subject)


def readonly_schemas(
    contract: Contract,
    address: Registry | None,
    ledger_url: str | None,
    topic_id: str | None,
    note: Callable[[str], None],
) -> ReadOnlySchemas:
    """Return the schema lookup for messages of the contract. `note` gets a sentence if the ledger cannot be asked; then
    only the registry is.
    """
    alone = ReadOnlySchemas(contract, address)
    if ledger_url is None:
        return alone
    ledger = SchemaLedger(ledger_url, registry_scope(settings().registry_name, contract.wire.subject))
    try:
        opened = ledger.generations(contract.pipeline)
    except (LedgerAway, LedgerMissing, LedgerOutdated) as error:
        note(f"schemas come only from the registry: {error}")
        return alone
    return replace(alone, ledger=ledger, opened=opened, topic_id=topic_id)
