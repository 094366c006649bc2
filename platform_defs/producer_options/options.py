"""The options of librdkafka that control how messages are produced: values, defaults, other names.

From librdkafka 2.16 (https://github.com/confluentinc/librdkafka/blob/v2.16.0/CONFIGURATION.md);
tests/unit/producer_options/test_producing_options.py compares each with the installed library. Addresses, passwords and
certificates are not included: they belong to a place, and are settings (TIDEGATE_KAFKA_*).
"""

from collections.abc import Mapping
from dataclasses import dataclass

Value = str | int | bool
MOST = 2_147_483_647


@dataclass(frozen=True)
class Option:
    """An option of a producer: a number from `lowest` to `highest`, one of `choices`, else true or false, or text."""

    name: str
    default: Value  # the library's; "" if there is none
    lowest: int = 0
    highest: int = 0
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()  # librdkafka's other names for it

    @property
    def values(self) -> str:
        """The valid values, in words."""
        if self.choices:
            return ", ".join(self.choices)
        if isinstance(self.default, bool):
            return "true, false"
        return f"{self.lowest} to {self.highest}" if self.highest else "text"


def _choice(name: str, default: str, choices: str, *aliases: str) -> Option:
    return Option(name, default, choices=tuple(choices.split()), aliases=aliases)


def _number(name: str, default: int, lowest: int, highest: int = MOST, *aliases: str) -> Option:
    return Option(name, default, lowest, highest, aliases=aliases)


PARTITIONERS = "random consistent consistent_random murmur2 murmur2_random fnv1a fnv1a_random"
OPTIONS: Mapping[str, Option] = {
    option.name: option
    for option in (
        # librdkafka takes any number up to 1000 for acks, and brokers only these.
        _choice("acks", "all", "0 1 all", "request.required.acks"),
        Option("enable.idempotence", False),
        _number("retries", MOST, 0, MOST, "message.send.max.retries"),
        _number("max.in.flight", 1_000_000, 1, 1_000_000, "max.in.flight.requests.per.connection"),
        Option("transactional.id", ""),
        _choice("partitioner", "consistent_random", PARTITIONERS),
        _number("message.timeout.ms", 300_000, 0, MOST, "delivery.timeout.ms"),
        _number("request.timeout.ms", 30_000, 1, 900_000),
        _number("transaction.timeout.ms", 60_000, 1_000),
        _number("socket.timeout.ms", 60_000, 10, 300_000),
        _number("retry.backoff.ms", 100, 1, 300_000),
        _number("retry.backoff.max.ms", 1_000, 1, 300_000),
        _number("linger.ms", 5, 0, 900_000, "queue.buffering.max.ms"),
        _number("batch.size", 1_000_000, 1),
        _number("batch.num.messages", 10_000, 1, 1_000_000),
        _number("message.max.bytes", 1_000_000, 1_000, 1_000_000_000),
        _number("message.copy.max.bytes", 65_535, 0, 1_000_000_000),
        _choice("compression.type", "none", "none gzip snappy lz4 zstd", "compression.codec"),
        _number("compression.level", -1, -1, 12),
        _number("sticky.partitioning.linger.ms", 10, 0, 900_000),
        _number("queue.buffering.max.messages", 100_000, 0),
        _number("queue.buffering.max.kbytes", 1_048_576, 1),
        _number("queue.buffering.backpressure.threshold", 1, 1, 1_000_000),
        _choice("queuing.strategy", "fifo", "fifo lifo"),
        Option("enable.gapless.guarantee", False),
        _number("statistics.interval.ms", 0, 0, 86_400_000),
        Option("client.id", "rdkafka"),
    )
}
PROMISED = ("acks", "enable.idempotence", "retries", "max.in.flight", "transactional.id", "partitioner")
ALIASES: Mapping[str, str] = {alias: option.name for option in OPTIONS.values() for alias in option.aliases}


def own_name(name: str) -> str:
    """Return Tidegate's name for an option; an unknown one is unchanged."""
    return ALIASES.get(name, name)
