"""What librdkafka says of its connections, apart from its answers.

A user whom no broker lets in gets no answer: librdkafka tries again until the question's time is over, and tells only
its `error_cb` why. Whoever waited in vain looks here.
"""

import re

from confluent_kafka import KafkaError

from platform_defs.errors import BadInput, error_policy
from platform_defs.errors.error_policy import Verdict


class ConnectionLog:
    """An `error_cb` that keeps the last error of a connection. It is called while the client is polled."""

    def __init__(self) -> None:
        self._last: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # says nothing that was not said of each before
            self._last = error

    def forget(self) -> None:
        self._last = None

    @property
    def denied(self) -> KafkaError | None:
        """Why this user is not let in, if that was the last that was heard; a broker that went away since has spoken
        last.
        """
        last = self._last
        return last if last is not None and error_policy.of_kafka(last.name()) is Verdict.DENIED else None

    def refuse_too_large(self, place: str) -> None:
        """Raise BadInput where the last error was a response that librdkafka may not take: it would ask for the same
        response for ever, as a broker returns at least one record batch, however large it is.
        """
        last = self._last
        if last is None or (found := _TOO_LARGE.search(last.str())) is None:
            return
        size, limit = int(found[1]), int(found[2])
        if _OTHER_PROTOCOL.match(size.to_bytes(4)):
            return
        raise BadInput(
            f"Kafka returned {size} bytes for {place}, and this client accepts {limit} (receive.message.max.bytes): a "
            "record batch there is larger. Set TIDEGATE_KAFKA_RECEIVE_MESSAGE_MAX_BYTES to at least "
            f"{size + _FRAME}"
        )


_TOO_LARGE = re.compile(r"Invalid response size (\d+) \(0\.\.(\d+)\): increase receive\.message\.max\.bytes")
# a TLS alert or handshake of version 3.0 to 3.4 (RFC 8446, 5.1), or a status line
_OTHER_PROTOCOL = re.compile(rb"[\x15\x16]\x03[\x00-\x04]|HTTP")
_FRAME = 512  # bytes that librdkafka wants beside the messages
