"""What a producer sends, and what it is told of it."""

import os
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from platform_defs.producing.latencies import Latencies

ID = "tidegate-id"  # the header that names a message: a message of unknown outcome is looked for by it


class Message(NamedTuple):
    """`value` None is a tombstone; `key` None is no key."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Delivered(NamedTuple):
    """Where a message is. Without acknowledgements (acks=0) `offset` is None, and the message may be nowhere."""

    partition: int
    offset: int | None
    timestamp: int  # ms


@dataclass
class Told:
    """What a producer was told so far."""

    delivered: int = 0
    failed: Counter[str] = field(default_factory=Counter[str])  # by the name of librdkafka's code
    partitions: Counter[int] = field(default_factory=Counter[int])  # delivered messages by partition
    latencies: Latencies = field(default_factory=Latencies)

    def add(self, later: "Told") -> None:
        """Take in what was told later."""
        self.delivered += later.delivered
        self.failed.update(later.failed)
        self.partitions.update(later.partitions)
        self.latencies.merge(later.latencies)


class Ids:
    """Makes UUIDv7s (RFC 9562, 6.2: a counter that starts at random), ordered by the millisecond of each."""

    def __init__(self) -> None:
        seed = int.from_bytes(os.urandom(10), "big")
        self._before, self._variant, self._count = seed & 0xFFF, 0x8000 | seed >> 12 & 0x3FFF, seed >> 26 & 0xFFFFFFFF

    def new(self) -> bytes:
        """The next one, as text."""
        self._count += 1
        moment = int(time.time() * 1_000)
        parts = (moment >> 16, moment & 0xFFFF, self._before, self._variant, self._count)
        return b"%08x-%04x-7%03x-%04x-%012x" % parts
