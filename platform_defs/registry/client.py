"""Queries a Confluent-compatible registry for schemas: the schema, nothing, or RegistryAway within half a minute.

Only the REST calls of confluent-kafka's client are used: fail-over, waiting and the meaning of answers are here, since
that client waits forever by default, and takes any 404 (a proxy's, say) for "no such schema".
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from math import inf
from threading import Event
from typing import Any, TypeVar, cast
from urllib.parse import quote

from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError

from platform_defs.contract.model.contract import Format
from platform_defs.contract.odcs_writer import context_of
from platform_defs.errors import BadInput, RegistryAway
from platform_defs.formats.blocks.excerpt import excerpt
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.registry.answers import is_missing, is_refusal, knows_no_guids
from platform_defs.registry.cooldown import Cooldown
from platform_defs.registry.policy import MISSING, RAISE, Policy
from platform_defs.registry.server import Server, Unreadable, request
from platform_defs.settings.registry_address import Pace, Registry
from platform_defs.settings.settings import settings

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

AT_ONCE = 8  # queries
MAX_REFERENCES = 500  # of a schema, with indirect ones
LARGEST_ID = 2**31 - 1  # for a larger one, Confluent's registry answers as for a wrong address: 404
_FORMATS: Mapping[str, Format] = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "json"}


@dataclass(frozen=True)
class _Asking:
    """A query that is retried until an answer comes: for how long, and whether it is still wanted."""

    until: float  # by time.monotonic()
    patience: float  # seconds
    one_try: float  # seconds
    rounds: float = inf  # tries of each address
    given_up: Event = field(default_factory=Event)
    refused_after: float = inf  # by time.monotonic(): until then a refusal counts as a transient fault


class RegistryClient:
    """One process's client of a registry. Its queries raise RegistryAway if no answer comes in time."""

    def __init__(self, registry: Registry) -> None:
        """Raise BadInput for options that the client does not take."""
        self.registry, self._silent = registry, Cooldown()
        try:
            self._servers = [Server({**registry.options, "url": url}, registry.pace.one_try) for url in registry.urls]
        except (ValueError, TypeError, OSError) as error:
            message = self._without_secrets(str(error))
            raise BadInput(f"the registry client rejects its options: {message}", field="TIDEGATE_REGISTRY_*") from None
        if not self._servers:
            raise BadInput("it has no address", field="TIDEGATE_REGISTRY_URL")

    def schema(self, key: str, subject: str = "") -> WriterSchema | None:
        """Return the schema of this id or GUID with all that it refers to; None if the registry has none, or one that
        no reader could use. `subject` gives the registry's context of the id.
        """
        return self._schema(key, subject, self._asking())

    def lookup(
        self, keys: Iterable[str], policy: Policy, subject: str = "", patience: float | None = None
    ) -> dict[str, WriterSchema | None]:
        """Return the schema of each key as `schema` does, several at once; `policy` says what follows for one that the
        registry does not answer. If it is an error, that ends the others; if a refusal is an answer, it is final after
        a second. `patience` is for all keys together; without it, each has the registry's.
        """
        names, together, given_up = list(keys), self._asking(patience), Event()

        def ask(key: str) -> list[WriterSchema | None]:
            asking = self._asking() if patience is None else together
            final = time.monotonic() + self.registry.pace.refused if policy.refused is MISSING else inf
            try:
                return [self._schema(key, subject, replace(asking, given_up=given_up, refused_after=final))]
            except RegistryAway as away:
                if (then := policy.consequence(away)) is RAISE:
                    raise
                return [None] if then is MISSING else []

        try:
            found = at_once(ask, names)
        finally:
            given_up.set()
        return {key: schema for key, schemas in zip(names, found, strict=True) for schema in schemas}

    def has_versions(self, subject: str) -> bool:
        """Return True if anything is registered under a subject."""
        path = f"subjects/{quote(subject, safe='')}/versions"
        found: Any = self._ask(f"the versions of {subject}", lambda client: request(client, path), self._asking())
        return isinstance(found, list) and found != []

    def hurried(self, seconds: float) -> "RegistryClient":
        """Return this process's client of the same registry that waits at most `seconds`."""
        return client_of(self.registry.hurried(seconds))

    def is_there(self, subject: str) -> bool:
        """Return True if the registry answers now, and soon, for an id that no schema has. Its answer about its types,
        or about an id in use, may come from a cache and not from its store. Each address is queried once: one that
        refuses the connection costs no time.
        """
        share = min(self.registry.pace.quickly, self.registry.patience) / len(self._servers)
        for server in self._servers:
            try:
                server.ask(lambda client: _named(client, str(LARGEST_ID), subject), share)
            except Exception as error:  # noqa: BLE001  # whatever the client makes of what is not an answer
                if not is_missing(error):
                    continue
            return True
        return False

    def _asking(self, patience: float | None = None) -> _Asking:
        seconds = self.registry.patience if patience is None else min(patience, self.registry.patience)
        return _Asking(time.monotonic() + seconds, seconds, self.registry.pace.one_try)

    def _schema(self, key: str, subject: str, asking: _Asking) -> WriterSchema | None:
        if not is_possible(key):
            return None
        of_guid = not key.isdecimal()
        found = self._ask(f"schema {key}", lambda client: _named(client, key, subject), asking, of_guid=of_guid)
        if found is None:
            return None
        references = dict[str, str]()
        kind = _FORMATS.get(found.get("schemaType") or "AVRO")
        if kind is None or not _is_text(found["schema"]):
            return None
        if not self._follow(found, context_of(subject), references, set(), asking):
            return None
        return WriterSchema(key, kind, found["schema"], tuple(references.items()), _is_encrypted(found))

    def _follow(
        self, schema: dict[str, Any], context: str, found: dict[str, str], seen: set[tuple[str, int]], asking: _Asking
    ) -> bool:
        """Add the references of `schema`, each before those that need it. A subject is in the context of what refers to
        it, unless it names another one. Return False if a reference is missing, or there are too many.
        """
        for reference in _objects(schema, "references"):
            name, version = reference.get("subject"), reference.get("version")
            if not isinstance(name, str) or not isinstance(version, int):
                return False
            place = name if context_of(name) else f"{context}{name}", version
            if place in seen:
                continue
            seen.add(place)
            below = self._ask(f"version {version} of {place[0]}", partial(_version, *place), asking)
            if below is None or len(seen) > MAX_REFERENCES or not _is_text(below["schema"]):
                return False
            if not self._follow(below, context_of(place[0]), found, seen, asking):
                return False
            found[str(reference.get("name"))] = below["schema"]
        return True

    def _ask(
        self, what: str, question: Callable[[SchemaRegistryClient], Any], asking: _Asking, *, of_guid: bool = False
    ) -> Any:
        """Return the answer of the first address that gives one; None if the answer is that there is no such thing. An
        address may not know GUIDs at all.
        """
        pause, tried, began = self.registry.pace.pause, 0, time.monotonic()
        while True:
            server = self._servers[tried % len(self._servers)]
            limit = max(0.1, min(asking.one_try, asking.until - time.monotonic()))
            try:
                return server.ask(question, limit)
            except BadInput:  # the registry refuses, as Subjects raises it: an answer
                raise
            except Exception as error:  # noqa: BLE001  # whatever the client makes of what is not an answer
                if is_missing(error) or (of_guid and knows_no_guids(server, error, limit)):
                    return self._elsewhere(server, question, limit)
                tried += 1
                until = asking.until if not is_refusal(error) else min(asking.until, asking.refused_after)
                if time.monotonic() + pause >= until or asking.given_up.is_set():
                    raise self._away(what, asking.patience, error) from None
                if tried >= asking.rounds * len(self._servers):
                    raise self._away(what, time.monotonic() - began, error) from None
            if tried % len(self._servers) == 0:
                asking.given_up.wait(pause)
                pause = min(2.0, pause * 2)

    def _elsewhere(self, asked: Server, question: Callable[[SchemaRegistryClient], Any], limit: float) -> Any:
        """Return the answer of an address other than `asked`, which has no such schema but may lag or know no GUIDs;
        None if none has it, whatever else they answer. A silent address is skipped for a minute: there may be many
        unknown ids.
        """
        for server in self._servers:
            if server is asked or self._silent.has(server):
                continue
            try:
                return server.ask(question, min(limit, self.registry.pace.again))
            except BadInput:  # as above
                raise
            except Exception as error:  # noqa: BLE001  # as above
                if not isinstance(error, (SchemaRegistryError, Unreadable)):
                    self._silent.note(server)
        return None

    def _away(self, what: str, seconds: float, error: Exception) -> RegistryAway:
        status = error.http_status_code if isinstance(error, SchemaRegistryError) else None
        message = excerpt(self._without_secrets(str(error) or type(error).__name__))
        advice, refused = settings().registry_advice, is_refusal(error)
        return RegistryAway.asked(str(self.registry), what, seconds, message, status, advice, refused=refused)

    def _without_secrets(self, text: str) -> str:
        for secret in self.registry.secrets:
            text = text.replace(secret, "***")
        return text


