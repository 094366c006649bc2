"""A cache of objects that are made once for each schema, limited by the bytes of schema text."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

MAX_BYTES = 16 << 20  # of schema text; the objects take some ten times as many
MAX_THINGS = 1_000

Made = TypeVar("Made")


class SchemaCache(Generic[Made]):
    """The most recently used objects, by key."""

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        self._most, self._bytes = most_bytes, 0
        self._made: OrderedDict[Hashable, tuple[Made, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._made)

    def get(self, key: Hashable) -> Made | None:
        """Return the object with this key; None if there is none (any longer)."""
        if key not in self._made:
            return None
        self._made.move_to_end(key)
        return self._made[key][0]

    def put(self, key: Hashable, made: Made, size: int) -> Made:
        """Keep `made`, from a schema of `size` bytes, and remove the least recently used objects."""
        self._bytes += size - self._made.pop(key, (made, 0))[1]
        self._made[key] = made, size
        while len(self._made) > 1 and (self._bytes > self._most or len(self._made) > MAX_THINGS):
            _, (_, freed) = self._made.popitem(last=False)
            self._bytes -= freed
        return made

    def clear(self) -> None:
        """Remove all objects."""
        self._made.clear()
        self._bytes = 0
