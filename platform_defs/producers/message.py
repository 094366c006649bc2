"""The messages of a producer, and their delivery reports."""

import math
import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from platform_defs.errors import BadInput

ID = "tidegate-id"  # the header that identifies a message, to find one of unknown outcome


class Message(NamedTuple):
    """A message to send. `value` None is a tombstone; `key` None is no key. `partition` None: the partitioner chooses.

    `timestamp_ms` None: the time of sending.
    """

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


_TYPES = {"value": bytes | str | None, "key": bytes | str | None, "partition": int | None, "timestamp_ms": int | None}
_SURROGATE = re.compile("[\ud800-\udfff]")  # in a header's name, it ends confluent-kafka's process (2.16)


def check_form(message: object) -> None:
    """Raise BadInput for what is no Message, or has headers that are no sequence of names and values."""
    if not isinstance(message, Message):
        raise BadInput(f"a message is a tidegate.Message, not {type(message).__name__}", field="message")
    headers: object = message.headers
    for header in headers if isinstance(headers, list | tuple) else (headers,):
        match header:
            case tuple((str(name), bytes() | str() | None)) if not _SURROGATE.search(name):
                pass
            case _:
                raise BadInput("headers are a list of names and values: [('source', b'shop')]", field="headers")


def refused(message: Message, reason: Exception) -> BadInput:
    """Return the error for a message that confluent-kafka does not take, for `reason`. Its field is the argument."""
    wrong = (name for name, kind in _TYPES.items() if not isinstance(getattr(message, name), kind))
    return BadInput(f"the message cannot be sent: {reason}", field=next(wrong, "message"))


class Delivered(NamedTuple):
    """A message's place in the log. Without acknowledgements (acks=0) `offset` is None, and the message may be lost."""

    partition: int
    offset: int | None
    timestamp: int  # ms


LATENCY_STEP = math.log(1.01)  # a quantile is at most 1% above the true one
MIN_LATENCY = 1e-9  # seconds
LATENCY_BUFFER = 10_000  # latencies buffered before they are counted


class Latencies:
    """Latencies in seconds, counted in classes of 1%; the largest is exact."""

    def __init__(self) -> None:
        self._new: list[float] = []
        self._counted = Counter[int]()
        self._longest = 0.0

    def add(self, seconds: float) -> None:
        self._new.append(seconds)
        if len(self._new) >= LATENCY_BUFFER:
            self._count()

    def milliseconds(self, share: float) -> float | None:
        """Return the quantile in ms: 0.5 is the median, 1 the maximum. None without messages."""
        self._count()
        wanted, seen = share * self._counted.total(), 0
        for step in sorted(self._counted):
            seen += self._counted[step]
            if seen >= wanted:
                return round(1_000 * min(math.exp((step + 1) * LATENCY_STEP), self._longest), 3)
        return None

    def merge(self, other: "Latencies") -> None:
        self._count()
        other._count()
        self._counted.update(other._counted)
        self._longest = max(self._longest, other._longest)

    def _count(self) -> None:
        if not self._new:
            return
        import numpy as np  # a command that sends nothing does not wait for its import

        new = np.maximum(np.array(self._new), MIN_LATENCY)
        classes, counts = np.unique(np.floor(np.log(new) / LATENCY_STEP).astype(int), return_counts=True)
        self._counted.update(dict(zip(classes.tolist(), counts.tolist(), strict=True)))
        self._longest = max(self._longest, float(new.max()))
        self._new.clear()


@dataclass
class DeliveryCounts:
    """The delivery reports of a producer so far."""

    delivered: int = 0
    failed: Counter[str] = field(default_factory=Counter[str])  # by the name of librdkafka's code
    partitions: Counter[int] = field(default_factory=Counter[int])  # delivered messages by partition
    latencies: Latencies = field(default_factory=Latencies)

    def add(self, later: "DeliveryCounts") -> None:
        self.delivered += later.delivered
        self.failed.update(later.failed)
        self.partitions.update(later.partitions)
        self.latencies.merge(later.latencies)


class Ids:
    """A generator of UUIDv7s (RFC 9562, 6.2: a counter that starts at random), ordered by the millisecond of each."""

    def __init__(self) -> None:
        seed = int.from_bytes(os.urandom(10), "big")
        self._same = b"-7%03x-%04x-" % (seed & 0xFFF, 0x8000 | (seed >> 12) & 0x3FFF)
        self._count, self._moment, self._first = (seed >> 26) & 0xFFFFFFFF, 0, b""

    def new(self) -> bytes:
        """Return the next one, as text."""
        self._count += 1
        moment = int(time.time() * 1_000)
        if moment != self._moment:
            self._moment, self._first = moment, b"%08x-%04x%b" % (moment >> 16, moment & 0xFFFF, self._same)
        return b"%b%012x" % (self._first, self._count)


def made_at(named: bytes) -> float | None:
    """Return when `Ids` made the id, by its machine's clock, in seconds since the epoch; None for another id."""
    if len(named) != 36 or named[14:15] != b"7":
        return None
    try:
        return int(named[:8] + named[9:13], 16) / 1000
    except ValueError:
        return None


def sent_before(one: bytes, other: bytes) -> bool:
    """Return True if one `Ids` made both, and `one` first: they share its random bits, and the counter decides.

    The times in them do not decide, since a clock may be set back.
    """
    ours = len(one) == len(other) == 36 and one[14:15] == b"7" and one[13:24] == other[13:24]
    return ours and one[24:] < other[24:]
