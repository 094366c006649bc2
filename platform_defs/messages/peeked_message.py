"""One message as `tidegate peek` shows it, without any content that must not be shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from platform_defs.contract.model.contract import Fault

TimestampType = Literal["CreateTime", "LogAppendTime"]  # as Kafka's own tools print them


@dataclass(frozen=True)
class Content:
    """A key, a value, or a header's value: its length, and its bytes if they may be shown. `text`: the bytes as text,
    if they are UTF-8 or a key that a schema decodes.
    """

    size: int
    data: bytes | None = None
    text: str | None = None

    @classmethod
    def of(cls, data: bytes | None, *, hides: bool = False) -> "Content | None":
        if data is None:
            return None
        if hides:
            return cls(len(data))
        try:
            return cls(len(data), data, data.decode())
        except UnicodeDecodeError:
            return cls(len(data), data)


@dataclass(frozen=True)
class PeekedMessage:
    """A message of a topic. `fields`: the contract's, decoded; None for a tombstone, a would-be dead letter, another
    record, or without a contract. `value` is None for a tombstone.
    """

    partition: int
    offset: int
    timestamp_ms: int | None  # since the epoch; None if the producer or broker set none
    timestamp_type: TimestampType | None
    key: Content | None
    headers: tuple[tuple[str, Content | None], ...]
    value: Content | None
    fields: Mapping[str, Any] | None = None
    fault: Fault | None = None  # why the message would be a dead letter
    other_record: bool = False  # the contract skips it

    @property
    def time(self) -> datetime | None:
        """The timestamp, in UTC."""
        if self.timestamp_ms is None:
            return None
        try:
            return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)
        except (OverflowError, ValueError, OSError):  # a producer may send any int64
            return None
