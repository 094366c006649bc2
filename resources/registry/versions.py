"""What a registry has under a subject, and under which subjects a schema is: for people, not for rows.

Nobody waits long for it, and what it does not answer is left out.
"""

from collections.abc import Callable, Sequence
from typing import Any

from platform_defs.errors import RegistryAway
from platform_defs.formats.writer_schema import WriterSchema
from resources.registry.address import Registry
from resources.registry.client import RegistryClient

PATIENCE = 3.0  # seconds for one question
MOST_VERSIONS = 100  # of a subject, the newest


class SubjectVersions(RegistryClient):
    """A registry's subjects, as this process has seen them. What a version holds is asked once."""

    def __init__(self, registry: Registry) -> None:
        """Raises BadInput for options that the client does not take."""
        super().__init__(registry)
        self._versions: dict[tuple[str, int], WriterSchema | None] = {}

    def under(self, subject: str) -> dict[int, WriterSchema | None]:
        """The newest versions of a subject, ascending; None for one that no reader could use. Empty where there is no
        such subject. Raises RegistryAway.
        """
        found: Any = self._asked(f"subject {subject}", lambda client: client.get_versions(subject))
        numbers: Sequence[int] = sorted(found or [])[-MOST_VERSIONS:]
        return {number: self._version(subject, number) for number in numbers}

    def places(self, key: str) -> list[tuple[str, int]]:
        """Subject and version of each place where the schema of this id is; none for a GUID, or where the registry
        does not say.
        """
        if not key.isdecimal():
            return []
        try:
            found: Any = self._asked(f"schema {key}", lambda client: client.get_schema_versions(int(key)))
        except RegistryAway:
            return []
        return sorted((str(place.subject), int(place.version)) for place in found or ())

    def _version(self, subject: str, number: int) -> WriterSchema | None:
        place = subject, number
        if place not in self._versions:
            what = f"version {number} of {subject}"
            found: Any = self._asked(what, lambda client: client.get_version(subject, number))
            self._versions[place] = None if found is None else self.schema(str(found.schema_id), subject, PATIENCE)
        return self._versions[place]

    def _asked(self, what: str, question: Callable[[Any], Any]) -> Any:
        return self._ask(what, question, self._asking(PATIENCE))
