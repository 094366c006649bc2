"""A batch that cannot be published as it is, or a pipeline that stops for it."""

from collections.abc import Mapping, Sequence
from typing import Any

from platform_defs.errors.halts import HaltDetail, read_detail
from platform_defs.errors.root import TidegateError
from platform_defs.errors.words import plural


class RowRefused(TidegateError):
    """Postgres refuses a row: it violates a type, a limit or a constraint, or a trigger raises. The engine finds the
    message that it came from.

    `error_class` is psycopg's name for the SQLSTATE, such as NotNullViolation.
    """

    def __init__(self, message: str, *, sqlstate: str | None = None, error_class: str = "RowRefused") -> None:
        super().__init__(message)
        self.sqlstate, self.error_class = sqlstate, error_class


class TransformFailed(TidegateError):
    """The Spark job fails in the transform, every time that Spark tries it. The engine finds the message at fault.

    `of_data`: Spark itself reports that a value is at fault, and nothing that the transform calls can be.
    """

    def __init__(self, message: str, *, of_data: bool = False) -> None:
        super().__init__(message)
        self.of_data = of_data


class BatchRejected(TidegateError):
    """The batch as a whole cannot be published. Nothing was; the offsets stay, and are tried again after a back-off."""


class GateFailed(BatchRejected):
    """A blocking check of a batch failed. Offsets stay; the pending ranges are checked again on the next try.

    `results` has every check result of the batch, passed and failed (`contract.model.CheckResult`).
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
            f"{file}: the transform failed on every message that it was tried on ({plural(messages, 'message')}): "
            f"{reason}. Nothing was published. Correct the transform, a service that it calls, or the producer of "
            "the messages",
            file=file,
        )


class TooManyRefused(BatchRejected):
    """The transform or the table refuses more messages of a batch than are isolated."""

    def __init__(self, message: str, *, pipeline: str | None = None, batch_id: int | None = None) -> None:
        super().__init__(message)
        self.pipeline, self.batch_id = pipeline, batch_id

    @classmethod
    def of_batch(cls, pipeline: str, batch_id: int, limit: int, last: str) -> "TooManyRefused":
        return cls(
            f"{pipeline}: more than {limit} messages of batch {batch_id} were rejected, the last one because "
            f"{last}. These are too many to be isolated bad messages, so nothing was published. Correct the "
            "transform, the table or the producer of the messages",
            pipeline=pipeline,
            batch_id=batch_id,
        )


class BatchTooSlow(BatchRejected):
    """A Spark job of the batch had not ended after the time limit, and was cancelled.

    `seconds` is the limit, `file` the transform's, if there is one.
    """

    def __init__(
        self,
        message: str,
        *,
        pipeline: str | None = None,
        batch_id: int | None = None,
        seconds: float = 0.0,
        file: str | None = None,
    ) -> None:
        super().__init__(message)
        self.pipeline, self.batch_id, self.seconds, self.file = pipeline, batch_id, seconds, file

    @classmethod
    def after(cls, pipeline: str, batch_id: int, seconds: float, file: str | None) -> "BatchTooSlow":
        hangs = f"{file}, or a service that it calls, may never return: set a timeout on every call. " if file else ""
        return cls(
            f"the Spark job of batch {batch_id} of {pipeline} was still running after {seconds:g} seconds and was "
            f"cancelled; nothing was published. {hangs}If the batch is only slow, raise "
            "TIDEGATE_BATCH_TIMEOUT_SECONDS; a lower batchMessages in the contract makes later batches smaller",
            pipeline=pipeline,
            batch_id=batch_id,
            seconds=seconds,
            file=file,
        )


class InternalError(TidegateError):
    """A bug in Tidegate: an error that it did not expect. Nothing was published; it is tried again after a back-off.

    `place` is where it happened, `sqlstate` Postgres' code if Postgres raised the error.
    """

    def __init__(self, message: str, *, place: str = "", sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.place, self.sqlstate = place, sqlstate

    @classmethod
    def of(cls, place: str, reason: object, *, sqlstate: str | None = None) -> "InternalError":
        said = f"{type(reason).__name__}: {reason}" if isinstance(reason, BaseException) else str(reason)
        return cls(
            f"this is a bug in Tidegate, not a mistake of yours. In {place}: {said}. Nothing was lost: the batch "
            "was not published and will be retried. Please report it with this message and the output of `tidegate "
            "--version`",
            place=place,
            sqlstate=sqlstate,
        )

    @classmethod
    def in_command(cls, command: str, reason: str) -> "InternalError":
        """Return the error for a bug in a command that changes nothing."""
        return cls(
            f"this is a bug in Tidegate, not a mistake of yours. In {command}: {reason}. Nothing was changed. Please "
            "report it with this message and the output of `tidegate --version`",
            place=command,
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
