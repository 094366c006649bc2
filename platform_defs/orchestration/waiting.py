"""When a run of a pipeline is due: pure decisions."""

import json
from dataclasses import asdict, dataclass

from platform_defs.contract.model import Limits


@dataclass(frozen=True)
class Waiting:
    """Since when a message has been unread, as far as the sensor has seen."""

    since: float  # seconds since the epoch
    read: int  # sum of the next offsets at that time; once it has moved, the oldest unread message is another one

    def to_cursor(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_cursor(cls, cursor: str | None) -> "Waiting | None":
        return cls(**json.loads(cursor)) if cursor and cursor.startswith("{") else None


def still_waiting(before: Waiting | None, lag: int, read: int, now: float) -> Waiting | None:
    """What to remember from this tick: None when everything is read. A clock that was set back restarts the wait."""
    if lag == 0:
        return None
    return before if before is not None and before.read == read and before.since <= now else Waiting(now, read)


def due(lag: int, waiting: Waiting | None, limits: Limits, now: float) -> str | None:
    """Why a run should start now; None where none should."""
    if waiting is None:
        return None
    if lag >= limits.lag_messages:
        return f"{lag:,} unread messages (the contract's lagMessages: {limits.lag_messages:,})"
    waited = now - waiting.since
    if waited >= limits.lag_seconds:
        allowed = f"the contract's latency: {limits.lag_seconds:.0f} s"
        return f"{lag:,} unread messages, the oldest for {waited:.0f} s ({allowed})"
    return None


def back_off(failures: int) -> float:
    """Seconds to wait after so many failed runs in a row: 10, 20, 40 ... 300; after none, 0."""
    return min(10.0 * 2 ** (failures - 1), 300.0) if failures else 0.0
