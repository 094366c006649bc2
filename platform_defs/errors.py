"""Every error the engine raises on purpose.

TidegateError
├── Retryable                nothing was lost and nothing half-written; the next run continues from the ledger
│   ├── Fenced               another run took the pipeline over; this one changed nothing
│   ├── PipelineHeld         another run works on the pipeline, and this one does not take it over
│   ├── BrokerAway           Kafka did not answer within the limit
│   ├── LedgerAway           Postgres did not answer within the limit, or cannot do what it is asked just now
│   ├── SparkAway            Spark lost the job: an executor, the session or its files are gone
│   ├── OffsetsUnavailable   the broker does not have the offsets asked for; the next run finds out why
│   ├── MessageUnreadable    the log holds something that the Kafka client cannot read
│   ├── LogTruncated         the log was truncated, then appended to; raised in a task, and the batch makes a Halt of it
│   ├── MessageMisplaced     the Kafka client handed out a message that is not of the range; it is read again
│   ├── StagingLost          staged rows or coverage are missing or disagree; the same ranges are read again
│   ├── NotReproduced        a failure could not be reproduced; the same ranges are read again
│   ├── ChangedMeanwhile     what a person was shown, or what this depends on, has changed; look again
│   └── OutcomeUnknown       the connection died in COMMIT and its outcome could not be read; the ledger has it
├── RowsLost                 at_most_once: the offsets were committed and the rows were not
├── RowRefused               a table rejects a row; the message becomes a dead letter of stage `publish`
├── TransformFailed          a Spark job fails in the transform; the message at fault becomes a dead letter
├── BatchRejected            the batch cannot be published as it is; the same offsets are tried again after a back-off
│   ├── GateFailed           a blocking check failed
│   ├── TransformBroken      the transform, or what it calls, fails on every message that it is tried on
│   └── TooManyRefused       more messages fail in the transform or the table than are isolated one by one
├── InternalError            a mistake of Tidegate's own; nothing was lost, and it is tried again after a back-off
├── Halt                     continuing would lose or repeat data: a person decides (platform_defs/halts.py)
└── BadInput                 a user's contract, transform, setting or argument cannot be used
    ├── TopicMissing         Kafka has no topic of the contract's name
    ├── OtherCluster         a task reached another cluster than the one that the batch was planned on
    ├── OtherInstall         a task runs on a machine with another installation of Tidegate
    ├── LedgerMissing        the database has no ledger yet
    ├── LedgerOutdated       the ledger is older than this version of Tidegate; `tidegate migrate`
    └── LedgerTooNew         the ledger is newer than this version of Tidegate; upgrade it

`str(error)` is a sentence for people; what a program may want of it is in attributes. All of them can be pickled, and
`to_json` and `from_json` carry them from a Spark task to the driver. What follows from each: platform_defs/verdicts.py.
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

    def to_json(self) -> dict[str, Any]:
        """As JSON, for `from_json`. An attribute that JSON does not know becomes its text."""
        return {"class": type(self).__name__, "args": list(self.args), "attributes": dict(vars(self))}


def from_json(stored: Mapping[str, Any]) -> TidegateError:
    """The error that `to_json` wrote. One that this version does not know becomes an InternalError."""
    kind = globals().get(stored["class"])
    if isinstance(kind, type) and issubclass(kind, TidegateError):
        return _restore(kind, tuple(stored["args"]), stored["attributes"])
    return InternalError.of("a task", f"{stored['class']}: {' '.join(map(str, stored['args']))}")


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
    """Postgres could not be reached within the limit, or refused for a reason that may pass (platform_defs/verdicts.py
    says for which SQLSTATE).
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


class MessageUnreadable(Retryable):
    """The log holds something that the Kafka client cannot read: it is damaged, or packed in an unknown way."""

    @classmethod
    def at(cls, topic: str, partition: int, offset: int, reason: str) -> "MessageUnreadable":
        return cls(
            f"{topic}[{partition}] holds something at offset {offset} or behind it that cannot be read: {reason}. "
            "Nothing was skipped; the batch will be read again."
        )


class LogTruncated(Retryable):
    """The log was truncated below the position, then appended to: the broker's leader epochs say so (KIP-320).

    Raised in tasks, which know no pipeline; the batch makes a Halt of it.
    """


