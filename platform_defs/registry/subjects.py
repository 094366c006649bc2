"""The registry queries about subjects: their versions, a schema's compatibility, and registration."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote

from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError

from platform_defs.contract.model.contract import Format
from platform_defs.errors import BadInput, RegistryAway
from platform_defs.formats.blocks.excerpt import printable
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.registry.answers import NO_LEVEL
from platform_defs.registry.client import RegistryClient, at_once
from platform_defs.registry.server import request
from platform_defs.settings.registry_address import Registry

Answer = TypeVar("Answer")

ROUNDS = 3  # tries of each address: a user waits for the answer
# https://docs.confluent.io/platform/current/schema-registry/develop/api.html
_TYPES: Mapping[Format, str] = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}
# Confluent's registry adds these to its reasons.
_NO_REASON = ("None", "{oldSchema", "{validateFields", "{compatibility")
_LONGEST = 1_000  # characters of the registry's message
_REFUSED = (409, 422)  # not compatible; not a schema


@dataclass(frozen=True)
class Version:
    """A version of a subject with its schema: None if no reader could use it."""

    number: int
    key: str  # the registry's id
    schema: WriterSchema | None


class Subjects(RegistryClient):
    """A command's or a sensor's client. Its queries raise RegistryAway if no answer comes in time."""

    def __init__(self, registry: Registry) -> None:
        """Raise BadInput for options that the client does not take."""
        super().__init__(registry)
        self._keys: dict[tuple[str, int], tuple[str, ...]] = {}

    def subjects(self) -> list[str]:
        """Return every subject that is not deleted."""
        return self._request("its subjects", "subjects", lambda found: [str(one) for one in found]) or []

    def numbers(self, subject: str) -> list[int]:
        """Return the numbers of all versions that are not deleted, ascending; none if there is no such subject."""
        what, where = f"the versions of {subject}", f"{_path(subject)}/versions"
        return self._request(what, where, lambda found: sorted(int(one) for one in found)) or []

    def versions(self, subject: str, numbers: Sequence[int] | None = None) -> tuple[Version, ...]:
        """Return the versions with these numbers, in their order; all if none are given."""
        wanted = self.numbers(subject) if numbers is None else numbers
        return tuple(at_once(lambda one: self.version(subject, one) or Version(one, "", None), wanted))

    def version(self, subject: str, number: int | None = None) -> Version | None:
        """Return the version with this number, or the newest; None if there is none."""
        what = "the newest version" if number is None else f"version {number}"
        found = self._request(f"{what} of {subject}", f"{_path(subject)}/versions/{number or 'latest'}", _place)
        return Version(*found, self.schema(found[1], subject)) if found else None

    def keys(self, subject: str, most: int) -> dict[int, tuple[str, ...]]:
        """Return by number the newest versions, each with its names in messages: its id, and its GUID if the registry
        gives one. Each version is queried once.
        """
        for number in (numbers := self.numbers(subject)[-most:]):
            if (subject, number) not in self._keys:
                what, where = f"version {number} of {subject}", f"{_path(subject)}/versions/{number}"
                if names := self._request(what, where, lambda found: (_id(found), str(found.get("guid") or ""))):
                    self._keys[subject, number] = tuple(filter(None, names))
        return {number: self._keys[subject, number] for number in numbers if (subject, number) in self._keys}

    def places(self, keys: Iterable[str]) -> dict[str, list[tuple[str, int]]]:
        """Return, by id, subject and version of each place of its schema; none for a GUID.

        A registry that is unavailable or refuses is queried once: the ids not queried by then are missing.
        """
        found = dict[str, list[tuple[str, int]]]()
        for key in filter(str.isdecimal, keys):
            try:
                found[key] = self._request(f"schema {key}", f"schemas/ids/{int(key)}/versions", _places) or []
            except (RegistryAway, BadInput):
                break
        return found

    def same(self, subject: str, kind: Format, document: str) -> Version | None:
        """Return the subject's version with this schema; None if there is none."""
        found = self._request(f"a schema of {subject}", _path(subject), _place, _body(kind, document), method="post")
        return Version(*found, WriterSchema(found[1], kind, document)) if found else None

    def incompatibilities(self, subject: str, kind: Format, document: str) -> tuple[str, ...]:
        """Return why the registry would not take the schema as the next version, in its words; empty if it would."""
        what, where = f"a compatibility check with {subject}", f"compatibility/{_path(subject)}/versions?verbose=true"
        return self._request(what, where, _reasons, _body(kind, document), method="post") or ()

    def register(self, subject: str, kind: Format, document: str) -> str:
        """Add the schema as a version; return its id. Raises BadInput with the registry's message if refused."""
        what, where = f"the registration of a schema under {subject}", f"{_path(subject)}/versions"
        found = self._request(what, where, _id, _body(kind, document), method="post")
        if found is None:
            raise BadInput(
                f"the schema registry at {self.registry} did not register a schema under {subject}: it answered "
                "that there is no such subject, version or schema. Check that it allows registration",
                field=subject,
            )
        return found

    def level(self, subject: str) -> str | None:
        """Return the compatibility level of the subject's versions; None if the subject has none."""
        what = f"the compatibility level of {subject}"
        return self._request(
            what, _config(subject), lambda found: str(found.get("compatibilityLevel") or found["compatibility"])
        )

    def hold_to(self, subject: str, level: str) -> None:
        """Set the subject's compatibility level. Raises BadInput if the registry refuses."""
        what = f"the compatibility level {level} for {subject}"
        if self._request(what, _config(subject), bool, {"compatibility": level}, method="put") is None:
            raise BadInput(
                f"the schema registry at {self.registry} did not set a compatibility level for {subject}: it "
                "answered that there is no such subject or level. Check that it supports levels of subjects",
                field=subject,
            )

    def release(self, subject: str) -> None:
        """Remove the subject's level, so that the registry's applies again; no error if it has none."""
        self._request(f"the removal of the compatibility level of {subject}", _config(subject), bool, method="delete")

    def _request(
        self, what: str, path: str, shape: Callable[[Any], Answer], *body: Mapping[str, Any], method: str = "get"
    ) -> Answer | None:
        """Return the result of `shape` for the answer's JSON; None if the registry has no such thing. Raises BadInput
        with the registry's message if it refuses.
        """

        def question(client: SchemaRegistryClient) -> Answer | None:
            try:
                return shape(request(client, path, *body, method=method))
            except SchemaRegistryError as error:
                if error.error_code == NO_LEVEL:  # final: another address may still have a level that was removed
                    return None
                if error.http_status_code not in _REFUSED:
                    raise
                message = _words(self._without_secrets(str(error.error_message)))
            raise BadInput(f"the schema registry at {self.registry} refuses {what}: {message}")

        asking = replace(self._asking(None), one_try=2 * self.registry.pace.one_try, rounds=ROUNDS)
        return self._ask(what, question, asking)


def _place(found: Any) -> tuple[int, str]:
    return int(found["version"]), _id(found)


def _places(found: Any) -> list[tuple[str, int]]:
    return sorted((str(one["subject"]), int(one["version"])) for one in found)


def _id(found: Any) -> str:
    return str(int(found["id"]))


def _reasons(found: Any) -> tuple[str, ...]:
    """Return the reasons; empty if it is compatible."""
    if found["is_compatible"]:
        return ()
    messages = [str(one) for one in found.get("messages") or [found.get("reason")]]
    return tuple(_words(one) for one in messages if not one.startswith(_NO_REASON)) or ("it gives no reason",)


def _words(message: str) -> str:
    """Return the registry's message, on one line and shortened."""
    text = printable(" ".join(message.split()))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _path(subject: str) -> str:
    return f"subjects/{quote(subject, safe='')}"


def _config(subject: str) -> str:
    return f"config/{quote(subject, safe='')}"


def _body(kind: Format, document: str) -> dict[str, Any]:
    return {"schema": document, "schemaType": _TYPES[kind]}
