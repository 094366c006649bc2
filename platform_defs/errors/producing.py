"""A message, or a transaction of messages, that was not written to Kafka, or may not have been."""

from platform_defs.errors.retryable import Retryable
from platform_defs.errors.root import TidegateError


class NotDelivered(TidegateError):
    """Kafka did not acknowledge a message.

    `code` is librdkafka's, `reason` its name. `outcome` says what became of the message: `poison` (no broker takes
    it), `not_written`, or `unknown` (it may be in the log).
    """

    def __init__(self, message: str, *, code: int = 0, reason: str = "", outcome: str = "unknown") -> None:
        super().__init__(message)
        self.code, self.reason, self.outcome = code, reason, outcome


class TransactionAborted(Retryable):
    """A transaction of a producer was aborted: nobody who reads committed messages sees any of it. It can be sent
    again.

    `code`, `reason`, `outcome`: of what failed in it, as NotDelivered has them; a poison fails again.
    """

    def __init__(self, message: str, *, code: int = 0, reason: str = "", outcome: str = "unknown") -> None:
        super().__init__(message)
        self.code, self.reason, self.outcome = code, reason, outcome


class ProducerBroken(TidegateError):
    """A producer cannot go on: close it and make a new one. Whether the transaction that it was in has been committed
    is unknown until a new producer with the same transactional.id has started: only then ask the log.
    """


class ProducerFenced(ProducerBroken):
    """A newer producer with the same transactional.id took over. This one must stop, and must not be replaced."""
