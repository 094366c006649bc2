"""Every error the engine raises on purpose.

TidegateError
├── Retryable                nothing was lost and nothing half-written; the next run continues from the ledger
│   ├── Fenced               another run took the pipeline over; this one changed nothing
│   ├── PipelineHeld         another run works on the pipeline, and this one does not take it over
│   ├── RunStopped           the run was stopped before it had published the batch; the next one reads it again
│   ├── TransformChanged     a file that the transform imports has changed; the next run, with it, reads the batch again
│   ├── BrokerAway           Kafka did not answer within the limit
│   ├── RegistryAway         the schema registry returned no usable answer within the limit
│   ├── LedgerAway           Postgres did not answer within the limit, or cannot serve the request at the moment
│   ├── SparkAway            Spark lost the job: an executor, the session or its files are gone
│   ├── OffsetsUnavailable   the broker does not have the requested offsets; the next run finds out why
│   ├── MessageUnreadable    the log has something that the Kafka client cannot read
│   ├── LogTruncated         the log was truncated, then appended to; the pipeline halts or the batch is planned again
│   ├── MessageMisplaced     the Kafka client returned a message outside the range; it is read again
│   ├── StagingLost          staged rows or coverage are missing or disagree; the same ranges are read again
│   ├── NotReproduced        a failure could not be reproduced; the same ranges are read again
│   ├── MessagesSuspected    some messages fail in the transform; dead letters if they still do after a while
│   ├── TransactionAborted   a producer's transaction was aborted, and none of it is read; it can be sent again
│   ├── ChangedMeanwhile     what a person was shown, or what this depends on, has changed; review it again
│   └── OutcomeUnknown       the connection died in COMMIT and its outcome could not be read; the ledger has it
├── RowRefused               a table rejects a row; the message becomes a dead letter of stage `publish`
├── TransformFailed          a Spark job fails in the transform; the message at fault becomes a dead letter
├── BatchRejected            the batch cannot be published as it is; the same offsets are tried again after a back-off
│   ├── GateFailed           a blocking check failed
│   ├── TransformBroken      the transform, or what it calls, fails on every message that it is tried on
│   ├── TooManyRefused       more messages fail in the transform or the table than are isolated
│   └── BatchTooSlow         its Spark job was still running after the time limit, and was cancelled
├── NotDelivered             Kafka did not acknowledge a message; the error says whether it may be in the log
├── UnsentLost               messages that were not delivered could not be kept, neither in Postgres nor in a file
├── ProducerBroken           a producer cannot continue; a new one resolves what it left open
│   └── ProducerFenced       a newer producer with the same transactional.id took over
├── InternalError            a mistake of Tidegate's own; nothing was lost, and it is tried again after a back-off
├── Halt                     continuing would lose or repeat data: a person decides (platform_defs/errors/halts.py)
└── BadInput                 a user's contract, transform, setting or argument cannot be used
    ├── SeveralMistakes      a file has more than one mistake; it lists all of them
    ├── AccessDenied         Kafka rejects this user's login, or the user lacks an ACL
    ├── TopicMissing         Kafka has no topic of the contract's name
    ├── SchemasNotGiven      messages name schemas that the registry does not return, although it is up
    ├── OtherCluster         a task reached a different cluster from the one that the batch was planned on
    ├── OtherInstall         a task runs on a machine with another installation of Tidegate
    ├── LedgerMissing        the database has no ledger yet
    ├── LedgerOutdated       the ledger is older than this version of Tidegate; `tidegate migrate`
    └── LedgerTooNew         the ledger is newer than this version of Tidegate; upgrade it

`str(error)` is a sentence for people; its data for programs is in attributes. All of them can be pickled, and
`to_json` and `from_json` carry them from a Spark task to the driver. The consequence of each:
platform_defs/errors/error_policy.py.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from typing_extensions import override

from platform_defs.errors.halts import HaltDetail, read_detail

Outcome = Literal["poison", "not_written", "unknown"]  # by code: producers/outcomes.py


class TidegateError(Exception):
    """The root: `except TidegateError` catches what the project raises on purpose, and nothing else."""

    exit_code = 1  # of the command that ends with it
    redacted: "TidegateError | None" = None  # the same by names alone, if its text may quote values (`quoting`)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as type, arguments and attributes, whatever the signature of `__init__`."""
        return restore, (type(self), self.args, dict(vars(self)))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, for `from_json`, without `redacted`. An attribute that JSON does not know becomes its
        text.
        """
        attributes = {name: value for name, value in vars(self).items() if name != "redacted"}
        return {"class": type(self).__name__, "args": list(self.args), "attributes": attributes}

    def quoting_nothing(self) -> "TidegateError":
        """Return the same error by names alone, without the errors that led to it: a traceback would show their texts
        as well.
        """
        return (self.redacted or self).with_traceback(self.__traceback__).without_causes()

    def without_causes(self) -> "TidegateError":
        """Return the error without those that led to it."""
        self.__cause__, self.__suppress_context__ = None, True
        return self


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
    """The run was stopped, and with it the Spark job of its batch. It does not count as a failure."""


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
    """The log has something that the Kafka client cannot read: it is corrupt, or its compression codec is unknown."""


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
    """The transform fails on some messages of a batch and not on others. A service that it calls may be unavailable
    for these: they become dead letters only if they keep failing.
    """


class ChangedMeanwhile(Retryable):
    """The data that a person was shown, or that a settlement or replay builds on, has changed. Nothing was changed."""

    @classmethod
    def since_shown(cls, pipeline: str, command: str) -> "ChangedMeanwhile":
        """Return the error of a decision that is out of date. `command` shows the current one."""
        return cls(f"{pipeline} has changed since this was shown; nothing was changed. Check again: {command}")


class OutcomeUnknown(Retryable):
    """COMMIT was sent and neither success nor failure could be established. Never treated as 'did not happen'."""


@dataclass(frozen=True)
class Mistake:
    """A mistake (`problem`) and its place: a file, a line counted from 1, a field."""

    problem: str
    file: str | None = None
    line: int | None = None
    field: str | None = None

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        place = " ".join(part for part in (where, f"({self.field})" if self.field else "") if part)
        return f"{place}: {self.problem}" if place else self.problem


class BadInput(TidegateError):
    """Something a user wrote cannot be used. Names the place, the mistake, and what would be right.

    `problem` is the message without the place, which is `file`, `line` and `field`.
    """

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, field: str | None = None
    ) -> None:
        self.problem, self.file, self.line, self.field = message, file, line, field
        super().__init__(str(Mistake(message, file, line, field)))

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """The mistake; for SeveralMistakes, all of them."""
        return (Mistake(self.problem, self.file, self.line, self.field),)


class SeveralMistakes(BadInput):
    """A file has more than one mistake. Its place is that of the first; `mistakes` has all of them, by line."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        found = sorted(mistakes, key=lambda one: one.line or 0)
        super().__init__(found[0].problem, file=found[0].file, line=found[0].line, field=found[0].field)
        self.args = ("\n".join(map(str, found)),)
        self.several: list[dict[str, Any]] = [vars(one) for one in found]  # as JSON

    @property
    @override
    def mistakes(self) -> tuple[Mistake, ...]:
        return tuple(Mistake(**one) for one in self.several)


