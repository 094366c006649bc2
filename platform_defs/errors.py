"""Every error the engine raises on purpose.

TidegateError
├── Retryable                nothing was lost and nothing half-written; the next run continues from the ledger
│   ├── Fenced               another run took the pipeline over; this one changed nothing
│   ├── PipelineHeld         another run works on the pipeline, and this one does not take it over
│   ├── BrokerAway           Kafka did not answer within the limit
│   ├── LedgerAway           Postgres did not answer within the limit
│   ├── OffsetsUnavailable   the broker does not have the offsets asked for; the next run finds out why
│   ├── LogTruncated         the log was truncated, then appended to; raised in a task, and the batch makes a Halt of it
│   ├── StagingLost          staged rows or coverage are missing or disagree; the same ranges are read again
│   ├── NotReproduced        a failure could not be reproduced; the same ranges are read again
│   ├── ChangedMeanwhile     what a person was shown, or what this depends on, has changed; look again
│   └── OutcomeUnknown       the connection died in COMMIT and its outcome could not be read; the ledger has it
├── RowsLost                 at_most_once: the offsets were committed and the rows were not
├── RowRefused               a table rejects a row; the message becomes a dead letter of stage `publish`
├── TransformFailed          the transform fails on a message, which becomes a dead letter of stage `transform`
├── BatchRejected            the batch cannot be published as it is; the same offsets are tried again after a back-off
│   ├── GateFailed           a blocking check failed
│   ├── TransformBroken      the transform fails on every message of a sample
│   └── TooManyRefused       more messages fail in the transform or the table than are isolated one by one
├── Halt                     continuing would lose or repeat data: a person decides (platform_defs/halts.py)
└── BadInput                 a user's contract, transform, setting or argument cannot be used
    ├── TopicMissing         Kafka has no topic of the contract's name
    ├── LedgerMissing        the database has no ledger yet
    ├── LedgerOutdated       the ledger is older than this version of Tidegate; `tidegate migrate`
    └── LedgerTooNew         the ledger is newer than this version of Tidegate; upgrade it

`str(error)` is a sentence for people; what a program may want of it is in attributes. All of them can be pickled. A
message alone makes any of them except GateFailed's and Halt's own data: Spark hands back nothing else from a task.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from platform_defs.halts import HaltDetail, read_detail
from platform_defs.words import plural


class TidegateError(Exception):
    """The root: `except TidegateError` catches what the project raises on purpose, and nothing else."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as type, arguments and attributes, whatever the signature of `__init__`."""
        return _restore, (type(self), self.args, dict(vars(self)))


def _restore(kind: type[TidegateError], args: tuple[Any, ...], attributes: Mapping[str, Any]) -> TidegateError:
    error = kind.__new__(kind, *args)
    vars(error).update(attributes)
    return error


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
            f"{pipeline}: another run took over (epoch {epoch}, of this run, is no longer the newest), or the pipeline "
            "was halted. This run has changed nothing more and stops.",
            pipeline=pipeline,
            epoch=epoch,
        )

    @classmethod
    def taken_over(cls, pipeline: str) -> "Fenced":
        return cls(
            f"{pipeline}: another run, or a settlement, took over; this run has changed nothing more and stops.",
            pipeline=pipeline,
        )

    @classmethod
    def in_commit(cls, pipeline: str, batch_id: int) -> "Fenced":
        return cls(
            f"{pipeline}: another run took over while batch {batch_id} was being published; this run has changed "
            "nothing and stops.",
            pipeline=pipeline,
        )

    @classmethod
    def positions_moved(cls, pipeline: str, batch_id: int, moved: int, positions: int) -> "Fenced":
        return cls(
            f"{pipeline}: {moved} of {positions} positions are no longer where batch {batch_id} was planned from; "
            "none was moved",
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
            f"{pipeline} is held by {who}, whose process is alive. Nothing was changed. Wait until it has ended, or "
            "end it.",
            pipeline=pipeline,
            run_id=run_id,
        )


class BrokerAway(Retryable):
    """Kafka could not be reached within the limit."""


