"""The outcome of an undelivered message, by librdkafka's error code.

confluent-kafka reports neither whether a message was persisted nor which errors are retriable, so the code decides. It
is the code of the last try: if an earlier try got no answer, its message may be in the log.
"""

from collections.abc import Mapping

from platform_defs.errors import Outcome

CODES: Mapping[str, tuple[int, Outcome]] = {  # by the name of rdkafka.h, without RD_KAFKA_RESP_ERR_
    # No broker accepts this message, however often it is sent.
    "MSG_SIZE_TOO_LARGE": (10, "poison"),
    "INVALID_TIMESTAMP": (32, "poison"),
    "INVALID_RECORD": (87, "poison"),
    # The broker refused the batch before it wrote anything, or it never left the client.
    "_PURGE_QUEUE": (-152, "not_written"),
    "_QUEUE_FULL": (-184, "not_written"),
    "_UNKNOWN_TOPIC": (-188, "not_written"),
    "_UNKNOWN_PARTITION": (-190, "not_written"),
    "NOT_ENOUGH_REPLICAS": (19, "not_written"),
    "TOPIC_AUTHORIZATION_FAILED": (29, "not_written"),
    # It was sent, or may have been, and its outcome was not reported.
    "_PURGE_INFLIGHT": (-151, "unknown"),
    "_MSG_TIMED_OUT": (-192, "unknown"),
    "_TRANSPORT": (-195, "unknown"),
    "REQUEST_TIMED_OUT": (7, "unknown"),
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": (20, "unknown"),
}
_BY_NUMBER: Mapping[int, Outcome] = dict(CODES.values())


def outcome_of(code: int) -> Outcome:
    """Return the outcome of a message whose delivery failed with `code`; `unknown` for a code that is not listed:
    before a retry, the log must be searched.
    """
    return _BY_NUMBER.get(code, "unknown")
