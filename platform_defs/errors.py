"""Every error the engine raises on purpose.

TidegateError
├── Retryable             nothing was lost or written; the next run goes on
│   ├── Fenced            another run took the pipeline over; this one changed nothing
│   ├── BrokerAway        Kafka did not answer within the limit
│   ├── LedgerAway        Postgres did not answer within the limit
│   ├── StagingLost       staged rows or coverage are missing or disagree; the same ranges are read again
│   ├── LogTruncated      the log was cut and written on; a task says so, and the batch makes a Halt of it
│   └── OutcomeUnknown    the connection died in COMMIT and the answer could not be had; the ledger knows it
├── RowsLost              at_most_once: the offsets were committed and the rows were not
├── RowRefused            the table refuses a message; it becomes a dead letter
│   └── TransformFailed   the transform does
├── GateFailed            a blocking check failed: nothing was published, the same ranges are judged again
├── Halt                  going on would lose or repeat data: a person decides
└── BadInput              a user's contract, transform, setting or argument cannot be used
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

# What stops a pipeline, and what settles each: docs/how-to/halts.md.
HaltCode = Literal[
    "topic_recreated",
    "cluster_switched",
    "retention_passed",
    "log_truncated",
    "partition_missing",
    "too_many_dead_letters",
    "accumulate_refused",
]
SEEN: Mapping[HaltCode, str] = {
    "topic_recreated": "the topic was deleted and created again: its id is another.",
    "cluster_switched": "the brokers answer as another cluster.",
    "retention_passed": "messages were deleted before they were read.",
    "log_truncated": "the log was cut below what was read or planned.",
    "partition_missing": "the broker has no longer a partition that was read.",
    "too_many_dead_letters": "a batch has more dead letters than the contract allows; nothing of it was published.",
    "accumulate_refused": "the sums of a batch break a constraint of their table; nothing of it was published.",
}


class TidegateError(Exception):
    """The root: `except TidegateError` catches what the project raises on purpose, and nothing else."""


class Retryable(TidegateError):
    """Nothing was lost and nothing half-written: the next run goes on from the ledger."""


class Fenced(Retryable):
    """A newer epoch owns the pipeline. The one who sees this has changed nothing and must stop."""


class BrokerAway(Retryable):
    """Kafka could not be reached within the limit."""


class LedgerAway(Retryable):
    """Postgres could not be reached within the limit, or refused for want of resources (SQLSTATE 08, 40, 53, 55,
    57).
    """


class StagingLost(Retryable):
    """What the tasks staged is not what they reported (a database restart empties unlogged tables)."""


class LogTruncated(Retryable):
    """The log was cut below the position and written on from there: the broker's leader epochs say so (KIP-320).

    Raised in tasks, where no Halt can be told; a batch makes a Halt of it.
    """


class OutcomeUnknown(Retryable):
    """COMMIT was sent and neither success nor failure could be established. Never read as 'did not happen'."""


class RowsLost(TidegateError):
    """A pipeline of delivery at_most_once committed a batch's offsets, and could not write its rows after that."""


class RowRefused(TidegateError):
    """A row broke a type or constraint of its target table (SQLSTATE 22, 23). The engine finds which message it was."""


class TransformFailed(RowRefused):
    """The Spark job fails with the transform in it, each time it is tried."""


class GateFailed(TidegateError):
    """A blocking check of a batch failed. Offsets stay; the pending ranges are judged again on the next try.

    `results` holds every check result of the batch, passed and failed (`contract.CheckResult`).
    """

    def __init__(self, message: str, results: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.results = tuple(results)


class Halt(TidegateError):
    """The pipeline stops until a person settles it.

    `reason` says what was seen, `detail` is a JSON object with the exact ranges, `command` is what shows how to settle
    it.
    """

    def __init__(self, pipeline: str, code: HaltCode, message: str, detail: dict[str, Any] | None = None) -> None:
        self.pipeline, self.code, self.reason, self.detail = pipeline, code, message, detail or {}
        self.command = f"tidegate ack {pipeline}"
        super().__init__(f"{pipeline} is halted ({code}): {message} To see what settles it: {self.command}")

    @classmethod
    def remembered(cls, pipeline: str, code: HaltCode, detail: dict[str, Any] | None) -> "Halt":
        """A halt as the ledger keeps it: its code and its detail."""
        return cls(pipeline, code, SEEN[code], detail)


class BadInput(TidegateError):
    """Something a user wrote cannot be used. Says where, what, and what would be right."""

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, field: str | None = None
    ) -> None:
        where = ":".join(str(part) for part in (file, line) if part is not None)
        place = " ".join(part for part in (where, f"({field})" if field else "") if part)
        self.file, self.line, self.field = file, line, field
        super().__init__(f"{place}: {message}" if place else message)
