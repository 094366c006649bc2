"""The versions of a registry's subjects, and the subjects of a schema: for display, not for rows.

It is not waited for long; what it does not answer is missing.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from platform_defs.errors import RegistryAway
from platform_defs.formats.blocks.writer_schema import WriterSchema
from resources.registry.address import Registry
from resources.registry.client import RegistryClient

PATIENCE = 3.0  # seconds for one query
MAX_VERSIONS = 100  # of a subject, the newest


@dataclass(frozen=True)
class Version:
    """A version of a subject."""

    number: int
    keys: tuple[str, ...]  # the names in messages: its id, and its GUID if the registry gives one


class SubjectVersions(RegistryClient):
    """A registry's subjects in this process: each version is queried once."""

    def __init__(self, registry: Registry) -> None:
        """Raise BadInput for options that the client does not take."""
        super().__init__(registry)
        self._versions: dict[tuple[str, int], Version] = {}

    def under(self, subject: str) -> list[Version]:
        """Return the newest versions of a subject, ascending; none if there is no such subject. Raises RegistryAway."""
        found: Any = self._asked(f"subject {subject}", lambda client: client.get_versions(subject))
        numbers: list[int] = sorted(int(number) for number in found or ())
        versions = [self._version(subject, number) for number in numbers[-MAX_VERSIONS:]]
        return [version for version in versions if version is not None]

    def schema_of(self, subject: str, number: int) -> WriterSchema | None:
        """Return the schema of a version; None if no reader could use it, or it is gone. Raises RegistryAway."""
        version = self._version(subject, number)
        return version and self.schema(version.keys[0], subject, PATIENCE)

    def places(self, keys: Iterable[str]) -> dict[str, list[tuple[str, int]]]:
        """Return, by id, subject and version of each place of its schema; none for a GUID.

        A registry that is away is waited for once: the ids not asked by then are missing.
        """
        found = dict[str, list[tuple[str, int]]]()
        for key in filter(str.isdecimal, keys):
            try:
                every: Any = self._asked(f"schema {key}", lambda client, of=int(key): client.get_schema_versions(of))
            except RegistryAway:
                break
            found[key] = sorted((str(place.subject), int(place.version)) for place in every or ())
        return found

    def _version(self, subject: str, number: int) -> Version | None:
        place = subject, number
        if place not in self._versions:
            what = f"version {number} of {subject}"
            found: Any = self._asked(what, lambda client: client.get_version(subject, number))
            if found is None:
                return None
            names = (found.schema_id, found.guid)
            self._versions[place] = Version(number, tuple(str(name) for name in names if name is not None))
        return self._versions[place]

    def _asked(self, what: str, question: Callable[[Any], Any]) -> Any:
        return self._ask(what, question, self._asking(PATIENCE))
