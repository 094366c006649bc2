"""The registry queries of commands about a subject: its versions, a schema's compatibility, and registration."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from confluent_kafka.schema_registry import SchemaRegistryError

from platform_defs.contract.model.contract import Format
from platform_defs.errors import BadInput, RegistryAway
from platform_defs.formats.blocks.excerpt import excerpt, printable
from platform_defs.formats.blocks.writer_schema import WriterSchema
from resources.registry.answers import MISSING
from resources.registry.client import RegistryClient, at_once

Answer = TypeVar("Answer")

TRIES = 2  # per address: a user waits for the answer
PAUSE = 0.5  # seconds between them
NO_LEVEL = 40408  # the subject has no level
# https://docs.confluent.io/platform/current/schema-registry/develop/api.html
_TYPES: Mapping[Format, str] = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}
_NO_REASON = (
    "None",
    "{oldSchema",
    "{validateFields",
    "{compatibility",
)  # Confluent's registry adds these to its reasons
_LONGEST = 1_000  # characters of the registry's message
_REFUSED = (409, 422)  # not compatible; not a schema


@dataclass(frozen=True)
class Version:
    """A version of a subject with its schema: None if no reader could use it."""

    number: int
    key: str  # the registry's id
    schema: WriterSchema | None


class Subjects(RegistryClient):
    """One command's client. Its queries raise RegistryAway if no answer comes in time."""

    def subjects(self) -> list[str]:
        """Return every subject that is not deleted."""
        return self._request("its subjects", "get", "subjects", _texts) or []

    def numbers(self, subject: str) -> list[int]:
        """Return the numbers of all versions that are not deleted, ascending; none if there is no such subject."""
        return self._request(f"versions of {subject}", "get", f"{_path(subject)}/versions", _numbers) or []

    def versions(self, subject: str, numbers: Sequence[int] | None = None) -> tuple[Version, ...]:
        """Return the versions with these numbers, in their order; all if none are given."""
        wanted = self.numbers(subject) if numbers is None else numbers
        return tuple(at_once(partial(self._version, subject), wanted))

    def version(self, subject: str) -> Version | None:
        """Return the newest version; None if there is none."""
        found = self._request(f"newest version of {subject}", "get", f"{_path(subject)}/versions/latest", _place)
        return Version(*found, self.schema(found[1], subject)) if found else None

    def same(self, subject: str, kind: Format, document: str) -> Version | None:
        """Return the subject's version with this schema; None if there is none."""
        found = self._request(f"a schema of {subject}", "post", _path(subject), _place, _body(kind, document))
        return Version(*found, WriterSchema(found[1], kind, document)) if found else None

    def incompatibilities(self, subject: str, kind: Format, document: str) -> tuple[str, ...]:
        """Return why the registry would not take the schema as the next version, in its words; empty if it would."""
        where = f"compatibility/{_path(subject)}/versions?verbose=true"
        found = self._request(f"compatibility with {subject}", "post", where, _reasons, _body(kind, document)) or []
        return tuple(_words(one) for one in found)

    def register(self, subject: str, kind: Format, document: str) -> str:
        """Add the schema as a version; return its id. Raises BadInput with the registry's message if refused."""
        what, where = f"registering a schema under {subject}", f"{_path(subject)}/versions"
        found = self._request(what, "post", where, _id, _body(kind, document))
        if found is None:
            raise BadInput(f"the schema registry at {self.registry} cannot store {subject}", field=subject)
        return found

    def level(self, subject: str) -> str | None:
        """Return the compatibility level of the subject's versions; None if the subject has none."""
        return self._request(f"level of {subject}", "get", _config(subject), _level)

    def hold_to(self, subject: str, level: str) -> None:
        """Set the subject's compatibility level. Raises BadInput if the registry refuses."""
        what = f"holding {subject} to {level}"
        if self._request(what, "put", _config(subject), bool, {"compatibility": level}) is None:
            raise BadInput(
                f"the schema registry at {self.registry} cannot store a compatibility level for {subject}",
                field=subject,
            )

    def release(self, subject: str) -> None:
        """Remove the subject's level, so that the registry's applies again; no error if it has none."""
        self._request(f"removing the compatibility level of {subject}", "delete", _config(subject), bool)

    def _version(self, subject: str, number: int) -> Version:
        what, where = f"version {number} of {subject}", f"{_path(subject)}/versions/{number}"
        found = self._request(what, "get", where, _place)
        return Version(*found, self.schema(found[1], subject)) if found else Version(number, "", None)

    def _request(
        self, what: str, method: str, path: str, shape: Callable[[Any], Answer], *body: Mapping[str, Any]
    ) -> Answer | None:
        """Return the result of `shape` for the answer's JSON; None if the registry has no such thing."""
        failed: Exception = TimeoutError()
        for turn in range(TRIES):
            time.sleep(PAUSE if turn else 0.0)  # a server that restarts does not report when it is back
            for server in self._servers:
                try:
                    return shape(server.ask(partial(_rest, method, path, body), 2 * self.pace.one_try))
                except SchemaRegistryError as error:
                    if error.error_code in (*MISSING, NO_LEVEL):
                        return None
                    self._refuse(what, error)
                    failed = error
                except Exception as error:  # noqa: BLE001  # no answer, or one that is none of a registry's
                    failed = error
        raise self._no_answer(what, failed)

    def _refuse(self, what: str, error: SchemaRegistryError) -> None:
        if error.http_status_code in _REFUSED:
            said = _words(self._without_secrets(str(error.error_message)))
            raise BadInput(f"the schema registry at {self.registry} refuses ({what}): {said}")

    def _no_answer(self, what: str, error: Exception) -> RegistryAway:
        status = error.http_status_code if isinstance(error, SchemaRegistryError) else None
        said = excerpt(self._without_secrets(str(error) or type(error).__name__))
        return RegistryAway(
            f"the schema registry at {self.registry} did not answer ({what}): {said}. Is it up (tidegate stack "
            "status), and are TIDEGATE_REGISTRY_URL and the user correct?",
            registry=str(self.registry),
            status=status,
        )


def _rest(method: str, path: str, body: tuple[Mapping[str, Any], ...], client: Any) -> Any:
    """Ask over the client's own connection: its methods drop the registry's reasons."""
    return getattr(client._rest_client, method)(path, *body)


def _texts(found: Any) -> list[str]:
    return [str(one) for one in found]


def _numbers(found: Any) -> list[int]:
    return sorted(int(one) for one in found)


def _place(found: Any) -> tuple[int, str]:
    return int(found["version"]), _id(found)


def _id(found: Any) -> str:
    return str(int(found["id"]))


def _level(found: Any) -> str:
    return str(found.get("compatibilityLevel") or found["compatibility"])


def _reasons(found: Any) -> list[str]:
    """Return the reasons; empty if it is compatible."""
    if found["is_compatible"]:
        return []
    said = _texts(found.get("messages") or [found.get("reason")])
    return [one for one in said if not one.startswith(_NO_REASON)] or ["it gives no reason"]


def _words(said: str) -> str:
    """Return the registry's message, on one line and shortened."""
    text = printable(" ".join(said.split()))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _path(subject: str) -> str:
    return f"subjects/{quote(subject, safe='')}"


def _config(subject: str) -> str:
    return f"config/{quote(subject, safe='')}"


def _body(kind: Format, document: str) -> dict[str, Any]:
    return {"schema": document, "schemaType": _TYPES[kind]}