class MessageMisplaced(Retryable):
    """The Kafka client handed out what is not of the range that was asked for: nothing of it is kept."""

    def __init__(self, message: str, *, topic: str | None = None, partition: int | None = None) -> None:
        super().__init__(message)
        self.topic, self.partition = topic, partition

    @classmethod
    def between(cls, wanted: Any, found: object) -> "MessageMisplaced":
        """`wanted` is the OffsetRange that was being read, `found` says what came."""
        return cls(
            f"while {wanted.topic} {wanted} was read, the Kafka client handed out {found}. Nothing of it is kept; the "
            "batch will be read again",
            topic=wanted.topic,
            partition=wanted.partition,
        )


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
    def of_another_log(cls, span: object, before: object, after: object) -> "StagingLost":
        return cls(
            f"messages of {span} have leader epoch {after}, and those before them {before}: they are of another log of "
            "the topic's name. The batch will be read again"
        )

    @classmethod
    def coverage(cls, span: object) -> "StagingLost":
        return cls(f"the coverage of {span} is gone from staging (did Postgres restart?); the batch will be read again")


class NotReproduced(Retryable):
    """A batch failed, and the message at fault could not be found since the failure did not occur again."""

    @classmethod
    def in_transform(cls, reason: str) -> "NotReproduced":
        return cls(
            f"the job failed, but no message fails again when it is tried alone ({reason}); the batch will be read "
            "again"
        )

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
    """Postgres refuses a row: it violates a type, a limit or a constraint, or a trigger raises. The engine finds the
    message that it came from.

    `error_class` is what psycopg calls the SQLSTATE, such as NotNullViolation.
    """

    def __init__(self, message: str, *, sqlstate: str | None = None, error_class: str = "RowRefused") -> None:
        super().__init__(message)
        self.sqlstate, self.error_class = sqlstate, error_class


class TransformFailed(TidegateError):
    """The Spark job fails in the transform, every time that Spark tries it. The engine finds the message on which it
    does.

    `of_data`: Spark itself says that a value is at fault, and nothing that the transform calls can be.
    """

    def __init__(self, message: str, *, of_data: bool = False) -> None:
        super().__init__(message)
        self.of_data = of_data


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
    """The transform fails on every message that it is tried on: it, or what it calls, is at fault, and no message.

    `file` is the transform's.
    """

    def __init__(self, message: str, *, file: str | None = None) -> None:
        super().__init__(message)
        self.file = file

    @classmethod
    def on_sample(cls, messages: int, reason: str, file: str) -> "TransformBroken":
        return cls(
            f"{file}: the transform fails on each of {plural(messages, 'message')} that it was tried on: {reason}. "
            "Nothing was published; correct the transform, what it calls, or what produces the messages",
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


class InternalError(TidegateError):
    """A mistake of Tidegate's own: what it did not expect. Nothing was published; it is tried again after a back-off.

    `place` is where it happened, `sqlstate` Postgres' code if it was Postgres that objected.
    """

    def __init__(self, message: str, *, place: str = "", sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.place, self.sqlstate = place, sqlstate

    @classmethod
    def of(cls, place: str, reason: object, *, sqlstate: str | None = None) -> "InternalError":
        said = f"{type(reason).__name__}: {reason}" if isinstance(reason, BaseException) else str(reason)
        return cls(
            f"this is a bug in Tidegate, and not your mistake. In {place}: {said}. Nothing was lost: the batch was not "
            "published, and is tried again. Please report it, with this message and what `tidegate --version` prints",
            place=place,
            sqlstate=sqlstate,
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


class OtherCluster(BadInput):
    """A task reached another cluster than the one that the batch was planned on, as behind another DNS."""

    @classmethod
    def reached(cls, servers: str, host: str, found: str, planned: str) -> "OtherCluster":
        return cls(
            f"on {host} the brokers' address {servers} reached cluster {found}, and the batch was planned on cluster "
            f"{planned}. Nothing that was read there is kept. Let the name lead to the same brokers on every machine "
            "that runs tasks"
        )


class OtherInstall(BadInput):
    """A task runs on a machine whose installation of Tidegate is not that of the run: it may decode by other rules."""

    @classmethod
    def found(cls, host: str, there: str, here: str) -> "OtherInstall":
        return cls(
            f"the task on {host} has Tidegate {there}, and the run has Tidegate {here}. Nothing was read. Install the "
            "same version there, or restart what still runs the older one"
        )


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
