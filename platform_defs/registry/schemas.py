"""The lookup of the schemas that messages name: in the process's memory, the ledger, and at last the registry.

`lookup` queries the registry for new ones; `comparison` checks that it is still the same registry.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from platform_defs.contract.model.contract import Contract
from platform_defs.errors import BadInput, LedgerAway, LedgerMissing, LedgerOutdated, RegistryAway, SchemasNotGiven
from platform_defs.errors.halts import RegistrySwitched
from platform_defs.formats.blocks.schema_cache import SchemaCache
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.ledger.published import SchemaCount
from platform_defs.ledger.schema_ledger import Generation, SchemaInUse, SchemaLedger, registry_scope
from platform_defs.offsets import OffsetRange
from platform_defs.registry.client import client_of, is_possible
from platform_defs.registry.comparison import Comparison
from platform_defs.registry.lookup import Lookup
from platform_defs.registry.policy import RAISE, REPLAY, RUN
from platform_defs.settings.registry_address import Registry
from platform_defs.settings.settings import settings

PAUSES = (2.5, 2.5)  # seconds between three queries for an id that the registry does not have: a follower may lag
SHARE = 8  # a task asks for such ids for an eighth of a batch's time, since Spark tries it four times

_kept = SchemaCache[WriterSchema]()  # this process's cache


@dataclass(frozen=True)
class RegistrySchemas:
    """See engine.interfaces.schema_finder.Schemas. Picklable; each task gets its own."""

    ledger: SchemaLedger
    opened: tuple[Generation, ...]  # the pipeline's, ascending
    topic_id: str | None  # id of the log that is read; None if the pipeline has none yet
    lookup: Lookup
    in_use: tuple[SchemaInUse, ...] = ()  # schemas in the newest batches, and others kept from the registry
    unknown: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])

    @property
    def registry(self) -> str:
        return self.ledger.registry

    def generations(self, partition: int) -> list[tuple[int, int]]:
        return generations_of(self.opened, self.topic_id, partition)

    def find(self, generation: int, keys: Sequence[str]) -> Mapping[str, WriterSchema | None]:
        found = {key: schema for key in keys if (schema := _kept.get(self._place(generation, key)))}
        rest = [key for key in keys if key not in found and is_possible(key) and (generation, key) not in self.unknown]
        if rest:
            found |= self._remember(generation, self.ledger.known(generation, rest))
            missing = [key for key in rest if key not in found]
            if missing and generation == self._newest:  # a replaced registry cannot be asked
                asked = self.lookup.ask(missing)
                if asked and self._is_believed():
                    found |= self._remember(generation, self.ledger.keep(generation, list(asked.values())))
            self.unknown.update((generation, key) for key in missing if key not in found)
        return {key: found.get(key) for key in keys}

    def accepting(self) -> "RegistrySchemas":
        return replace(self, lookup=self.lookup.accepting())

    def switched(self) -> RegistrySwitched | None:
        compares = not self.lookup.policy.replays and self._comparison
        return compares.of_those_in_use() if compares else None

    def switched_since(self, named: Iterable[SchemaCount]) -> RegistrySwitched | None:
        compares = not self.lookup.policy.replays and self._comparison
        return compares.of_those_named(named) if compares else None

    def is_familiar(self) -> bool:
        if self.lookup.policy.replays:
            return True
        client = self.lookup.client()
        if self._comparison and self._comparison.holds_for_any(client):
            return True
        if self.in_use:
            return False  # another registry may have a subject of this name
        try:
            return client.has_versions(self.lookup.subject)
        except RegistryAway as away:
            if not client.is_there(self.lookup.subject):
                raise self.lookup.of_messages(away) from None
            return False  # it refuses only the subject, and permanently

    def forgotten(self, ranges: Sequence[OffsetRange], named: Iterable[SchemaCount]) -> Sequence[str]:
        if not self.lookup.policy.replays:
            return ()
        wanted, found = dict[int, set[str]](), {(one.generation, one.key) for one in named}
        for registry, generation, key in self.ledger.named_in(self.lookup.pipeline, self.topic_id, ranges):
            now = generation if registry == self.registry else self._newest
            if (now, key) not in found:
                wanted.setdefault(now, set()).add(key)
        asked = (self.find(generation, sorted(keys)) for generation, keys in wanted.items())
        return sorted(key for schemas in asked for key, schema in schemas.items() if schema is None)

    @property
    def _newest(self) -> int:
        return self.opened[-1].number if self.opened else 1

    @cached_property
    def _comparison(self) -> Comparison | None:
        """The comparison; None if there is no registry."""
        address = self.lookup.address
        return address and Comparison(self.ledger, self._newest, address, self.lookup.subject, self.in_use)

    def _is_believed(self) -> bool:
        """Return True if the registry's answers are consistent with its earlier ones; False if that is unknown, and
        messages without a schema become dead letters. Raises RegistryAway, SchemasNotGiven.
        """
        if self._comparison is None:
            return True
        client, address, pipeline = self.lookup.client(), str(self.lookup.address), self.lookup.pipeline
        agrees = self._comparison.agrees(client)
        if agrees is False:
            raise RegistryAway(  # another registry's answers are not kept with these
                f"the schema registry at {address} returns different schemas for ids that were in use when the run "
                "began. Nothing was published. The next run checks again, and halts if they still differ"
            )
        if agrees is None and not client.is_there(self.lookup.subject):
            message, seconds = "it returned a new one, and then stopped answering", client.registry.patience
            advice = settings().registry_advice
            away = RegistryAway.asked(address, "the schemas in use", seconds, message, None, advice, refused=False)
            raise self.lookup.of_messages(away)
        if agrees is None and self.lookup.policy.doubtful is RAISE:
            raise SchemasNotGiven.of(
                pipeline,
                f"the schema registry at {address} has a new schema but none of the schemas in use: it may be a "
                "different registry, or one that was emptied. Correct TIDEGATE_REGISTRY_URL, or restore the registry. "
                f"If it is the right one, record its schemas in the ledger: tidegate schema fetch {pipeline}",
            )
        return agrees is not None

    def _remember(self, generation: int, found: Mapping[str, WriterSchema]) -> Mapping[str, WriterSchema]:
        for key, schema in found.items():
            _kept.put(self._place(generation, key), schema, schema.size)
        return found

    def _place(self, generation: int, key: str) -> tuple[str, str, int, str]:
        return self.ledger.url, self.ledger.registry, generation, key


def generations_of(opened: Iterable[Generation], topic_id: str | None, partition: int) -> list[tuple[int, int]]:
    """See engine.interfaces.schema_finder.Schemas."""
    starts = {0: 1}  # for generations that begin at the same offset, the newest
    for one in opened:
        here = one.topic_id is not None and one.topic_id == topic_id
        starts[one.from_offsets.get(partition, 0) if here else 0] = one.number
    return sorted(starts.items())


def schemas_of(
    contract: Contract,
    pipeline: str,
    ledger_url: str,
    address: Registry | None,
    topic_id: str | None,
    *,
    replays: bool = False,
) -> RegistrySchemas:
    """Return the schema lookup for messages of `contract`. `pipeline` is the one whose generations count: for a replay,
    the live one. `topic_id` is that of the log. Raises LedgerAway.
    """
    ledger = SchemaLedger(ledger_url, registry_scope(settings().registry_name, contract.wire.subject))
    ledger.begin(pipeline)
    opened = ledger.generations(pipeline)
    in_use = ledger.in_use(pipeline, opened[-1].number)
    limit = settings().batch_timeout_seconds / SHARE
    policy = REPLAY if replays else RUN
    lookup = Lookup(address, contract.wire.subject, pipeline, policy, PAUSES, limit)
    return RegistrySchemas(ledger, opened, topic_id, lookup, in_use)


@dataclass(frozen=True)
class ReadOnlySchemas:
    """See engine.interfaces.schema_finder.SchemaFinder. Queries the ledger, if there is one, then the registry. For a
    read-only command: nothing is kept, and no ledger is needed.
    """

    contract: Contract
    address: Registry | None  # None: there is no registry
    ledger: SchemaLedger | None = None
    opened: tuple[Generation, ...] = ()  # the pipeline's, ascending; none without a ledger
    topic_id: str | None = None

    def generations(self, partition: int) -> Sequence[tuple[int, int]]:
        return generations_of(self.opened, self.topic_id, partition)

    def find(self, generation: int, keys: Sequence[str]) -> Mapping[str, WriterSchema | None]:
        """See engine/interfaces/schema_finder.py.

        Raises RegistryAway, LedgerAway, and BadInput if a schema is not in the ledger and there is no registry.
        """
        found: dict[str, WriterSchema | None] = dict.fromkeys(keys)
        if self.ledger is not None:
            found |= self.ledger.known(generation, keys)
        missing = [key for key, schema in found.items() if schema is None and is_possible(key)]
        newest = self.opened[-1].number if self.opened else 1
        if not missing or generation != newest:  # a replaced registry cannot be queried
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
    """Return the schema lookup for messages of the contract. `note` gets a sentence if the ledger cannot be queried;
    then only the registry is.
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
