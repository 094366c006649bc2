"""A message, or a transaction of messages, that was not written to Kafka, or may not have been."""

from typing import Literal

from platform_defs.errors.retryable import Retryable
from platform_defs.errors.root import TidegateError

Outcome = Literal["poison", "not_written", "unknown"]  # by code: producing/outcomes.py


class NotDelivered(TidegateError):
    """Kafka did not acknowledge a message.

    `code` is librdkafka's, `reason` its name. `outcome` is the fate of the message: `poison` (no broker accepts it),
    `not_written`, or `unknown` (it may be in the log).
    """

    def __init__(self, message: str, *, code: int = 0, reason: str = "", outcome: Outcome = "unknown") -> None:
        super().__init__(message)
        self.code, self.reason = code, reason
        self.outcome: Outcome = outcome


class TransactionAborted(Retryable):
    """A transaction of a producer was aborted: readers of committed messages see none of it. It can be sent again.

    `code`, `reason`, `outcome`: of the failure in it, as in NotDelivered; `poison` fails again.
    """

    def __init__(self, message: str, *, code: int = 0, reason: str = "", outcome: Outcome = "unknown") -> None:
        super().__init__(message)
        self.code, self.reason = code, reason
        self.outcome: Outcome = outcome


class ProducerBroken(TidegateError):
    """A producer cannot go on: close it and make a new one. Whether the transaction that it was in has been committed
    is unknown until a new producer with the same transactional.id has started: only then read the log.
    """


class ProducerFenced(ProducerBroken):
    """A newer producer with the same transactional.id took over. This one must stop, and must not be replaced."""


class UnsentLost(TidegateError):
    """Messages that were not delivered could not be kept either: neither in Postgres nor in a file."""
