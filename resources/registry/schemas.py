"""Where the schemas that messages name are found: the process's memory, the ledger, and the registry at last."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from platform_defs.contract.model import Contract
from platform_defs.errors import RegistryAway
from platform_defs.formats.writer_schema import WriterSchema
from platform_defs.halts import RegistrySwitched
from resources.postgres.schema_ledger import Generation, SchemaInUse, SchemaLedger, digest
from resources.registry.address import Registry
from resources.registry.client import RegistryClient

PAUSES = (2.5, 2.5)  # seconds between three questions for an id that nobody knows: a follower may lag behind
MOST_UNKNOWN = 1_000  # ids that a task asks the registry for in vain; of what garbage names after them, nobody is asked
QUICKLY = 3.0  # seconds for a question that a run can do without
AGAIN, RECENT = 1.0, 60.0  # seconds: for a question, where the last one was waited for in vain not longer ago

Place = tuple[str, str, int, str]  # ledger, registry, generation, key

_kept: dict[Place, WriterSchema] = {}  # of this process: what is known stays as it is
_MOST_KEPT = 2_000
_away: dict[str, float] = {}  # when this process last found the registry away
_compared: set[tuple[str, str, tuple[SchemaInUse, ...]]] = set()  # what this process has compared: once a run


@dataclass
class RegistrySchemas:
    """See engine.ports.Schemas. Picklable; each task gets one of its own."""

    ledger: SchemaLedger
    opened: tuple[Generation, ...]  # of the pipeline, ascending
    topic_id: str | None  # of the log that is read; None where the pipeline has none yet
    address: Registry | None  # None: there is nobody to ask
    subject: str | None = None  # in whose context ids are meant; None: the default one
    in_use: tuple[SchemaInUse, ...] = ()  # what the newest batches named
    pauses: tuple[float, ...] = PAUSES
    unknown: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    compared: bool = False

    @property
    def registry(self) -> str:
        """See engine.ports.Schemas."""
        return self.ledger.registry

    def generations(self, partition: int) -> list[tuple[int, int]]:
        """See engine.ports.Schemas."""
        starts = {0: 1}  # of generations that begin at the same offset, the newest
        for one in self.opened:
            here = one.topic_id is not None and one.topic_id == self.topic_id
            starts[one.from_offsets.get(partition, 0) if here else 0] = one.number
        return sorted(starts.items())

    def find(self, generation: int, keys: Sequence[str]) -> Mapping[str, WriterSchema | None]:
        """See engine.ports.Schemas."""
        found = {key: _kept[place] for key in keys if (place := self._place(generation, key)) in _kept}
        rest = [key for key in keys if key not in found and (generation, key) not in self.unknown]
        if rest:
            found |= self._remember(generation, self.ledger.known(generation, rest))
            found |= self._asked(generation, [key for key in rest if key not in found])
        return {key: found.get(key) for key in keys}

    def switched(self) -> RegistrySwitched | None:
        """See engine.ports.Schemas."""
        asked = str(self.address), self.registry, self.in_use
        if asked in _compared:
            return None
        try:
            changed = self._changed(QUICKLY)
        except RegistryAway:
            return None
        if not changed:
            _compared.add(asked)
            return None
        return RegistrySwitched(self.registry, tuple(changed))

    def is_familiar(self) -> bool:
        """See engine.ports.Schemas."""
        client = self._client()
        return any((now := client.schema(one.key, self.subject)) and digest(now) == one.sha256 for one in self.in_use)

    def _asked(self, generation: int, keys: Sequence[str]) -> Mapping[str, WriterSchema]:
        """What the registry says of these, kept in the ledger. Raises RegistryAway."""
        if not keys or len(self.unknown) >= MOST_UNKNOWN:
            return {}
        client = self._client(keys[0])
        try:
            self._refuse_switched()
            found = self._ask(client, keys[: MOST_UNKNOWN - len(self.unknown)])
        except RegistryAway:
            _away[str(self.address)] = time.monotonic()
            raise
        self.unknown |= {(generation, key) for key in keys if key not in found}
        return self._remember(generation, self.ledger.keep(generation, list(found.values()))) if found else {}

    def _ask(self, client: RegistryClient, keys: Sequence[str]) -> dict[str, WriterSchema]:
        found, missing = dict[str, WriterSchema](), list(keys)
        for pause in (*self.pauses, None):
            for key in missing:
                if schema := client.schema(key, self.subject):
                    found[key] = schema
            missing = [key for key in missing if key not in found]
            if not missing or pause is None:
                break
            time.sleep(pause)
        return found

    def _client(self, key: str = "") -> RegistryClient:
        if self.address is None:
            raise RegistryAway.nowhere(f"schema {key}" if key else "a schema")
        return RegistryClient(_impatient(self.address))

    def _refuse_switched(self) -> None:
        """Raise where the registry became another one since the run began: the next one halts for it."""
        if not self.compared and self._changed():
            raise RegistryAway.another(str(self.address))
        self.compared = True

    def _changed(self, patience: float | None = None) -> list[str]:
        """Those of the ids in use that mean something else now. One that is gone may come back."""
        if self.address is None or not self.in_use:
            return []
        client = RegistryClient(replace(self.address, patience=patience) if patience else _impatient(self.address))
        known = {one.key: client.schema(one.key, self.subject) for one in self.in_use}
        return [one.key for one in self.in_use if (now := known[one.key]) and digest(now) != one.sha256]

    def _remember(self, generation: int, found: Mapping[str, WriterSchema]) -> Mapping[str, WriterSchema]:
        if len(_kept) + len(found) > _MOST_KEPT:
            _kept.clear()
        _kept.update({self._place(generation, key): schema for key, schema in found.items()})
        return found

    def _place(self, generation: int, key: str) -> Place:
        return self.ledger.url, self.ledger.registry, generation, key


def _impatient(address: Registry) -> Registry:
    """The same, with less patience where this process has just waited in vain: Spark tries a failed task again."""
    since = time.monotonic() - _away.get(str(address), -inf)
    return replace(address, patience=min(address.patience, AGAIN)) if since < RECENT else address


def schemas_of(
    contract: Contract, pipeline: str, ledger_url: str, name: str, address: Registry | None, topic_id: str | None
) -> RegistrySchemas:
    """Where the messages of `contract` find their schemas. `pipeline` is the one whose generations count: of a replay,
    the live one. `topic_id` is that of the log. Raises LedgerAway.
    """
    context = context_of(contract.wire.subject)
    ledger = SchemaLedger(ledger_url, f"{name}{context}")
    ledger.begin(pipeline)
    opened = ledger.generations(pipeline)
    in_use = ledger.in_use(pipeline, opened[-1].number)
    subject = contract.wire.subject if context else None
    return RegistrySchemas(ledger, opened, topic_id, address, subject, in_use, PAUSES)


def context_of(subject: str) -> str:
    """The registry's context in a subject (`:.bank:` of `:.bank:transfers`); empty for the default one.

    https://docs.confluent.io/platform/current/schema-registry/schema-linking-cp.html#contexts
    """
    return f"{subject[: subject.index(':', 1) + 1]}" if subject.startswith(":.") and ":" in subject[1:] else ""