class LedgerAway(Retryable):
    """Postgres could not be reached within the limit, or refused for lack of resources (SQLSTATE class 08, 40, 53, 55
    or 57).
    """

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class OffsetsUnavailable(Retryable):
    """The broker does not have the offsets asked for, or no longer has the topic or partition.

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


class LogTruncated(Retryable):
    """The log was truncated below the position, then appended to: the broker's leader epochs say so (KIP-320).

    Raised in tasks, which know no pipeline; the batch makes a Halt of it.
    """


class StagingLost(Retryable):
    """What is in staging is not what the tasks reported (a restart of Postgres may empty unlogged tables)."""

    def __init__(self, message: str, *, reported: int | None = None, found: int | None = None) -> None:
        super().__init__(message)
        self.reported, self.found = reported, found

    @classmethod
    def rows(cls, reported: int, found: int) -> "StagingLost":
        return cls(
            f"the tasks staged {plural(reported, 'row')}, staging holds {found} of them (did Postgres restart?); "
            "the batch will be read again",
            reported=reported,
            found=found,
        )

    @classmethod
    def dead_letters(cls, reported: int, found: int) -> "StagingLost":
        return cls(
            f"the tasks staged {plural(reported, 'dead letter')}, staging holds {found} of them; "
            "the batch will be read again",
            reported=reported,
            found=found,
        )

    @classmethod
    def decoded(cls, staged: int, decoded: int) -> "StagingLost":
        return cls(
            f"the tasks decoded {plural(decoded, 'row')} and staged {staged} of them; the batch will be read again",
            reported=decoded,
            found=staged,
        )

    @classmethod
    def ranges(cls) -> "StagingLost":
        return cls("the staged ranges are not the planned ones; the batch will be read again")

    @classmethod
    def unread(cls, span: object) -> "StagingLost":
        return cls(f"no task read {span} to its end; the batch will be read again")

    @classmethod
    def disagree(cls, span: object, one: object, other: object) -> "StagingLost":
        return cls(f"two complete attempts at {span} disagree: {one} and {other}; the batch will be read again")

    @classmethod
    def coverage(cls, span: object) -> "StagingLost":
        return cls(f"the coverage of {span} is gone from staging (did Postgres restart?); the batch will be read again")


class NotReproduced(Retryable):
    """A batch failed, and the message at fault could not be found since the failure did not occur again."""

    @classmethod
    def in_transform(cls) -> "NotReproduced":
        return cls("the job failed, but no range fails when it is tried alone; the batch will be read again")

    @classmethod
    def in_table(cls, table: str, refusal: str) -> "NotReproduced":
        return cls(f"{table} rejected the batch ({refusal}) but now accepts it; it will be read again")


class ChangedMeanwhile(Retryable):
    """What a person was shown, or what a settlement or replay builds on, is no longer so. Nothing was changed."""

    def __init__(self, message: str, *, pipeline: str | None = None) -> None:
        super().__init__(message)
        self.pipeline = pipeline


class OutcomeUnknown(Retryable):
    """COMMIT was sent and neither success nor failure could be established. Never read as 'did not happen'."""

    def __init__(self, message: str, *, batch_id: int | None = None) -> None:
        super().__init__(message)
        self.batch_id = batch_id

    @classmethod
    def of_batch(cls, batch_id: int, reason: object) -> "OutcomeUnknown":
        return cls(
            f"the connection died in the COMMIT of batch {batch_id} and Postgres cannot be asked: {reason}. The ledger "
            "has the outcome; the next run continues from there.",
            batch_id=batch_id,
        )


class RowsLost(TidegateError):
    """A pipeline of delivery at_most_once committed a batch's offsets, and could not write its rows after that."""

    def __init__(self, message: str, *, pipeline: str = "", batch_id: int | None = None, rows: int = 0) -> None:
        super().__init__(message)
        self.pipeline, self.batch_id, self.rows = pipeline, batch_id, rows

    @classmethod
    def of_batch(cls, pipeline: str, batch_id: int, rows: int, reason: object) -> "RowsLost":
        return cls(
            f"{pipeline} is at_most_once: the offsets of batch {batch_id} are committed, and its {plural(rows, 'row')} "
            f"{'was' if rows == 1 else 'were'} not written and cannot be: {reason}",
            pipeline=pipeline,
            batch_id=batch_id,
            rows=rows,
        )


class RowRefused(TidegateError):
    """A row violates a type or constraint of its target table (SQLSTATE class 22 or 23). The engine finds the message
    that it came from.
    """

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class TransformFailed(TidegateError):
    """The Spark job fails in the transform, every time it is tried. The engine finds the message on which it does."""


