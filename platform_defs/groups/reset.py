"""The offsets that `tidegate groups reset` commits."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from platform_defs.errors import BadInput
from platform_defs.kafka.group_state import Bounds, Place
from platform_defs.times import EXAMPLE, parse_time


@dataclass(frozen=True, kw_only=True)
class Target:
    """The target of a reset (--to): the start or the end of the log, an offset, or a time."""

    kind: Literal["earliest", "latest", "offset", "time"]
    offset: int = 0
    at: datetime | None = None

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Parse earliest, latest, an offset (42), or a time (2026-11-21T10:00:00Z). Raises BadInput."""
        if text in ("earliest", "latest"):
            return cls(kind="earliest" if text == "earliest" else "latest")
        if text.isdecimal():
            return cls(kind="offset", offset=int(text))
        if (at := parse_time(text, "--to")) is None:
            raise BadInput(f"{text!r} is not earliest, latest, an offset (42) or a time ({EXAMPLE})", field="--to")
        return cls(kind="time", at=at)

    @property
    def milliseconds(self) -> int | None:
        """The time in ms since the epoch; None for a target that is not a time."""
        return None if self.at is None else int(self.at.timestamp() * 1000)


@dataclass(frozen=True, kw_only=True)
class OffsetChange:
    """A committed offset to be replaced. `current` is None if the group has committed none."""

    topic: str
    partition: int
    current: int | None
    new: int
    bounds: Bounds

    @property
    def skipped(self) -> int | None:
        """Offsets in the log that the group will not read; None if it has committed no offset."""
        if self.current is None:
            return None
        return max(0, self.new - max(self.current, self.bounds.log_start))

    @property
    def read_again(self) -> int | None:
        """Offsets that the group has read and will read again; None if it has committed no offset."""
        return None if self.current is None else max(0, min(self.current, self.bounds.end) - self.new)


def offset_changes(
    target: Target, committed: Mapping[Place, int], bounds: Mapping[Place, Bounds], at_time: Mapping[Place, int]
) -> tuple[OffsetChange, ...]:
    """Return the change of each partition in `bounds`. `at_time`: for a target that is a time, the first offset with
    that timestamp or a later one, or the end. Raises BadInput for an offset outside a log.
    """
    found = list[OffsetChange]()
    for place, log in sorted(bounds.items()):
        match target.kind:
            case "earliest":
                new = log.log_start
            case "latest":
                new = log.end
            case "offset":
                new = target.offset
            case "time":
                new = max(at_time[place], log.log_start)
        found.append(
            OffsetChange(topic=place[0], partition=place[1], current=committed.get(place), new=new, bounds=log)
        )
    outside = [one for one in found if not one.bounds.log_start <= one.new <= one.bounds.end]
    if outside:
        each = "; ".join(
            f"partition {one.partition} of {one.topic}: {one.bounds.log_start} to {one.bounds.end}" for one in outside
        )
        raise BadInput(
            f"offset {target.offset} is outside the log, so a consumer could not resume there. Valid offsets: {each}. "
            "Give one of these, earliest or latest, or limit the reset with --partition. Nothing was changed",
            field="--to",
        )
    return tuple(found)
