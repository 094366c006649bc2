"""What commands ask a registry about a subject: its versions, whether a schema may follow them, and to take it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from confluent_kafka.schema_registry import SchemaRegistryError

from platform_defs.contract.model import Format
from platform_defs.errors import BadInput, RegistryAway
from platform_defs.formats.excerpt import excerpt, printable
from platform_defs.formats.writer_schema import WriterSchema
from resources.registry.client import MISSING, RegistryClient
from resources.registry.server import ONE_TRY

TRIES = 2  # of each address: a person waits for the answer
PAUSE = 0.5  # seconds between them
NO_LEVEL = 40408  # the subject has no level of its own
# https://docs.confluent.io/platform/current/schema-registry/develop/api.html
_TYPES: Mapping[Format, str] = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}
_NO_REASON = ("{oldSchema", "{validateFields", "{compatibility")  # Confluent's registry says these beside its reasons
_LONGEST = 1_000  # characters of the registry's words
_REFUSED = (409, 422)  # not compatible; not a schema


@dataclass(frozen=True)
class Version:
    """A version of a subject, and the schema that it is: None where no reader could use it."""

    number: int
    key: str  # the registry's id
    schema: WriterSchema | None


class Subjects(RegistryClient):
    """One command's client. Its questions raise RegistryAway where no answer comes in time."""

    def subjects(self) -> list[str]:
        """Every subject that is not deleted."""
        return [str(name) for name in self._request("its subjects", "get", "subjects") or ()]

    def versions(self, subject: str) -> tuple[Version, ...]:
        """All that are not deleted, ascending; none where there is no such subject."""
        found = self._request(f"the versions of {subject}", "get", f"{_path(subject)}/versions")
        return tuple(self._version(subject, int(number)) for number in sorted(found or ()))

    def version(self, subject: str, number: int | None = None) -> Version | None:
        """One version, the newest where none is given; None where there is none."""
        place = "latest" if number is None else str(number)
        found = self._request(f"version {place} of {subject}", "get", f"{_path(subject)}/versions/{place}")
        return self._version(subject, int(found["version"])) if found else None

    def same(self, subject: str, kind: Format, document: str) -> Version | None:
        """The version of the subject that is this schema; None where none is."""
        found = self._request(f"a schema of {subject}", "post", _path(subject), _body(kind, document))
        return (
            Version(int(found["version"]), str(found["id"]), WriterSchema(str(found["id"]), kind, document))
            if found
            else None
        )

    def incompatibilities(self, subject: str, kind: Format, document: str) -> tuple[str, ...]:
        """Why the registry would not take the schema as the next version, in its own words; empty where it would."""
        asked = f"whether a schema may follow in {subject}"
        where = f"compatibility/{_path(subject)}/versions?verbose=true"
        found = self._request(asked, "post", where, _body(kind, document))
        if not found or found.get("is_compatible"):
            return ()
        said = [str(one) for one in found.get("messages") or [found.get("reason") or "it does not say why"]]
        return tuple(_words(one) for one in said if not one.startswith(_NO_REASON)) or ("it does not say why",)

    def register(self, subject: str, kind: Format, document: str) -> str:
        """Add the schema as a version; its id. Raises BadInput with the registry's words where it is refused."""
        found = self._request(
            f"to register a schema in {subject}", "post", f"{_path(subject)}/versions", _body(kind, document)
        )
        if not found:
            raise BadInput(f"the schema registry at {self.registry} has no place for {subject}", field=subject)
        return str(found["id"])

    def level(self, subject: str) -> str | None:
        """What the subject's versions are held to; None where it has no level of its own."""
        found = self._request(f"the level of {subject}", "get", f"config/{quote(subject, safe='')}")
        return str(found.get("compatibilityLevel") or found.get("compatibility")) if found else None

    def hold_to(self, subject: str, level: str) -> None:
        """Have the subject's versions held to a level."""
        self._request(
            f"to hold {subject} to {level}", "put", f"config/{quote(subject, safe='')}", {"compatibility": level}
        )

    def _version(self, subject: str, number: int) -> Version:
        found = self._request(f"version {number} of {subject}", "get", f"{_path(subject)}/versions/{number}")
        key = str(found["id"]) if found else ""
        return Version(number, key, self.schema(key, subject) if key else None)

    def _request(self, what: str, method: str, path: str, *body: Mapping[str, Any]) -> Any:
        """The answer's JSON; None where the registry says that there is no such thing."""
        failed: Exception = TimeoutError()
        for turn in range(TRIES):
            time.sleep(PAUSE if turn else 0.0)
            for server in self._servers:
                try:
                    return server.ask(partial(_rest, method, path, body), 2 * ONE_TRY)
                except SchemaRegistryError as error:
                    if error.error_code in (*MISSING, NO_LEVEL):
                        return None
                    self._refuse(what, error)
                    failed = error
                except Exception as error:  # noqa: BLE001  # whatever the client makes of what is not an answer
                    failed = error
        raise self._no_answer(what, failed)

    def _refuse(self, what: str, error: SchemaRegistryError) -> None:
        if error.http_status_code in _REFUSED:
            said = _words(self._without_secrets(str(error.error_message)))
            raise BadInput(f"the schema registry at {self.registry}, asked {what}, refused: {said}")

    def _no_answer(self, what: str, error: Exception) -> RegistryAway:
        status = error.http_status_code if isinstance(error, SchemaRegistryError) else None
        said = excerpt(self._without_secrets(str(error) or type(error).__name__))
        return RegistryAway(
            f"the schema registry at {self.registry} could not be asked for {what}: {said}. Nothing was changed. Is "
            "it up (tidegate stack status), and are TIDEGATE_REGISTRY_URL and the user right?",
            registry=str(self.registry),
            status=status,
        )


def _rest(method: str, path: str, body: tuple[Mapping[str, Any], ...], client: Any) -> Any:
    """Ask by the client's own connection: its methods drop the registry's reasons."""
    return getattr(client._rest_client, method)(path, *body)


def _words(said: str) -> str:
    """The registry's words, on one line and not without end."""
    text = printable(" ".join(said.split()))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _path(subject: str) -> str:
    return f"subjects/{quote(subject, safe='')}"


def _body(kind: Format, document: str) -> dict[str, Any]:
    return {"schema": document, "schemaType": _TYPES[kind]}
