"""Seven ways to produce, each a named point on two axes: the acknowledgement, and how it is awaited."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from platform_defs.producer_options.options import MOST, Value

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
        "A key goes where the Java producer sends it; messages without a key stay on one partition for a short time.",
    ),
    "message.timeout.ms": (
        120_000,
        "After this time, a message fails. 100 retries take 97 s: a shorter limit would cut them off.",
    ),
    "queue.buffering.max.kbytes": (
        65_536,
        "At most 64 MiB wait to be sent; beyond that, `send` blocks. The library's default would use up to 1 GiB "
        "of memory.",
    ),
    "statistics.interval.ms": (0, "Nothing reads the library's statistics."),
}
_NONE = (0, "Without acknowledgements, the producer never learns of a failure that it could retry.")
_HUNDRED = (100, "With a back-off from 100 ms to 1 s, this lasts about 97 s.")
_FOREVER = (MOST, "Retries are limited by time (message.timeout.ms), not by number.")
_ALL = ("all", "Acknowledged when every in-sync replica has the message: losing the leader loses nothing.")
_PLAIN = (False, "A retry may write a message twice, or after later ones.")
_IDEMPOTENT = (True, "Brokers track each batch's sequence number: none is written twice or out of order.")
_FIVE = (5, "The maximum at which brokers preserve the order of an idempotent producer.")
_FIVE_PLAIN = (5, "The same as with idempotence, so that only idempotence differs.")
_FAST = (5, "The library's default: wait 5 ms for a batch to fill.")
_FULL = (20, "Larger batches and fewer requests; adds up to 20 ms of latency.")
_LZ4 = ("lz4", "Takes little time, and saves most of what stronger codecs save.")


def _preset(name: str, promise: str, waits: Waits, **options: tuple[Value, str]) -> Preset:
    named = {key.replace("_", "."): value for key, value in options.items()}
    every = {**named, **{key: value for key, value in _COMMON.items() if key not in named}}
    values = {key: value for key, (value, _) in every.items()}
    return Preset(name, promise, waits, values, {key: reason for key, (_, reason) in every.items()})


_EVERY = (
    _preset(
        "fire_and_forget",
        "may be lost without notice",
        "never",
        acks=(0, "The broker does not answer: every message counts as delivered once it is written to the socket."),
        enable_idempotence=(False, "It needs acks=all."),
        retries=_NONE,
        linger_ms=_FAST,
        compression_type=_LZ4,
    ),
    _preset(
        "leader",
        "acknowledged messages may be lost with the leader, duplicated or reordered",
        "callback",
        acks=(1, "Acknowledged when the leader has the message, whether or not a follower does."),
        enable_idempotence=(False, "It needs acks=all."),
        retries=_HUNDRED,
        max_in_flight=_FIVE_PLAIN,
        linger_ms=_FAST,
        compression_type=_LZ4,
    ),
    _preset(
        "at_least_once",
        "not lost; may be duplicated or reordered",
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
        "not lost; may be duplicated, and still reordered",
        "callback",
        acks=_ALL,
        enable_idempotence=_PLAIN,
        retries=_HUNDRED,
        max_in_flight=(
            1,
            "Preserves order in the Java producer; librdkafka builds the next batch while one is being retried.",
        ),
        linger_ms=_FULL,
        compression_type=_LZ4,
    ),
    _preset(
        "asynchronous",
        "not lost, not duplicated, in order, for the lifetime of one producer and while no message times out",
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
        "as asynchronous, but waits for each ack before sending the next: one round trip per message",
        "each",
        acks=_ALL,
        enable_idempotence=_IDEMPOTENT,
        retries=_FOREVER,
        max_in_flight=_FIVE,
        linger_ms=(0, "Only one message is sent at a time: there is nothing to wait for."),
        compression_type=("none", "One small message does not shrink."),
    ),
    _preset(
        "transactional",
        "all or nothing per transaction; a restart with the same transactional.id fences the older producer",
        "commit",
        acks=_ALL,
        enable_idempotence=_IDEMPOTENT,
        retries=_FOREVER,
        max_in_flight=_FIVE,
        linger_ms=_FAST,
        compression_type=_LZ4,
        message_timeout_ms=(60_000, "Must not exceed transaction.timeout.ms, or the library rejects it."),
        transaction_timeout_ms=(60_000, "If a process hangs, its open transaction blocks readers for this long."),
    ),
)
PRESETS: Mapping[str, Preset] = {preset.name: preset for preset in _EVERY}
DEFAULT = "asynchronous"
