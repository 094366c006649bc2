"""Nothing was lost and nothing half-written: the next run continues from the ledger."""

from collections.abc import Sequence
from typing import Any

from platform_defs.errors.root import TidegateError
from platform_defs.errors.words import plural


class Retryable(TidegateError):
    """Nothing was lost and nothing half-written: the next run continues from the ledger."""


class Fenced(Retryable):
    """A newer epoch owns the pipeline. The run that sees this has changed nothing more and must stop."""

    def __init__(self, message: str, *, pipeline: str | None = None, epoch: int | None = None) -> None:
        super().__init__(message)
        self.pipeline, self.epoch = pipeline, epoch

    @classmethod
    def not_the_owner(cls, pipeline: str, epoch: int) -> "Fenced":
        return cls(
            f"{pipeline}: another run took over (this run's epoch {epoch} is no longer the newest), or the "
            "pipeline was halted. This run stops without further changes.",
            pipeline=pipeline,
            epoch=epoch,
        )

    @classmethod
    def taken_over(cls, pipeline: str) -> "Fenced":
        return cls(
            f"{pipeline}: another run, or tidegate resolve, took over; this run stops without further changes.",
            pipeline=pipeline,
        )

    @classmethod
    def in_commit(cls, pipeline: str, batch_id: int) -> "Fenced":
        return cls(
            f"{pipeline}: another run took over while batch {batch_id} was being published; this run stops, and "
            "has not published the batch.",
            pipeline=pipeline,
        )

    @classmethod
    def positions_moved(cls, pipeline: str, batch_id: int, moved: int, positions: int) -> "Fenced":
        return cls(
            f"{pipeline}: {moved} of {positions} positions have changed since batch {batch_id} was planned; no "
            "position was moved",
            pipeline=pipeline,
        )

    @classmethod
    def not_planned(cls, pipeline: str, span: object) -> "Fenced":
        return cls(
            f"{pipeline}: {span} is no longer planned (another try published it, or a user split or dropped the "
            "batch); nothing was changed",
            pipeline=pipeline,
        )

    @classmethod
    def in_another_log(cls, pipeline: str, topic: str, partition: int) -> "Fenced":
        return cls(
            f"{pipeline}: its other partitions belong to a different topic, or to one created before {topic} with "
            f"partition {partition}; nothing was changed",
            pipeline=pipeline,
        )


class PipelineHeld(Retryable):
    """Another run works on the pipeline and is alive. Nothing was changed."""

    def __init__(self, message: str, *, pipeline: str | None = None, run_id: str | None = None) -> None:
        super().__init__(message)
        self.pipeline, self.run_id = pipeline, run_id

    @classmethod
    def by_run(cls, pipeline: str, run_id: str | None) -> "PipelineHeld":
        who = f"run {run_id}" if run_id else "a run that Dagster did not start"
        return cls(
            f"{pipeline} is in use by {who}, whose process is still running. Nothing was changed. Wait until it "
            "ends, or stop it.",
            pipeline=pipeline,
            run_id=run_id,
        )


class RunStopped(Retryable):
    """The run was stopped, and with it the Spark job of its batch. This is no failure, and is not counted."""

    def __init__(self, message: str, *, pipeline: str | None = None, batch_id: int | None = None) -> None:
        super().__init__(message)
        self.pipeline, self.batch_id = pipeline, batch_id

    @classmethod
    def before(cls, pipeline: str, batch_id: int) -> "RunStopped":
        return cls(
            f"the run was stopped before batch {batch_id} of {pipeline} was published. Nothing from it was "
            "written; the next run reads it again",
            pipeline=pipeline,
            batch_id=batch_id,
        )


