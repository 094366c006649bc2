"""Where the schemas that messages name are found: the process's memory, the ledger, and the registry at last."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from platform_defs.contract.model import Contract
from platform_defs.contract.written import context_of
from platform_defs.engine.schema_ports import SchemaCount
from platform_defs.errors import RegistryAway, SchemasNotGiven
from platform_defs.formats.kept import Kept
from platform_defs.formats.writer_schema import WriterSchema
from platform_defs.halts import RegistrySwitched
from platform_defs.offsets import OffsetRange
from resources.postgres.schema_ledger import Generation, SchemaInUse, SchemaLedger, digest
from resources.registry.address import Registry
from resources.registry.client import (
    RegistryClient,
    client_of,
    is_possible,
    name_in_ledger,
)
from resources.registry.lately import Lately

PAUSES = (2.5, 2.5)  # seconds between three questions for an id that nobody knows: a follower may lag behind
MOST_LAGGING = 200  # ids that are asked for again: a follower lags behind by few
MOST_UNKNOWN = 50_000  # ids that a task asks for in vain: about a minute
QUICKLY = 3.0  # seconds for questions that a run can do without
AGAIN = 1.0  # seconds for a question, where one was waited for in vain not long ago

# Of this process: what it knows, and when it last waited in vain for a registry's schema (as long as it could), in vain
# for a comparison, and found all schemas in use unchanged.
_kept = Kept[WriterSchema]()
_away, _silent, _compared = Lately(), Lately(), Lately()


@dataclass
class RegistrySchemas:
    """See engine.schema_ports.Schemas. Picklable; each task gets one of its own."""

    ledger: SchemaLedger
    opened: tuple[Generation, ...]  # of the pipeline, ascending
    topic_id: str | None  # of the log that is read; None where the pipeline has none yet
    address: Registry | None  # None: there is nobody to ask
    subject: str | None = None  # in whose context ids are meant; None: the default one
    in_use: tuple[SchemaInUse, ...] = ()  # what the newest batches named, and others of the registry that are kept
    pauses: tuple[float, ...] = PAUSES
    replays: bool = False  # messages that were read before, and are older than any follower's lag
    pipeline: str = ""  # the live one
    of_contract: str = ""  # the contract's subject
    accepts: bool = False  # messages whose schema is not given as dead letters
    unknown: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    in_vain: int = 0  # ids that the registry was asked for and does not have
    waited: bool = False  # once a task has, its messages are older than any follower's lag
    digests: dict[str, str] = field(default_factory=dict[str, str])  # by key, of the newest generation

    @property
    def registry(self) -> str:
        """See engine.schema_ports.Schemas."""
        return self.ledger.registry

    def generations(self, partition: int) -> list[tuple[int, int]]:
        """See engine.schema_ports.Schemas."""
        starts = {0: 1}  # of generations that begin at the same offset, the newest
        for one in self.opened:
            here = one.topic_id is not None and one.topic_id == self.topic_id
            starts[one.from_offsets.get(partition, 0) if here else 0] = one.number
        return sorted(starts.items())

    def find(self, generation: int, keys: Sequence[str]) -> Mapping[str, WriterSchema | None]:
        """See engine.schema_ports.Schemas."""
        found = {key: schema for key in keys if (schema := _kept.get(self._place(generation, key)))}
        if rest := [key for key in keys if key not in found and self._may_be_known(generation, key)]:
            found |= self._remember(generation, self.ledger.known(generation, rest))
            missing = [key for key in rest if key not in found]
            if missing and generation == self._newest:  # a registry that was replaced cannot be asked
                found |= self._asked(generation, missing)
            self.unknown |= {(generation, key) for key in missing if key not in found}
        return {key: found.get(key) for key in keys}

    def accepting(self) -> "RegistrySchemas":
        """See engine.schema_ports.Schemas."""
        return replace(self, accepts=True)

    def switched(self) -> RegistrySwitched | None:
        """See engine.schema_ports.Schemas."""
        asked = str(self.address), self.registry, *self.in_use
        if _silent.has(str(self.address)) or _compared.has(asked):
            return None
        now = self._as_they_are_now(self.in_use)
        if now and all(now.values()) and not _changed(self.in_use, now):  # one that is gone may come back as another
            _compared.note(asked)
        return self._judged(self.in_use, now)

    def switched_since(self, named: Iterable[SchemaCount]) -> RegistrySwitched | None:
        """See engine.schema_ports.Schemas."""
        keys = {one.key for one in named if one.generation == self._newest}
        if not keys or self.replays or self.address is None:
            return None
        if new := keys - self.digests.keys():
            self.digests |= self.ledger.digests(self._newest, new)
        known = [SchemaInUse(key, self.digests[key]) for key in sorted(keys & self.digests.keys())]
        return self._judged(known, self._as_they_are_now(known))

    def is_familiar(self) -> bool:
        """See engine.schema_ports.Schemas."""
        if self.replays:
            return True
        client = self._client()
        now = client.answered([one.key for one in self.in_use], self.subject, QUICKLY)
        if any((found := now.get(one.key)) and digest(found) == one.sha256 for one in self.in_use):
            return True
        if self.in_use:
            return False  # another registry may have a subject of this name
        try:
            return client.has_versions(self.of_contract)
        except RegistryAway:
            if not self._is_there(client):
                raise
            return False  # it refuses the subject alone, and not for a while

    def forgotten(self, ranges: Sequence[OffsetRange], named: Iterable[SchemaCount]) -> Sequence[str]:
        """See engine.schema_ports.Schemas."""
        if not self.replays:
            return ()
        wanted, found = dict[int, set[str]](), {(one.generation, one.key) for one in named}
        for registry, generation, key in self.ledger.named_in(self.pipeline, self.topic_id, ranges):
            now = generation if registry == self.registry else self._newest
            if (now, key) not in found:
                wanted.setdefault(now, set()).add(key)
        asked = (self.find(generation, sorted(keys)) for generation, keys in wanted.items())
        return sorted(key for schemas in asked for key, schema in schemas.items() if schema is None)

    @property
    def _newest(self) -> int:
        return self.opened[-1].number if self.opened else 1

    def _may_be_known(self, generation: int, key: str) -> bool:
        return is_possible(key) and (generation, key) not in self.unknown

    def _asked(self, generation: int, keys: Sequence[str]) -> Mapping[str, WriterSchema]:
        """What the registry says of these, kept in the ledger. Raises RegistryAway, SchemasNotGiven."""
        if self.in_vain + len(keys) > MOST_UNKNOWN and not (self.accepts or self.replays):
            raise SchemasNotGiven.too_many(self.pipeline, MOST_UNKNOWN)
        if self.replays and self.address is None:
            return {}  # what no run has known: the ledger has the rest
        client = self._client(keys[0])
        try:
            found = self._ask(client, keys)
            if found and _changed(self.in_use, client.given(_ids(self.in_use), self.subject, QUICKLY)):
                raise RegistryAway.another(str(self.address))  # what it says now is not kept among what it said before
        except RegistryAway:
            if not _away.has(str(self.address)):
                _away.note(str(self.address))
            raise
        return self._remember(generation, self.ledger.keep(generation, list(found.values()))) if found else {}

    def _ask(self, client: RegistryClient, keys: Sequence[str]) -> dict[str, WriterSchema]:
        """Those that there are. The first that a task misses are asked for three times; of many the smallest, since a
        registry counts its ids from 1.
        """
        answers = dict(self._answers(client, keys))
        for pause in () if self.replays or self.waited else self.pauses:
            missing = sorted((key for key, schema in answers.items() if not schema), key=lambda key: (len(key), key))
            if not missing:
                break
            self.waited = True
            time.sleep(pause)  # no registry says when a follower has caught up
            answers |= self._answers(client, missing[:MOST_LAGGING])
        found = {key: schema for key, schema in answers.items() if schema}
        self.in_vain += len(keys) - len(found)
        return found

    def _answers(self, client: RegistryClient, keys: Sequence[str]) -> Mapping[str, WriterSchema | None]:
        """What the registry says of these ids. One that it refuses, while it answers others, is no answer that comes
        some time: a fault of that id, or None where such messages are dead letters.
        """
        try:
            return client.schemas(keys, self.subject)
        except RegistryAway as away:
            if not self._is_of_one(client, away):
                raise
            return self._each_of(client, keys, away)

    def _each_of(
        self, client: RegistryClient, keys: Sequence[str], away: RegistryAway
    ) -> Mapping[str, WriterSchema | None]:
        """As `_answers`, of a registry that is there. It may have been away until now, so these are asked for again;
        but not as long: it has just been waited for.
        """
        quick = _less_patient(client, QUICKLY)
        if self.accepts or self.replays:
            answers = quick.given(keys, self.subject, silence=self.accepts)
            if not all(answers.values()) and not self._is_there(client):  # it went away meanwhile
                raise away
            return answers
        try:
            return quick.schemas(keys, self.subject)
        except RegistryAway as again:
            if not self._is_of_one(client, again):
                raise
            raise SchemasNotGiven.refused(self.pipeline, again.seen) from again

    def _is_of_one(self, client: RegistryClient, away: RegistryAway) -> bool:
        """Whether the registry refuses the one schema, or is silent about it, while it answers for others."""
        return (away.refused or away.status is None) and self._is_there(client)

    def _is_there(self, client: RegistryClient) -> bool:
        return client.is_there(self.subject, min(QUICKLY, client.registry.patience))

    def _client(self, key: str = "") -> RegistryClient:
        """The registry's, with less patience where this process has just waited in vain."""
        if self.address is None:
            raise RegistryAway.nowhere(f"schema {key}" if key else "a schema")
        client = client_of(self.address)
        in_haste = _away.has(str(self.address)) or _is_another_try()
        return _less_patient(client, AGAIN) if in_haste else client

    def _as_they_are_now(self, known: Iterable[SchemaInUse]) -> Mapping[str, WriterSchema | None]:
        """What ids mean now, of those of which the registry says so in time."""
        ids = _ids(known)
        if self.address is None or self.replays or not ids:
            return {}
        patience = AGAIN if _silent.has(str(self.address)) else QUICKLY
        answers = client_of(self.address).answered(ids, self.subject, patience)
        if not answers:
            _silent.note(str(self.address))
        return answers

    def _judged(self, known: Iterable[SchemaInUse], now: Mapping[str, WriterSchema | None]) -> RegistrySwitched | None:
        changed = _changed(known, now)
        return RegistrySwitched(self.registry, tuple(changed)) if changed else None

    def _remember(self, generation: int, found: Mapping[str, WriterSchema]) -> Mapping[str, WriterSchema]:
        for key, schema in found.items():
            _kept.put(self._place(generation, key), schema, schema.size)
        return found

    def _place(self, generation: int, key: str) -> tuple[str, str, int, str]:
        return self.ledger.url, self.ledger.registry, generation, key


