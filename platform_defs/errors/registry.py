"""Schemas that the schema registry does not return: it is away, refuses them, or does not have them."""

from platform_defs.errors.bad_input import BadInput
from platform_defs.errors.retryable import Retryable


class RegistryAway(Retryable):
    """The schema registry returned no usable answer: refused, too late, 401, 5xx, or HTML.

    `registry` is its address, without a password; `status` the HTTP status of the last answer, if there was one; `seen`
    the request and its answer; `refused` is True if that answer was about the one schema, as 403 is, and not about the
    registry's own state, as 503 or silence is.
    """

    def __init__(
        self,
        message: str,
        *,
        registry: str | None = None,
        status: int | None = None,
        seen: str = "",
        refused: bool = False,
    ) -> None:
        super().__init__(message)
        self.registry, self.status, self.seen, self.refused = registry, status, seen, refused

    @classmethod
    def asked(
        cls, registry: str, what: str, seconds: float, reason: str, status: int | None, *, refused: bool = False
    ) -> "RegistryAway":
        return cls(
            f"the schema registry at {registry} did not answer for {seconds:.0f} s when it was asked for {what}: "
            f"{reason}. Is it up (tidegate stack status), and are TIDEGATE_REGISTRY_URL and the user right?",
            registry=registry,
            status=status,
            seen=f"the schema registry at {registry} gives no answer when it is asked for {what}: {reason}",
            refused=refused,
        )

    def of_batch(self) -> "RegistryAway":
        """Return the same error, with the consequence for the batch that is being read."""
        return self._with("Nothing was published and nothing became a dead letter; the batch will be read again")

    def of_replay(self) -> "RegistryAway":
        """Return the same error, with the consequence for the replay: a schema may have been registered since its
        messages became dead letters, so a person decides whether to do without it.
        """
        return self._with(
            "Nothing was changed. Replay again once it answers, or without a registry (TIDEGATE_REGISTRY_URL not set, "
            "the embedded one stopped): then messages whose schema the ledger does not have stay dead letters"
        )

    def _with(self, rest: str) -> "RegistryAway":
        message = f"{self} {rest}"
        return RegistryAway(message, registry=self.registry, status=self.status, seen=self.seen, refused=self.refused)

    @classmethod
    def another(cls, registry: str) -> "RegistryAway":
        return cls(
            f"the schema registry at {registry} has other schemas under ids that were in use when the run began. "
            "Nothing was published; the next run looks again, and halts if that is so",
            registry=registry,
        )

    @classmethod
    def nowhere(cls, what: str) -> "RegistryAway":
        return cls(
            f"{what} is not in the ledger yet, and there is no schema registry to ask: set TIDEGATE_REGISTRY_URL, or "
            "start the embedded one (tidegate stack up). Nothing was published; the batch will be read again"
        )


class SchemasNotGiven(BadInput):
    """Messages name schemas that the registry does not return, although it is up. Unlike its absence, the messages
    cause this: ten tries halt the pipeline.
    """

    @classmethod
    def unknown(cls, pipeline: str, batch_id: int, messages: str, said: str) -> "SchemasNotGiven":
        """Return the error for a batch none of whose schemas is known, from a registry that is not known to be the
        right one.
        """
        return cls._of(
            pipeline,
            f"{messages} of batch {batch_id} name a schema, and the registry has none of these ({said}). Is this the "
            "right registry (TIDEGATE_REGISTRY_URL, TIDEGATE_REGISTRY_NAME)? If it is, make it known (tidegate schema "
            f"fetch {pipeline}), or register a schema under the contract's subject: then these become dead letters",
        )

    @classmethod
    def refused(cls, pipeline: str, reason: str) -> "SchemasNotGiven":
        """Return the error for a registry that refuses one schema while it answers for others."""
        return cls._of(
            pipeline,
            f"{reason}. It answers for other schemas: give its user access to this one, repair it there, or delete it "
            "there for good (then its messages become dead letters)",
        )

    @classmethod
    def none_in_use(cls, pipeline: str, registry: str) -> "SchemasNotGiven":
        """Return the error for a registry that returns new schemas and none of those in use: it may be another one, or
        was emptied.
        """
        return cls._of(
            pipeline,
            f"the schema registry at {registry} gives a new schema, and none of those in use, so that it may be "
            "another registry, or one that was emptied. Correct TIDEGATE_REGISTRY_URL, or restore the registry. "
            f"If it is the right one as it is, let the ledger know its schemas: tidegate schema fetch {pipeline}",
        )

    @classmethod
    def too_many(cls, pipeline: str, ids: int, seconds: float | None = None) -> "SchemasNotGiven":
        """Return the error for more ids than may be looked up, nearly all of them garbage; or than there is time for:
        `seconds` is how long the registry took to report that there are no `ids` such schemas.
        """
        took = f" ({seconds:.0f} s went by until it had said so)" if seconds is not None else ""
        return cls._of(
            pipeline,
            f"one task's messages name more than {ids:,} different schemas that the registry does not have{took}: they "
            "are not framed as the contract says, or garbage. Correct the contract's framing if that is it",
        )

    @classmethod
    def _of(cls, pipeline: str, problem: str) -> "SchemasNotGiven":
        live = pipeline.removesuffix("~replay")
        rest = (
            "Nothing was published and nothing became a dead letter. After ten tries the pipeline halts; then messages "
            f"whose schema is not given can be made dead letters: tidegate resolve {pipeline} --batch dead-letters"
        )
        if live != pipeline:
            rest = f"The live tables have not changed; correct that, then run tidegate replay {live} again"
        return cls(f"{problem}. {rest}", field=live)
