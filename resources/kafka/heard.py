"""What librdkafka says of its connections, apart from its answers.

A user whom no broker lets in gets no answer: librdkafka tries again until the question's time is over, and tells only
its `error_cb` why. Whoever waited in vain looks here.
"""

from confluent_kafka import KafkaError

from platform_defs import verdicts
from platform_defs.verdicts import Verdict


class Heard:
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
        return last if last is not None and verdicts.of_kafka(last.name()) is Verdict.DENIED else None
