"""When a pipeline is due: the decision, without anything outside."""

import json
from dataclasses import asdict, dataclass

from platform_defs.contract.model import Limits


@dataclass(frozen=True)
class Waiting:
    """Since when something waits, as far as a sensor has seen: a hint. `since` is in seconds of the epoch."""

    since: float
    read: int  # offsets read when it was first seen; once this moves, the oldest unread message is another

    def to_cursor(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_cursor(cls, cursor: str | None) -> "Waiting | None":
        return cls(**json.loads(cursor)) if cursor and cursor.startswith("{") else None


def still_waiting(before: Waiting | None, lag: int, read: int, now: float) -> Waiting | None:
    """What to remember at this look: None when everything is read. A clock that went back since starts the wait
    anew.
    """
    if lag == 0:
        return None
    return before if before is not None and before.read == read and before.since <= now else Waiting(now, read)


def due(lag: int, waiting: Waiting | None, limits: Limits, now: float) -> str | None:
    """Why a run should start now, or None."""
    if waiting is None:
        return None
    if lag >= limits.lag_messages:
        return f"{lag:,} unread messages (the contract allows less than {limits.lag_messages:,})"
    waited = now - waiting.since
    if waited >= limits.lag_seconds:
        allowed = f"the contract allows {limits.lag_seconds:.0f} s"
        return f"{lag:,} unread messages, the oldest for {waited:.0f} s ({allowed})"
    return None


def back_off(failures: int) -> float:
    """Seconds to wait after so many failed runs in a row: 10, 20, 40 ... 300. After none, none."""
    return min(10.0 * 2 ** (failures - 1), 300.0) if failures else 0.0
