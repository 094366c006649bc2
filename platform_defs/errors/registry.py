"""Schemas that the schema registry does not return: it is away, refuses them, or does not have them."""

from platform_defs.errors.bad_input import BadInput
from platform_defs.errors.retryable import Retryable


class RegistryAway(Retryable):
    """The schema registry returned no usable answer: refused, too late, 401, 5xx, or HTML.

    `status` is the HTTP status of the last answer, if there was one; `seen`
    the request and its answer; `refused` is True if that answer was about the one schema, as 403 is, and not about the
    registry's own state, as 503 or silence is.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        seen: str = "",
        refused: bool = False,
    ) -> None:
        super().__init__(message)
        self.status, self.seen, self.refused = status, seen, refused

    @classmethod
    def asked(
        cls, registry: str, what: str, seconds: float, reason: str, status: int | None, *, refused: bool = False
    ) -> "RegistryAway":
        return cls(
            f"the schema registry at {registry} did not answer within {max(1, round(seconds))} s when asked for "
            f"{what}: {reason}. Is it up (tidegate stack status), and are TIDEGATE_REGISTRY_URL and the user correct?",
            status=status,
            seen=f"the schema registry at {registry} does not answer when asked for {what}: {reason}",
            refused=refused,
        )

    def adding(self, rest: str) -> "RegistryAway":
        """Return the same error, with its consequence."""
        message = f"{self} {rest}"
        return RegistryAway(message, status=self.status, seen=self.seen, refused=self.refused)


class SchemasNotGiven(BadInput):
    """Messages name schemas that the registry does not return, although it is up. Unlike its absence, the messages
    cause this: ten tries halt the pipeline.
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