class BatchRejected(TidegateError):
    """The batch as a whole cannot be published. Nothing was; the offsets stay, and are tried again after a back-off."""


class GateFailed(BatchRejected):
    """A blocking check of a batch failed. Offsets stay; the pending ranges are judged again on the next try.

    `results` holds every check result of the batch, passed and failed (`contract.model.CheckResult`).
    """

    def __init__(self, message: str, results: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.results = tuple(results)


class TransformBroken(BatchRejected):
    """The transform fails on every message of a sample: it is at fault, and not single messages.

    `file` is the transform's.
    """

    def __init__(self, message: str, *, file: str | None = None) -> None:
        super().__init__(message)
        self.file = file

    @classmethod
    def on_sample(cls, messages: int, reason: str, file: str) -> "TransformBroken":
        return cls(
            f"{file}: the transform fails on each of {messages} messages taken from all over the batch: {reason}. "
            "Nothing was published; correct the transform, or what produces the messages",
            file=file,
        )


class TooManyRefused(BatchRejected):
    """The transform or the table refuses more messages of a batch than are isolated, each by a bisection."""

    def __init__(self, message: str, *, pipeline: str | None = None, batch_id: int | None = None) -> None:
        super().__init__(message)
        self.pipeline, self.batch_id = pipeline, batch_id

    @classmethod
    def of_batch(cls, pipeline: str, batch_id: int, limit: int, last: str) -> "TooManyRefused":
        return cls(
            f"{pipeline}: more than {limit} messages of batch {batch_id} are refused, the last one because {last}; too "
            "many to be isolated bad messages. Nothing was published",
            pipeline=pipeline,
            batch_id=batch_id,
        )


class Halt(TidegateError):
    """The pipeline stops until a person settles it.

    `code` names the kind of halt and `detail` holds exactly what it is about (platform_defs/halts.py), `reason` says
    what was seen, `command` shows how to settle it.
    """

    def __init__(self, pipeline: str, detail: HaltDetail, message: str) -> None:
        self.pipeline, self.detail, self.reason = pipeline, detail, message
        self.code: str = detail.code
        self.command = f"tidegate ack {pipeline}"
        super().__init__(f"{pipeline} is halted ({self.code}): {message} To see how to settle it: {self.command}")

    @classmethod
    def remembered(cls, pipeline: str, code: str, stored: Mapping[str, Any] | None) -> "Halt":
        """A halt as the ledger keeps it: its code and its detail, as JSON."""
        detail = read_detail(code, stored)
        return cls(pipeline, detail, detail.seen)


class BadInput(TidegateError):
    """Something a user wrote cannot be used. Says where, what, and what would be right.

    `problem` is the message without the place, which is `file`, `line` and `field`.
    """

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, field: str | None = None
    ) -> None:
        where = ":".join(str(part) for part in (file, line) if part is not None)
        place = " ".join(part for part in (where, f"({field})" if field else "") if part)
        self.problem, self.file, self.line, self.field = message, file, line, field
        super().__init__(f"{place}: {message}" if place else message)


class TopicMissing(BadInput):
    """Kafka has no topic of this name."""

    @classmethod
    def named(cls, topic: str) -> "TopicMissing":
        return cls(f"topic {topic} does not exist; create it, or start the stack that holds it", field=topic)


class LedgerMissing(BadInput):
    """The database has no ledger yet: the schema `tidegate` is not there, or not Tidegate's."""

    @classmethod
    def of_database(cls, database: str) -> "LedgerMissing":
        return cls(f"the database {database} has no ledger yet. The first run creates it, or: tidegate migrate")


class LedgerOutdated(BadInput):
    """The ledger is older than this version of Tidegate."""

    @classmethod
    def by(cls, missing: Sequence[str]) -> "LedgerOutdated":
        return cls(
            f"the ledger is older than this version of Tidegate (it lacks {', '.join(missing)}). The next run upgrades "
            "it, or: tidegate migrate"
        )


class LedgerTooNew(BadInput):
    """The ledger is newer than this version of Tidegate, which could misread it."""

    @classmethod
    def by(cls, unknown: Sequence[str]) -> "LedgerTooNew":
        return cls(
            f"the ledger is newer than this version of Tidegate (it has {', '.join(unknown)}). Upgrade Tidegate to the "
            "version that migrated the ledger"
        )
