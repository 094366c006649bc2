"""Nothing was lost and nothing half-written: the next run continues from the ledger."""

from platform_defs.errors.root import TidegateError


class Retryable(TidegateError):
    """Nothing was lost and nothing half-written: the next run continues from the ledger."""


class Fenced(Retryable):
    """A newer epoch owns the pipeline. The run that sees this has changed nothing more and must stop."""

    @classmethod
    def not_the_owner(cls, pipeline: str, epoch: int) -> "Fenced":
        return cls(
            f"{pipeline}: another run took over (this run's epoch {epoch} is no longer the newest), or the "
            "pipeline was halted. This run stops without further changes."
        )

    @classmethod
    def taken_over(cls, pipeline: str) -> "Fenced":
        return cls(
            f"{pipeline}: another run or a command (such as tidegate resolve or tidegate contract apply) took over. "
            "This run stops without further changes."
        )


class PipelineHeld(Retryable):
    """Another run works on the pipeline and is alive. Nothing was changed."""


class RunStopped(Retryable):
    """The run was stopped, and with it the Spark job of its batch. This is no failure, and is not counted."""


class TransformChanged(Retryable):
    """A file that the transform imports has changed since the run imported it."""


class BrokerAway(Retryable):
    """Kafka could not be reached within the limit."""


class LedgerAway(Retryable):
    """Postgres could not be reached within the limit, or refused for a reason that may pass
    (platform_defs/errors/error_policy.py lists the SQLSTATEs).
    """

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class SparkAway(Retryable):
    """Spark lost the job: an executor, its files or the whole session are gone."""

    @classmethod
    def in_job(cls, reason: str) -> "SparkAway":
        return cls(f"Spark lost the job: {reason}. Nothing was published; the batch will be read again.")


class OffsetsUnavailable(Retryable):
    """The broker does not have the requested offsets, or no longer has the topic or partition.

    A task cannot tell retention, truncation and deletion apart: the next run asks the broker, and halts if need be.
    """


class MessageUnreadable(Retryable):
    """The log has something that the Kafka client cannot read: it is damaged, or packed in an unknown way."""


class LogTruncated(Retryable):
    """The log was truncated below the position or within a planned batch and then appended to, as the broker's or the
    messages' leader epochs show (KIP-320).

    Raised in tasks, which know no pipeline: the batch turns the broker's answer into a Halt. Raised before a batch is
    published: it is planned again, with the new leader's log.
    """


class MessageMisplaced(Retryable):
    """The Kafka client returned a message outside the requested range: none of it is kept."""

    @classmethod
    def between(cls, topic: str, wanted: object, found: object) -> "MessageMisplaced":
        """Return the error. `wanted` is the OffsetRange that was being read, `found` describes what came."""
        return cls(
            f"while reading {topic} {wanted}, the Kafka client returned {found}. Nothing from it is kept; the batch "
            "will be read again"
        )


class StagingLost(Retryable):
    """The contents of staging differ from what the tasks reported (a restart of Postgres may empty unlogged tables)."""

    @classmethod
    def other_ranges(cls) -> "StagingLost":
        """Return the error for staged ranges that are not the planned ones."""
        return cls("the staged ranges differ from the planned ones; the batch will be read again")


class NotReproduced(Retryable):
    """A batch failed, and the message at fault could not be found because the failure did not occur again."""


class MessagesSuspected(Retryable):
    """The transform fails on some messages of a batch and not on others. What it calls may be away for these: they
    become dead letters only if they still fail after a while.
    """


class ChangedMeanwhile(Retryable):
    """The data that a person was shown, or that a settlement or replay builds on, has changed. Nothing was changed."""

    @classmethod
    def since_shown(cls, pipeline: str, command: str) -> "ChangedMeanwhile":
        """Return the error of a decision that is out of date. `command` shows the current one."""
        return cls(f"{pipeline} has changed since this was shown; nothing was changed. Check again: {command}")


class OutcomeUnknown(Retryable):
    """COMMIT was sent and neither success nor failure could be established. Never treated as 'did not happen'."""
