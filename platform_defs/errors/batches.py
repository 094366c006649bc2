"""A batch that cannot be published as it is, or a pipeline that stops for it."""

from collections.abc import Mapping, Sequence
from typing import Any

from platform_defs.errors.halts import HaltDetail, read_detail
from platform_defs.errors.root import TidegateError


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
    """The batch as a whole cannot be published. Nothing was; the offsets stay, and are tried again after a back-off."""


class GateFailed(BatchRejected):
    """A blocking check of a batch failed. Offsets stay; the pending ranges are checked again on the next try.

    `results` has every check result of the batch, passed and failed (`contract.model.CheckResult`).
    """

    def __init__(self, message: str, results: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.results = tuple(results)


class TransformBroken(BatchRejected):
    """The transform fails on every message that it is tried on: it, or what it calls, is at fault, and no message."""


class TooManyRefused(BatchRejected):
    """The transform or the table refuses more messages of a batch than are isolated."""


class BatchTooSlow(BatchRejected):
    """A Spark job of the batch had not ended after the time limit, and was cancelled."""


class InternalError(TidegateError):
    """A bug in Tidegate: an error that it did not expect. Nothing was published; it is tried again after a back-off."""

    @classmethod
    def of(cls, place: str, reason: object) -> "InternalError":
        """Return the error for a bug in a batch, in `place`."""
        message = f"{type(reason).__name__}: {reason}" if isinstance(reason, BaseException) else str(reason)
        return cls(
            f"this is a bug in Tidegate, not a mistake of yours. In {place}: {message}. Nothing was lost: the batch "
            "was not published and will be retried. Please report it with this message and the output of `tidegate "
            "--version`"
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