def _less_patient(client: RegistryClient, seconds: float) -> RegistryClient:
    """The client of the same registry that waits no longer than so many seconds for an answer."""
    return client_of(replace(client.registry, patience=min(client.registry.patience, seconds)))


def _is_another_try() -> bool:
    """Whether Spark repeats the task, in a new process: the first try has waited."""
    from pyspark import TaskContext  # loaded wherever tasks run

    task = TaskContext.get()
    return task is not None and task.attemptNumber() > 0


def _ids(known: Iterable[SchemaInUse]) -> list[str]:
    """Those that can come to mean something else: a GUID cannot."""
    return [one.key for one in known if one.key.isdecimal()]


def _changed(known: Iterable[SchemaInUse], now: Mapping[str, WriterSchema | None]) -> list[str]:
    """Those that mean something else now. One that is gone may come back."""
    return [one.key for one in known if (found := now.get(one.key)) and digest(found) != one.sha256]


def schemas_of(
    contract: Contract,
    pipeline: str,
    ledger_url: str,
    name: str,
    address: Registry | None,
    topic_id: str | None,
    *,
    replays: bool = False,
) -> RegistrySchemas:
    """Where the messages of `contract` find their schemas. `pipeline` is the one whose generations count: of a replay,
    the live one. `topic_id` is that of the log. Raises LedgerAway.
    """
    ledger = SchemaLedger(ledger_url, name_in_ledger(name, contract.wire.subject))
    ledger.begin(pipeline)
    opened = ledger.generations(pipeline)
    in_use = ledger.in_use(pipeline, opened[-1].number)
    of_contract = contract.wire.subject
    subject = of_contract if context_of(of_contract) else None
    return RegistrySchemas(ledger, opened, topic_id, address, subject, in_use, PAUSES, replays, pipeline, of_contract)
