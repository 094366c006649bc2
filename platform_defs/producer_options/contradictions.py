"""Options that exclude each other, in librdkafka's own words and in its order of checks.

The rules of `rd_kafka_conf_finalize` and `rd_kafka_topic_conf_finalize`, for the options in OPTIONS: a contract is
refused when it is read, at its line, without a client. tests/unit/producer_options/test_producing_contradictions.py
compares them with the library.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from platform_defs.producer_options.options import OPTIONS, Value

Contradiction = tuple[str, str]  # the option at fault, and the sentence


def contradiction(options: Mapping[str, Value]) -> Contradiction | None:
    """Return the first contradiction among options by our names; None if librdkafka accepts them."""
    given: dict[str, Any] = dict(options)
    transactional = bool(given.get("transactional.id"))
    rules = chain(_of_transactions(given, transactional), _of_client(given), _of_topic(given))
    return next(rules, None)


def _of_transactions(given: Mapping[str, Any], transactional: bool) -> Iterator[Contradiction]:
    if transactional and given.get("enable.idempotence") is False:
        yield "enable.idempotence", "`transactional.id` requires `enable.idempotence=true`"
    longest = _value(given, "transaction.timeout.ms") + 100
    if transactional and given.get("socket.timeout.ms", 0) > longest:
        yield "socket.timeout.ms", "`socket.timeout.ms` must be set <= `transaction.timeout.ms` + 100"


def _of_client(given: Mapping[str, Any]) -> Iterator[Contradiction]:
    if not _idempotent(given):
        if given.get("enable.gapless.guarantee"):
            needed = "`enable.gapless.guarantee` requires `enable.idempotence` to be enabled"
            yield "enable.gapless.guarantee", needed
        return
    when = "when `enable.idempotence` is true"
    if given.get("max.in.flight", 5) > 5:
        yield "max.in.flight", f"`max.in.flight` must be set <= 5 {when}"
    if given.get("retries", 1) < 1:
        yield "retries", f"`retries` must be set >= 1 {when}"
    if given.get("queue.buffering.backpressure.threshold", 1) > 1:
        name = "queue.buffering.backpressure.threshold"
        yield name, f"`{name}` must be set to 1 {when}"


def _of_topic(given: Mapping[str, Any]) -> Iterator[Contradiction]:
    timeout = _value(given, "message.timeout.ms")
    linger = given.get("linger.ms", -1)
    if 0 < timeout <= linger:
        yield "linger.ms", "`message.timeout.ms` must be greater than `linger.ms`"
    if _idempotent(given):
        when = "when `enable.idempotence` is true"
        if given.get("acks", "all") != "all":
            yield "acks", f"`acks` must be set to `all` {when}"
        if given.get("queuing.strategy") == "lifo":
            yield "queuing.strategy", f"`queuing.strategy` must be set to `fifo` {when}"
    if given.get("transactional.id"):
        transaction = _value(given, "transaction.timeout.ms")
        timeout = given.get("message.timeout.ms", transaction)
        if timeout > transaction:
            yield "message.timeout.ms", "`message.timeout.ms` must be set <= `transaction.timeout.ms`"
        if 0 < timeout <= linger:
            yield "linger.ms", "`message.timeout.ms` must be greater than `linger.ms`"


def _idempotent(given: Mapping[str, Any]) -> bool:
    return bool(given.get("enable.idempotence") or given.get("transactional.id"))


def _value(given: Mapping[str, Any], name: str) -> Any:
    return given.get(name, OPTIONS[name].default)