def at_once(question: Callable[[Asked], Answer], of: Sequence[Asked]) -> list[Answer]:
    """Return the answer for each, in their order, AT_ONCE queries at a time. Raises the error of the first to fail; the
    others are not waited for.
    """
    pool = ThreadPoolExecutor(AT_ONCE, "tidegate-registry")
    try:
        return list(pool.map(question, of))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def client_of(registry: Registry) -> RegistryClient:
    """Return this process's one client for a registry. Raises BadInput as RegistryClient does."""
    return _shared(os.getpid(), tuple(sorted(registry.options.items())), registry.patience, registry.pace)


@lru_cache(8)
def _shared(_process: int, options: tuple[tuple[str, str], ...], patience: float, pace: Pace) -> RegistryClient:
    return RegistryClient(Registry(dict(options), patience, pace))


def is_possible(key: str) -> bool:
    """Return True if a registry could have given this id: a positive int32. Any GUID is possible."""
    return not key.isdecimal() or 0 < int(key) <= LARGEST_ID


def _object(found: Any) -> dict[str, Any]:
    """Return a JSON object; an empty one for anything else."""
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _objects(of: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the JSON objects in a list of this name; none if there is no such list."""
    found = of.get(name)
    return [_object(one) for one in cast("list[Any]", found)] if isinstance(found, list) else []


def _named(client: SchemaRegistryClient, key: str, subject: str) -> dict[str, Any]:
    if key.isdecimal():
        query = {"subject": subject} if context_of(subject) else {}
        return _checked(request(client, f"schemas/ids/{int(key)}", query))
    return _checked(request(client, f"schemas/guids/{quote(key, safe='')}"))


def _version(subject: str, version: int, client: SchemaRegistryClient) -> dict[str, Any]:
    path = f"subjects/{quote(subject, safe='')}/versions/{version}"
    return _checked(request(client, path, {"deleted": True}))  # a deleted one too: what needs it is still served by id


def _checked(answer: Any) -> dict[str, Any]:
    """Return `answer`, if it is a schema: another server's JSON has none. Raises Unreadable."""
    found = _object(answer)
    if not isinstance(found.get("schema"), str):
        raise Unreadable("the answer contains no schema")
    return found


def _is_text(written: str) -> bool:
    """Return True if the ledger can store it: no NUL, no half of a surrogate pair."""
    return "\0" not in written and not any("\ud800" <= character <= "\udfff" for character in written)


def _is_encrypted(schema: dict[str, Any]) -> bool:
    """Return True if its rules encrypt fields or whole payloads: such messages contain ciphertext."""
    given = _object(schema.get("ruleSet"))
    every = [rule for name in ("domainRules", "encodingRules") for rule in _objects(given, name)]
    return any(str(rule.get("type")).startswith("ENCRYPT") and not rule.get("disabled") for rule in every)
