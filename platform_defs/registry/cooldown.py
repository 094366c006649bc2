"""A process's recent notes about registries."""

import time
from collections.abc import Hashable

RECENT = 60.0  # seconds for which a note counts
_MAX_NOTED = 1_000


class Cooldown:
    """The notes of the last minute."""

    def __init__(self) -> None:
        self._at = dict[Hashable, float]()

    def note(self, what: Hashable) -> None:
        if len(self._at) >= _MAX_NOTED:
            self._at.clear()
        self._at[what] = time.monotonic()

    def has(self, what: Hashable) -> bool:
        at = self._at.get(what)
        return at is not None and time.monotonic() - at < RECENT

    def clear(self) -> None:
        self._at.clear()
