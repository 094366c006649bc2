"""Seven ways to produce, each a named point on two axes: the acknowledgement, and how it is awaited."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from platform_defs.producing.options import MOST, Value

Waits = Literal["never", "callback", "each", "commit"]


@dataclass(frozen=True)
class Preset:
    """A way to produce.

    `promise`: the guarantee for an acknowledged message. `waits`: never; by a callback while others are sent; after
    each message; at each commit of a transaction. `options`: by librdkafka's names. `reasons`: the reason for each
    option's value, in one sentence.
    """

    name: str
    promise: str
    waits: Waits
    options: Mapping[str, Value]
    reasons: Mapping[str, str]


_COMMON: Mapping[str, tuple[Value, str]] = {
    "partitioner": (
        "murmur2_random",
        "A key goes where Java's producer sends it; messages without a key stay on one partition for a moment.",
    ),
    "message.timeout.ms": (
        120_000,
        "After this a message has failed. 100 retries take 97 s: a shorter limit would end them early.",
    ),
    "queue.buffering.max.kbytes": (
        65_536,
        "64 MiB wait to be sent at most; beyond that `send` waits. The library would take up to 1 GiB of memory.",
    ),
    "statistics.interval.ms": (0, "Nothing reads the library's statistics."),
}
_NONE = (0, "Without an acknowledgement there is nothing to be told that a retry would answer.")
_HUNDRED = (100, "With the back-off from 100 ms to 1 s: for about 97 s.")
_FOREVER = (MOST, "The clock ends the tries (message.timeout.ms), not their number.")
_ALL = ("all", "Acknowledged when every in-sync replica has it: the loss of the leader loses nothing.")
_PLAIN = (False, "A retry may write a message twice, and behind later ones.")
_IDEMPOTENT = (True, "Brokers know each batch by its number: none is written twice or out of order.")
_FIVE = (5, "The most with which brokers keep the order of an idempotent producer.")
_FIVE_PLAIN = (5, "As many as with idempotence, so that only idempotence differs.")
_FAST = (5, "The library's default: 5 ms are waited for a batch to fill.")
_FULL = (20, "Larger batches, fewer requests; costs up to 20 ms.")
_LZ4 = ("lz4", "Costs little time, and saves most of what stronger ones save.")


def _preset(name: str, promise: str, waits: Waits, **options: tuple[Value, str]) -> Preset:
    named = {key.replace("_", "."): value for key, value in options.items()}
    every = {**named, **{key: value for key, value in _COMMON.items() if key not in named}}
    values = {key: value for key, (value, _) in every.items()}
    return Preset(name, promise, waits, values, {key: reason for key, (_, reason) in every.items()})


_EVERY = (
    _preset(
        "fire_and_forget",
        "may be lost, and nobody is told",
        "never",
        acks=(0, "The broker does not answer: every message counts as delivered once it was written to the socket."),
        enable_idempotence=(False, "It needs acks=all."),
        retries=_NONE,
        linger_ms=_FAST,
        compression_type=_LZ4,
    ),
    _preset(
        "leader",
        "what was acknowledged may be lost with the leader, doubled, reordered",
        "callback",
        acks=(1, "Acknowledged when the leader has it, whether or not a follower does."),
        enable_idempotence=(False, "It needs acks=all."),
        retries=_HUNDRED,
        max_in_flight=_FIVE_PLAIN,
        linger_ms=_FAST,
        compression_type=_LZ4,
    ),
    _preset(
        "at_least_once",
        "not lost; may be doubled, reordered",
        "callback",
        acks=_ALL,
        enable_idempotence=_PLAIN,
        retries=_HUNDRED,
        max_in_flight=_FIVE_PLAIN,
        linger_ms=_FULL,
        compression_type=_LZ4,
    ),
    _preset(
        "one_in_flight",
        "not lost; may be doubled, and reordered all the same",
        "callback",
        acks=_ALL,
        enable_idempotence=_PLAIN,
        retries=_HUNDRED,
        max_in_flight=(1, "Keeps the order in Java's producer; librdkafka builds the next batch while one is retried."),
        linger_ms=_FULL,
        compression_type=_LZ4,
    ),
    _preset(
        "asynchronous",
        "not lost, not doubled, in order, within one producer's life and while none times out",
        "callback",
        acks=_ALL,
        enable_idempotence=_IDEMPOTENT,
        retries=_FOREVER,
        max_in_flight=_FIVE,
        linger_ms=_FULL,
        compression_type=_LZ4,
    ),
    _preset(
        "synchronous",
        "as asynchronous, and waits for each ack before sending the next: a round trip a message",
        "each",
        acks=_ALL,
        enable_idempotence=_IDEMPOTENT,
        retries=_FOREVER,
        max_in_flight=_FIVE,
        linger_ms=(0, "There is one message at a time: nothing to wait for."),
        compression_type=("none", "One small message does not shrink."),
    ),
    _preset(
        "transactional",
        "all or none of a transaction; holds across a restart with the same id, and fences the older producer",
        "commit",
        acks=_ALL,
        enable_idempotence=_IDEMPOTENT,
        retries=_FOREVER,
        max_in_flight=_FIVE,
        linger_ms=_FAST,
        compression_type=_LZ4,
        message_timeout_ms=(60_000, "At most transaction.timeout.ms, or the library refuses it."),
        transaction_timeout_ms=(60_000, "An open transaction of a process that hangs holds back readers for so long."),
    ),
)
PRESETS: Mapping[str, Preset] = {preset.name: preset for preset in _EVERY}
DEFAULT = "asynchronous"
