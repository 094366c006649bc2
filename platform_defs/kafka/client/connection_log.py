"""librdkafka's messages about its connections, apart from its answers.

A user whose login all brokers refuse gets no answer: librdkafka retries until the query's time is over, and reports the
reason only to its `error_cb`. A caller that waited in vain reads it here.
"""

import re

from confluent_kafka import KafkaError

from platform_defs.errors import BadInput, error_policy
from platform_defs.errors.error_policy import ErrorPolicy

# errors have librdkafka's reason; TIDEGATE_KAFKA_LOG_LEVEL overrides it
NO_LOG = {"log_level": "0"}


class ConnectionLog:
    """An `error_cb` that keeps the last error of a connection. It is called while the client is polled."""

    def __init__(self) -> None:
        self._last: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # adds nothing to the error of each broker
            self._last = error

    def forget(self) -> None:
        self._last = None

    @property
    def denied(self) -> KafkaError | None:
        """The refusal of this user's login, if it is the last error; that of an unavailable broker replaces it."""
        last = self._last
        return last if last is not None and error_policy.of_kafka(last.name()) is ErrorPolicy.DENIED else None

    def why(self, error: KafkaError) -> str:
        """Return the reason for `error`: the last error of a connection, such as "Connection refused", if `error` only
        says that no answer came.
        """
        away = error_policy.of_kafka(error.name()) is ErrorPolicy.AWAY
        return (self._last if self._last is not None and away else error).str()

    def refuse_too_large(self, place: str) -> None:
        """Raise BadInput if the last error was a response that librdkafka may not take: it would request the same
        response forever, as a broker returns at least one record batch, however large it is.
        """
        last = self._last
        if last is None or (found := _TOO_LARGE.search(last.str())) is None:
            return
        size, limit = int(found[1]), int(found[2])
        if _OTHER_PROTOCOL.match(size.to_bytes(4)):
            return
        raise BadInput(
            f"Kafka returned {size} bytes for {place}, but this client accepts only {limit} "
            "(receive.message.max.bytes): a record batch there is larger. Set "
            f"TIDEGATE_KAFKA_RECEIVE_MESSAGE_MAX_BYTES to at least {size + _FRAME}"
        )


_TOO_LARGE = re.compile(r"Invalid response size (\d+) \(0\.\.(\d+)\): increase receive\.message\.max\.bytes")
# a TLS alert or handshake of version 3.0 to 3.4 (RFC 8446, 5.1), or a status line
_OTHER_PROTOCOL = re.compile(rb"[\x15\x16]\x03[\x00-\x04]|HTTP")
_FRAME = 512  # bytes that librdkafka needs in addition to the messages