class AccessDenied(BadInput):
    """Kafka rejects this user's login, or the user lacks an ACL. Retried until access is granted."""


class TopicMissing(BadInput):
    """Kafka has no topic of this name, or none that this user may see."""

    @classmethod
    def named(cls, topic: str) -> "TopicMissing":
        return cls(
            f"topic {topic} does not exist, or this user may not see it (ACL Describe). To create it: tidegate "
            "topics apply, if a contract reads it or topics.yaml lists it. Otherwise, grant the right "
            "(docs/how-to/kafka-rights.md), or start the Kafka cluster that has it",
            field=topic,
        )


class OtherCluster(BadInput):
    """A task reached a different cluster from the one that the batch was planned on: its machine may resolve the
    address differently.
    """


class OtherInstall(BadInput):
    """A task runs on a machine with a different installation of Tidegate, which may decode differently."""


class LedgerMissing(BadInput):
    """The database has no ledger yet: the schema `tidegate` is not there, or not Tidegate's."""


class LedgerOutdated(BadInput):
    """The ledger is older than this version of Tidegate."""


class LedgerTooNew(BadInput):
    """The ledger is newer than this version of Tidegate, which could misread it."""


class RowRefused(TidegateError):
    """Postgres refuses a row: it violates a type, a limit or a constraint, or a trigger raises. The engine finds the
    message that it came from.

    `error_class` is psycopg's name for the SQLSTATE, such as NotNullViolation.
    """

    def __init__(self, message: str, *, error_class: str = "RowRefused") -> None:
        super().__init__(message)
        self.error_class = error_class


class TransformFailed(TidegateError):
    """The Spark job fails in the transform, every time that Spark tries it. The engine finds the message at fault.

    `of_data`: Spark itself reports that a value is at fault, and nothing that the transform calls can be.
    """

    def __init__(self, message: str, *, of_data: bool = False) -> None:
        super().__init__(message)
        self.of_data = of_data


class BatchRejected(TidegateError):
    """The batch as a whole cannot be published. Nothing was; the same offsets are retried after a back-off."""


