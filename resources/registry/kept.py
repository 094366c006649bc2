"""What a process remembers of schemas and of registries, bounded in bytes and in time."""

import time
from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock

from platform_defs.formats.writer_schema import WriterSchema

MOST_BYTES = 64_000_000  # of documents and references
RECENT = 60.0  # seconds for which something is still lately
_MOST_NOTED = 1_000

Place = tuple[str, str, int, str]  # ledger, registry, generation, key


class KeptSchemas:
    """Schemas by their place. What is known stays as it is; what was not asked for the longest time goes first."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._bytes, self._lock = most_bytes, 0, Lock()
        self._schemas = OrderedDict[Place, WriterSchema]()

    def get(self, place: Place) -> WriterSchema | None:
        with self._lock:
            if found := self._schemas.get(place):
                self._schemas.move_to_end(place)
            return found

    def keep(self, place: Place, schema: WriterSchema) -> None:
        """Remember it, and forget others where there is no room."""
        with self._lock:
            if place not in self._schemas:
                self._bytes += _size(schema)
                self._schemas[place] = schema
            while self._bytes > self._most and len(self._schemas) > 1:
                self._bytes -= _size(self._schemas.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            self._schemas.clear()
            self._bytes = 0


def _size(schema: WriterSchema) -> int:
    return len(schema.document) + sum(len(name) + len(text) for name, text in schema.references)


class Lately:
    """What has happened within the last minute."""

    def __init__(self) -> None:
        self._at = dict[Hashable, float]()

    def note(self, what: Hashable) -> None:
        if len(self._at) >= _MOST_NOTED:
            self._at.clear()
        self._at[what] = time.monotonic()

    def has(self, what: Hashable) -> bool:
        at = self._at.get(what)
        return at is not None and time.monotonic() - at < RECENT

    def clear(self) -> None:
        self._at.clear()
