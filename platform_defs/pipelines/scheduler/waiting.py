"""Decides which pipelines are due: pure decisions, the same for the sensor and for a run that goes on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from platform_defs import offsets
from platform_defs.contract.model.contract import Contract, Limits
from platform_defs.errors import BrokerAway, Halt, TidegateError
from platform_defs.errors.words import plural
from platform_defs.ledger.answers import PipelineStatus
from platform_defs.offsets import Position, TopicView


@dataclass(frozen=True)
class Waiting:
    """The time since which a message has been unread, or a batch unreported, as far as has been seen."""

    since: float  # seconds since the epoch
    read: int  # sum of the next offsets at that time; once it has moved, the oldest unread message is another one


Waits = Mapping[str, Waiting]  # by pipeline; none for a pipeline that has read everything


def to_cursor(waits: Waits) -> str:
    """Return it as the sensor stores it: [since, read] by pipeline."""
    return json.dumps({name: [round(item.since, 3), item.read] for name, item in waits.items()})


def from_cursor(cursor: str | None) -> Waits:
    """Parse a cursor. It is only a hint: a missing one, or one of an older version, yields no memory."""
    try:
        return {name: Waiting(float(since), int(read)) for name, (since, read) in json.loads(cursor or "{}").items()}
    except (ValueError, TypeError, AttributeError):
        return {}


@dataclass(frozen=True)
class Seen:
    """A pipeline as the ledger and then the broker reported it."""

    contract: Contract
    status: PipelineStatus
    positions: Sequence[Position]
    view: TopicView | TidegateError  # or why the broker does not report it
    unreported: bool = False  # a run that is gone committed batches and did not report them to Dagster

    @property
    def lag(self) -> int:
        """Unread messages; 0 while the broker does not report them."""
        return 0 if isinstance(self.view, TidegateError) else sum(offsets.lag(self.positions, self.view).values())

    @property
    def read(self) -> int:
        return sum(item.next_offset for item in self.positions)


@dataclass(frozen=True)
class Due:
    """A pipeline that a run should work on now."""

    pipeline: str
    since: float  # when its oldest unread message was first seen, seconds since the epoch
    reason: str


def remember(before: Waits, seen: Sequence[Seen], now: float) -> Waits:
    """Return the memory after this poll. A topic that cannot be seen keeps what was known about it."""
    found: dict[str, Waiting] = {}
    for item in seen:
        name, known = item.contract.pipeline, before.get(item.contract.pipeline)
        waiting = (
            known
            if isinstance(item.view, TidegateError)
            else still_waiting(known, item.lag or item.unreported, item.read, now)
        )
        if waiting is not None:
            found[name] = waiting
    return found


def decide(seen: Seen, waiting: Waiting | None, now: float) -> Due | str:
    """Return Due, or the reason why the pipeline is not due. Ignores whether a run has it."""
    name = seen.contract.pipeline
    if reason := must_wait(seen):
        return reason
    assert isinstance(seen.view, TopicView)  # noqa: S101  # otherwise it has to wait
    try:
        offsets.check_positions(name, seen.positions, seen.view)
    except Halt as halt:  # a truncated or recreated topic may show no lag at all; the run records the halt
        return Due(name, waiting.since if waiting else now, halt.code)
    except BrokerAway as stale:
        return str(stale)
    reason = due(seen.lag, waiting, seen.contract.limits, now)
    if reason and waiting:
        return Due(name, waiting.since, reason if seen.lag else "a run ended before reporting its batches")
    return f"{plural(seen.lag, 'unread message')}; no run is due yet"


def wants_turn(seen: Seen) -> bool:
    """Return True if a run that stays for the pipeline must give it a turn now: something is unread, or it must be
    halted.
    """
    if must_wait(seen) or not isinstance(seen.view, TopicView):
        return False
    try:
        offsets.check_positions(seen.contract.pipeline, seen.positions, seen.view)
    except Halt:
        return True
    except BrokerAway:
        return False
    return seen.lag > 0


def due_in(seen: Seen, waiting: Waiting | None, now: float) -> float:
    """Return the seconds until the pipeline's latency makes it due; infinite if nothing is unread or it must wait."""
    if waiting is None or must_wait(seen):
        return inf
    return waiting.since + seen.contract.limits.lag_seconds - now


def must_wait(seen: Seen) -> str | None:
    """Return why no run may take the pipeline now, whatever its lag; None if one may."""
    name, status = seen.contract.pipeline, seen.status
    if status.state == "halted":
        return f"{name} is halted ({status.halt_code}) until a user resolves it. To see how: tidegate resolve {name}"
    if status.backed_off:
        table = seen.contract.row_table.name.replace(".", "/")
        return (
            f"its last try failed (a blocking check or an error); it waits until {status.retry_at} before it "
            f"retries. To retry now, materialize {table}"
        )
    return str(seen.view) if isinstance(seen.view, TidegateError) else None


def still_waiting(before: Waiting | None, lag: int, read: int, now: float) -> Waiting | None:
    """Return what to remember of a pipeline: None if all is read. A clock that was set back restarts the wait."""
    if lag == 0:
        return None
    return before if before is not None and before.read == read and before.since <= now else Waiting(now, read)


def due(lag: int, waiting: Waiting | None, limits: Limits, now: float) -> str | None:
    """Return why a run should start now; None if none should."""
    if waiting is None:
        return None
    if lag >= limits.lag_messages:
        return f"{plural(lag, 'unread message')} (the contract's lagMessages: {limits.lag_messages:,})"
    waited = now - waiting.since
    if waited >= limits.lag_seconds:
        allowed = f"the contract's latency: {limits.lag_seconds:.0f} s"
        return f"{plural(lag, 'unread message')}, the oldest unread for {waited:.0f} s ({allowed})"
    return None