class GateFailed(BatchRejected):
    """A blocking check of a batch failed. Offsets stay; the pending ranges are checked again on the next try.

    `results` has every check result of the batch, passed and failed (`contract.model.CheckResult`).
    """

    def __init__(self, message: str, results: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.results = tuple(results)


class TransformBroken(BatchRejected):
    """The transform fails on every message that it is tried on: not a message, but the transform or
    a service that it calls is at fault.
    """


class TooManyRefused(BatchRejected):
    """The transform or the table refuses more messages of a batch than Tidegate isolates one by one."""


class BatchTooSlow(BatchRejected):
    """A Spark job of the batch had not ended after the time limit, and was cancelled."""


class InternalError(TidegateError):
    """A bug in Tidegate: an error that it did not expect. Nothing was published; it is tried again after a back-off."""

    @classmethod
    def of(cls, place: str, reason: object) -> "InternalError":
        """Return the error for a bug in a batch, in `place`."""
        message = f"{type(reason).__name__}: {reason}" if isinstance(reason, BaseException) else str(reason)
        return cls(
            f"this is a bug in Tidegate, not a mistake of yours. In {place}: {message}. Nothing was lost: a batch "
            "that fails is not published, and is retried. Please report it with this message and the output of "
            "`tidegate --version`"
        )

    @classmethod
    def in_command(cls, command: str, reason: str) -> "InternalError":
        """Return the error for a bug in a command that changes nothing."""
        return cls(
            f"this is a bug in Tidegate, not a mistake of yours. In {command}: {reason}. Nothing was changed. Please "
            "report it with this message and the output of `tidegate --version`"
        )


class Halt(TidegateError):
    """The pipeline stops until a person resolves it.

    `code` names the kind of halt, `detail` is its exact data (platform_defs/errors/halts.py), `reason` is what was
    found, `command` shows how to resolve it.
    """

    def __init__(self, pipeline: str, detail: HaltDetail, message: str) -> None:
        self.pipeline, self.detail, self.reason = pipeline, detail, message
        self.code: str = detail.code
        self.command = f"tidegate resolve {pipeline}"
        super().__init__(f"{pipeline} is halted ({self.code}): {message} To see how to resolve it: {self.command}")

    @classmethod
    def remembered(cls, pipeline: str, code: str, stored: Mapping[str, Any] | None) -> "Halt":
        """Return a halt as the ledger keeps it: its code and its detail, as JSON."""
        detail = read_detail(code, stored)
        return cls(pipeline, detail, detail.seen)


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
    """A producer cannot continue: close it and create a new one. Whether its last transaction was committed is
    unknown until a new producer with the same transactional.id has started: read the log only then.
    """


class ProducerFenced(ProducerBroken):
    """A newer producer with the same transactional.id took over. This one must stop, and must not be replaced."""


class UnsentLost(TidegateError):
    """Messages that were not delivered could not be kept either: neither in Postgres nor in a file."""


class RegistryAway(Retryable):
    """The schema registry returned no usable answer: refused, too late, 401, 5xx, or HTML.

    `status` is the HTTP status of the last answer, if there was one; `seen` the request and its answer; `refused` is
    True if that answer was about the one schema, as 403 is, and not about the registry's own state, as 503 or silence
    is.
    """

    def __init__(self, message: str, *, status: int | None = None, seen: str = "", refused: bool = False) -> None:
        super().__init__(message)
        self.status, self.seen, self.refused = status, seen, refused

    @classmethod
    def asked(
        cls, registry: str, what: str, seconds: float, reason: str, status: int | None, advice: str, *, refused: bool
    ) -> "RegistryAway":
        """Return the error for a request about `what`. `advice`: what to check, by the settings."""
        return cls(
            f"the schema registry at {registry} returned no usable answer for {what} within "
            f"{max(1, round(seconds))} s: {reason}. {advice}",
            status=status,
            seen=f"the schema registry at {registry} returns no usable answer for {what}: {reason}",
            refused=refused,
        )

    def adding(self, rest: str) -> "RegistryAway":
        """Return the same error, with its consequence."""
        message = f"{self}. {rest}"
        return RegistryAway(message, status=self.status, seen=self.seen, refused=self.refused)


class SchemasNotGiven(BadInput):
    """Messages name schemas that the registry does not return, although it is up. The messages cause this, not
    an outage of the registry: ten failed tries halt the pipeline.
    """

    @classmethod
    def of(cls, pipeline: str, problem: str) -> "SchemasNotGiven":
        """Return the error for `problem`, with the consequence for the pipeline and the command that resolves it."""
        return cls(
            f"{problem}. Nothing was published and nothing became a dead letter. After ten tries the pipeline halts. "
            "You can then turn the messages whose schema is unavailable into dead letters: tidegate resolve "
            f"{pipeline} --batch dead-letters",
            field=pipeline,
        )


def quoting(make: Callable[[str], TidegateError], text: str, names: str) -> TidegateError:
    """Return `make(text)`, which may quote values of messages. Its `redacted` is `make(names)`: names alone.
    `redacting` in contract/redaction.py chooses one of them.
    """
    error = make(text)
    error.redacted = make(names)
    return error


def restore(kind: type[TidegateError], args: tuple[Any, ...], attributes: Mapping[str, Any]) -> TidegateError:
    """Return an error of this kind as it was, without its `__init__`."""
    error = kind.__new__(kind, *args)
    vars(error).update(attributes)
    return error


def from_json(stored: Mapping[str, Any]) -> TidegateError:
    """Return the error that `to_json` wrote. One that this version does not know becomes an InternalError."""
    kind = globals().get(stored["class"])
    if isinstance(kind, type) and issubclass(kind, TidegateError):
        return restore(kind, tuple(stored["args"]), stored["attributes"])
    return InternalError.of("a task", f"{stored['class']}: {' '.join(map(str, stored['args']))}")