class TransformChanged(Retryable):
    """A file that the transform imports has changed since the run imported it. `file` is its path in the project."""

    def __init__(self, message: str, *, file: str | None = None) -> None:
        super().__init__(message)
        self.file = file

    @classmethod
    def under_a_run(cls, pipeline: str, batch_id: int, file: str) -> "TransformChanged":
        return cls(
            f"{pipeline}: {file}, which its transform imports, has changed since this run imported it, and Python "
            f"workers may run either version. Nothing from batch {batch_id} was published; the next run imports "
            "the file again and reads the batch again",
            file=file,
        )


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
    """Spark lost the job: an executor, its files or the whole session are gone. `causes` are Java's exceptions."""

    def __init__(self, message: str, *, causes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.causes = tuple(causes)

    @classmethod
    def in_job(cls, reason: str, causes: Sequence[str]) -> "SparkAway":
        return cls(f"Spark lost the job: {reason}. Nothing was published; the batch will be read again.", causes=causes)


class OffsetsUnavailable(Retryable):
    """The broker does not have the requested offsets, or no longer has the topic or partition.

    A task cannot tell retention, truncation and deletion apart: the next run asks the broker, and halts if need be.
    """

    def __init__(
        self, message: str, *, topic: str | None = None, partition: int | None = None, offset: int | None = None
    ) -> None:
        super().__init__(message)
        self.topic, self.partition, self.offset = topic, partition, offset

    @classmethod
    def at(cls, topic: str, partition: int, offset: int, reason: str) -> "OffsetsUnavailable":
        return cls(
            f"{topic}[{partition}] cannot be read at offset {offset}: {reason}. The next run asks the broker why.",
            topic=topic,
            partition=partition,
            offset=offset,
        )


class MessageUnreadable(Retryable):
    """The log has something that the Kafka client cannot read: it is damaged, or packed in an unknown way."""

    @classmethod
    def at(cls, topic: str, partition: int, offset: int, reason: str) -> "MessageUnreadable":
        return cls(
            f"{topic}[{partition}] has data at or after offset {offset} that cannot be read: {reason}. Nothing was "
            "skipped; the batch will be read again."
        )


class LogTruncated(Retryable):
    """The log was truncated below the position or within a planned batch and then appended to, as the broker's or the
    messages' leader epochs show (KIP-320).

    Raised in tasks, which know no pipeline: the batch turns the broker's answer into a Halt. Raised before a batch is
    published: it is planned again, with the new leader's log.
    """

    @classmethod
    def since_planned(cls, span: object, planned: int, found: int) -> "LogTruncated":
        """Return the error. `planned` is the leader epoch in which the end of the batch was seen, `found` that of a
        message below it.
        """
        return cls(
            f"{span} was planned at leader epoch {planned} but contains messages of leader epoch {found}: an unclean "
            "leader election truncated the log after the batch was planned. Nothing was published. The batch will be "
            "planned again; if the log was also truncated below the batch, the pipeline halts"
        )


class MessageMisplaced(Retryable):
    """The Kafka client returned a message outside the requested range: none of it is kept."""

    def __init__(self, message: str, *, topic: str | None = None, partition: int | None = None) -> None:
        super().__init__(message)
        self.topic, self.partition = topic, partition

    @classmethod
    def between(cls, wanted: Any, found: object) -> "MessageMisplaced":
        """Return the error. `wanted` is the OffsetRange that was being read, `found` describes what came."""
        return cls(
            f"while reading {wanted.topic} {wanted}, the Kafka client returned {found}. Nothing from it is kept; "
            "the batch will be read again",
            topic=wanted.topic,
            partition=wanted.partition,
        )


class StagingLost(Retryable):
    """The contents of staging differ from what the tasks reported (a restart of Postgres may empty unlogged tables)."""

    def __init__(self, message: str, *, reported: int | None = None, found: int | None = None) -> None:
        super().__init__(message)
        self.reported, self.found = reported, found

    @classmethod
    def rows(cls, reported: int, found: int) -> "StagingLost":
        return cls(
            f"the tasks staged {plural(reported, 'row')}, but staging has {found} (did Postgres restart?); the "
            "batch will be read again",
            reported=reported,
            found=found,
        )

    @classmethod
    def dead_letters(cls, reported: int, found: int) -> "StagingLost":
        return cls(
            f"the tasks staged {plural(reported, 'dead letter')}, but staging has {found}; the batch will be read "
            "again",
            reported=reported,
            found=found,
        )

    @classmethod
    def decoded(cls, staged: int, decoded: int) -> "StagingLost":
        return cls(
            f"the tasks decoded {plural(decoded, 'row')} but staged {staged}; the batch will be read again",
            reported=decoded,
            found=staged,
        )

    @classmethod
    def ranges(cls) -> "StagingLost":
        return cls("the staged ranges differ from the planned ones; the batch will be read again")

    @classmethod
    def unread(cls, span: object) -> "StagingLost":
        return cls(f"no task read {span} to its end; the batch will be read again")

    @classmethod
    def disagree(cls, span: object, one: object, other: object) -> "StagingLost":
        return cls(f"two complete attempts at {span} disagree: {one} and {other}; the batch will be read again")

    @classmethod
    def of_another_log(cls, span: object, before: object, after: object) -> "StagingLost":
        return cls(
            f"messages of {span} have leader epoch {after}, and those before them {before}: they come from "
            "different logs of the topic. The batch will be read again"
        )

    @classmethod
    def forgotten(cls, staging_id: int) -> "StagingLost":
        return cls(f"attempt {staging_id} at the batch was deleted from staging; the batch will be read again")

    @classmethod
    def coverage(cls, span: object) -> "StagingLost":
        return cls(f"the coverage of {span} is gone from staging (did Postgres restart?); the batch will be read again")


class NotReproduced(Retryable):
    """A batch failed, and the message at fault could not be found because the failure did not occur again."""

    @classmethod
    def in_transform(cls, reason: str) -> "NotReproduced":
        return cls(
            f"the job failed, but no message fails when retried by itself ({reason}); the batch will be read again"
        )

    @classmethod
    def in_table(cls, table: str, refusal: str) -> "NotReproduced":
        return cls(f"{table} rejected the batch ({refusal}) but now accepts it; it will be read again")

    @classmethod
    def in_search(cls, table: str, refusal: str) -> "NotReproduced":
        return cls(
            f"{table} accepted rows in a trial write and then rejected them ({refusal}); the batch will be read again"
        )


class MessagesSuspected(Retryable):
    """The transform fails on some messages of a batch and not on others. What it calls may be away for these: they
    become dead letters only if they still fail after a while.

    `messages` is their number.
    """

    def __init__(self, message: str, *, pipeline: str | None = None, messages: int = 0) -> None:
        super().__init__(message)
        self.pipeline, self.messages = pipeline, messages

    @classmethod
    def of_batch(cls, pipeline: str, batch_id: int, messages: int, first: str, seconds: float) -> "MessagesSuspected":
        """Return the error. `first` names the first one, and why it fails; `seconds` is how long they have to fail."""
        return cls(
            f"{pipeline}: {plural(messages, 'message')} of batch {batch_id} cannot be transformed, although others "
            f"can. The first: {first}. Nothing was published, since a service that the transform calls may be "
            f"unavailable for these. Messages that still fail after {seconds:.0f} seconds become dead letters",
            pipeline=pipeline,
            messages=messages,
        )


class ChangedMeanwhile(Retryable):
    """The data that a person was shown, or that a settlement or replay builds on, has changed. Nothing was changed."""

    def __init__(self, message: str, *, pipeline: str | None = None) -> None:
        super().__init__(message)
        self.pipeline = pipeline


class OutcomeUnknown(Retryable):
    """COMMIT was sent and neither success nor failure could be established. Never treated as 'did not happen'."""

    def __init__(self, message: str, *, batch_id: int | None = None) -> None:
        super().__init__(message)
        self.batch_id = batch_id

    @classmethod
    def of_batch(cls, batch_id: int, reason: object) -> "OutcomeUnknown":
        return cls(
            f"the connection was lost during the COMMIT of batch {batch_id}, and Postgres cannot be reached: "
            f"{reason}. Whether the batch was committed is in the ledger; the next run continues from there.",
            batch_id=batch_id,
        )
