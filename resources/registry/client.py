"""Asks a Confluent-compatible registry for schemas: the schema, nothing, or RegistryAway within half a minute.

Of confluent-kafka's client only the REST calls are used: fail-over, waiting and what an answer means are here, since
that client waits for ever by default, and takes any 404 (a proxy's, say) for "no such schema".
"""

import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError

from platform_defs import verdicts
from platform_defs.contract.model import Format
from platform_defs.errors import BadInput, RegistryAway
from platform_defs.formats.excerpt import excerpt
from platform_defs.formats.writer_schema import WriterSchema
from platform_defs.verdicts import Verdict
from resources.registry.address import Registry

Answer = TypeVar("Answer")

ONE_TRY = 5.0  # seconds for one request: what comes later, or byte by byte, is not waited for
PAUSE = 0.2  # seconds before the second try; then twice as long each time, up to two seconds
MOST_REFERENCES = 500  # of a schema, theirs included
MISSING = (
    40401,
    40402,
    40403,
)  # subject, version, schema: https://docs.confluent.io/platform/current/schema-registry/develop/api.html#errors
LARGEST_ID = 2**31 - 1  # of a larger one, Confluent's registry says what it says of a wrong address: 404
_FORMATS: Mapping[str, Format] = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "json"}
_NUMBERS = (
    "timeout",
    "cache.capacity",
    "cache.latest.ttl.sec",
    "max.retries",
    "retries.wait.ms",
    "retries.max.wait.ms",
)


class RegistryClient:
    """One process's client of a registry. Its questions raise RegistryAway where no answer comes in time."""

    def __init__(self, registry: Registry) -> None:
        """Raises BadInput for options that the client does not take."""
        self.registry = registry
        try:
            self._clients = [_client({**registry.options, "url": url}) for url in registry.urls]
        except (ValueError, TypeError, OSError) as error:
            said = self._without_secrets(str(error))
            raise BadInput(f"the registry's client refuses its options: {said}", field="TIDEGATE_REGISTRY_*") from None
        if not self._clients:
            raise BadInput("it names no address", field="TIDEGATE_REGISTRY_URL")

    def schema(self, key: str, subject: str | None = None) -> WriterSchema | None:
        """The schema of this id or GUID with all that it refers to; None where the registry has none, or one that no
        reader could use. `subject` says in which of the registry's contexts the id is meant.
        """
        if key.isdecimal() and int(key) > LARGEST_ID:
            return None
        found = self._ask(f"schema {key}", lambda client: _named(client, key, subject), key)
        if found is None:
            return None
        references = dict[str, str]()
        kind = _FORMATS.get(found.schema_type or "AVRO")
        if kind is None or not _is_text(found.schema_str) or not self._follow(found, references, set()):
            return None
        return WriterSchema(key, kind, found.schema_str, tuple(references.items()), _is_encrypted(found))

    def _follow(self, schema: Any, found: dict[str, str], seen: set[tuple[str, int]]) -> bool:
        """Add what `schema` refers to, each before those that need it. False where one is missing, or there is no end
        to them.
        """
        for reference in schema.references or ():
            place = (str(reference.subject), int(reference.version))
            if place in seen:
                continue
            seen.add(place)
            below = self._ask(f"version {place[1]} of {place[0]}", lambda client, at=place: _version(client, *at))
            if below is None or len(seen) > MOST_REFERENCES or not _is_text(below.schema_str):
                return False
            if not self._follow(below, found, seen):
                return False
            found[str(reference.name)] = below.schema_str
        return True

    def _ask(self, what: str, question: Callable[[SchemaRegistryClient], Any], key: str = "0") -> Any:
        """The schema, of whichever address gives one first; None where the answer is that there is none."""
        until, pause, tried = time.monotonic() + self.registry.patience, PAUSE, 0
        while True:
            client = self._clients[tried % len(self._clients)]
            try:
                limit = max(0.1, min(ONE_TRY, until - time.monotonic()))
                return within(limit, lambda client=client: question(client))
            except Exception as error:  # noqa: BLE001  # whatever the client makes of what is not an answer
                if _is_missing(error, key):
                    return None
                tried += 1
                if time.monotonic() + pause >= until:
                    raise self._away(what, error) from None
            if tried % len(self._clients) == 0:
                time.sleep(pause)
                pause = min(2.0, pause * 2)

    def _away(self, what: str, error: Exception) -> RegistryAway:
        status = error.http_status_code if isinstance(error, SchemaRegistryError) else None
        said = excerpt(self._without_secrets(str(error) or type(error).__name__))
        return RegistryAway.asked(str(self.registry), what, self.registry.patience, said, status)

    def _without_secrets(self, text: str) -> str:
        for secret in self.registry.secrets:
            text = text.replace(secret, "***")
        return text


def within(seconds: float, call: Callable[[], Answer]) -> Answer:
    """What `call` returns or raises; TimeoutError after so many seconds, however slowly the other side goes on."""
    answered: SimpleQueue[tuple[bool, Any]] = SimpleQueue()

    def ask() -> None:
        try:
            answered.put((True, call()))
        except Exception as error:  # noqa: BLE001  # raised where it is waited for
            answered.put((False, error))

    Thread(target=ask, daemon=True, name="tidegate-registry").start()
    try:
        good, answer = answered.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"no whole answer within {seconds:.0f} s") from None
    if not good:
        raise answer
    return answer


def _client(options: Mapping[str, str]) -> SchemaRegistryClient:
    given = {name: float(value) if name in _NUMBERS else value for name, value in options.items()}
    return SchemaRegistryClient({"timeout": ONE_TRY, "max.retries": 0, **given})


def _named(client: SchemaRegistryClient, key: str, subject: str | None) -> Any:
    client.clear_caches()  # what an id means is asked to learn whether it still means that
    found: Any = client.get_schema(int(key), subject) if key.isdecimal() else client.get_schema_by_guid(key)
    return _checked(found)


def _version(client: SchemaRegistryClient, subject: str, version: int) -> Any:
    found: Any = client.get_version(subject, version, True)  # a deleted one too: what needs it is still served by id
    return _checked(found.schema)


def _checked(found: Any) -> Any:
    """`found`, if it is a schema: another server's JSON has none. Raises ValueError."""
    if not isinstance(found.schema_str, str):
        raise ValueError("the answer holds no schema")  # no type of ours is wrong
    return found


def _is_text(written: str) -> bool:
    """Whether the ledger can hold it: no NUL, no half of a surrogate pair."""
    return "\0" not in written and not any("\ud800" <= character <= "\udfff" for character in written)


def _is_encrypted(schema: Any) -> bool:
    """Whether its rules encrypt fields or whole payloads: what such messages hold is ciphertext."""
    rules = schema.rule_set
    every = [*(rules.domain_rules or ()), *(rules.encoding_rules or ())] if rules else []
    return any(str(rule.type or "").startswith("ENCRYPT") and not rule.disabled for rule in every)


def _is_missing(error: Exception, key: str) -> bool:
    """Whether this is the registry's own word that it has no such schema, and not a 404 of what stands before it.

    A registry that knows no GUIDs at all says no more than 404.
    """
    if not isinstance(error, SchemaRegistryError):
        return False
    absent = verdicts.of_registry(error.http_status_code) is Verdict.REFUSED_ROW
    return absent and (error.error_code in MISSING or (not key.isdecimal() and error.error_code in (0, 404)))
