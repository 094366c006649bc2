"""Options of a producer that are varied one at a time, with all others fixed, and the measurements of each value.

Nothing else differs between the rows of a sweep: acknowledgements are compared with the same linger and batch size.
Each value has two loads: unlimited, for throughput, and STEADY messages a second, for latency, since at full load
messages mostly wait behind each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from platform_defs.producer_options.options import Value

Load = Literal["full", "steady"]
LOADS: tuple[Load, ...] = ("full", "steady")
STEADY = 5_000  # messages a second
# The fixed options: no idempotence, which requires acks=all, and the linger of the presets.
KEPT: Mapping[str, Value] = {
    "acks": "all",
    "enable.idempotence": False,
    "retries": 100,
    "max.in.flight": 5,
    "linger.ms": 20,
    "batch.size": 1_000_000,
    "batch.num.messages": 10_000,
    "compression.type": "lz4",
    "partitioner": "murmur2_random",
    "message.timeout.ms": 120_000,
    "queue.buffering.max.kbytes": 65_536,
}
VARIED: Mapping[str, tuple[str, tuple[Value, ...]]] = {  # by the name in --vary: the option, and its values
    "acks": ("acks", (0, 1, "all")),
    "linger": ("linger.ms", (0, 1, 5, 20, 100)),
    "batch": ("batch.size", (16_384, 65_536, 262_144, 1_000_000)),
    "compression": ("compression.type", ("none", "gzip", "snappy", "lz4", "zstd")),
}


@dataclass(frozen=True)
class Setting:
    """A value of a sweep under one load."""

    vary: str
    value: Value
    load: Load

    @property
    def options(self) -> Mapping[str, Value]:
        """All options of the producer."""
        return {**KEPT, VARIED[self.vary][0]: self.value}


@dataclass(frozen=True)
class SweepRound:
    """A round of a setting. Batches and bytes are from librdkafka's statistics; `message_bytes` is the size of keys and
    values before compression.
    """

    messages: int
    messages_per_second: float
    p50_ms: float
    p99_ms: float
    batches: int
    batch_bytes: int  # of all batches, compressed, with their framing
    wire_bytes: int  # sent to brokers in all requests
    message_bytes: int


@dataclass(frozen=True)
class Swept:
    """The rounds of one setting, summed up: medians, the slowest and fastest round, and the lowest p99 of a round,
    which other programs on the machine disturb least.

    `batch_messages` and `batch_bytes` are per average batch, `wire_bytes` per message; `compression_ratio` is the bytes
    of keys and values for each byte of a batch.
    """

    vary: str
    value: str
    load: Load
    rounds: int
    messages_per_second: int
    slowest: int
    fastest: int
    p50_ms: float
    p99_ms: float
    least_p99_ms: float
    batch_messages: float
    batch_bytes: int
    wire_bytes: float
    compression_ratio: float


def settings_of(vary: Sequence[str]) -> list[Setting]:
    """Return the settings of these sweeps, in the order of VARIED; "all" names every one."""
    return [
        Setting(name, value, load)
        for name, (_, values) in VARIED.items()
        if {name, "all"} & set(vary)
        for value in values
        for load in LOADS
    ]


def sweep_of(setting: Setting, rounds: Sequence[SweepRound]) -> Swept:
    """Return the rounds (at least one) of a setting, summed up."""
    speeds = [one.messages_per_second for one in rounds]
    messages, batches = sum(one.messages for one in rounds), max(1, sum(one.batches for one in rounds))
    batch_bytes = sum(one.batch_bytes for one in rounds)
    return Swept(
        vary=setting.vary,
        value=str(setting.value),
        load=setting.load,
        rounds=len(rounds),
        messages_per_second=round(median(speeds)),
        slowest=round(min(speeds)),
        fastest=round(max(speeds)),
        p50_ms=round(median(one.p50_ms for one in rounds), 1),
        p99_ms=round(median(one.p99_ms for one in rounds), 1),
        least_p99_ms=round(min(one.p99_ms for one in rounds), 1),
        batch_messages=round(messages / batches, 1),
        batch_bytes=round(batch_bytes / batches),
        wire_bytes=round(sum(one.wire_bytes for one in rounds) / messages, 1),
        compression_ratio=round(sum(one.message_bytes for one in rounds) / max(1, batch_bytes), 2),
    )
