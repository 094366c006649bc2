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
            f"the schema registry at {registry} did not answer for {seconds:.0f} s when asked for {what}: "
            f"{reason}. Is it up (tidegate stack status), and are TIDEGATE_REGISTRY_URL and the user correct?",
            registry=registry,
            status=status,
            seen=f"the schema registry at {registry} does not answer when asked for {what}: {reason}",
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
            "Nothing was changed. Replay again once the registry answers. To replay without a registry, unset "
            "TIDEGATE_REGISTRY_URL and stop the embedded one: messages whose schema is not in the ledger then stay "
            "dead letters"
        )

    def _with(self, rest: str) -> "RegistryAway":
        message = f"{self} {rest}"
        return RegistryAway(message, registry=self.registry, status=self.status, seen=self.seen, refused=self.refused)

    @classmethod
    def another(cls, registry: str) -> "RegistryAway":
        return cls(
            f"the schema registry at {registry} returns different schemas for ids that were in use when the run "
            "began. Nothing was published. The next run checks again, and halts if they still differ",
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
            f"{messages} of batch {batch_id} name schemas, and the registry has none of them ({said}). Is this the "
            "right registry (TIDEGATE_REGISTRY_URL, TIDEGATE_REGISTRY_NAME)? If it is, confirm it with tidegate "
            f"schema fetch {pipeline}, or register a schema under the contract's subject: these messages then "
            "become dead letters",
        )

    @classmethod
    def refused(cls, pipeline: str, reason: str) -> "SchemasNotGiven":
        """Return the error for a registry that refuses one schema while it answers for others."""
        return cls._of(
            pipeline,
            f"{reason}. The registry answers for other schemas. Give Tidegate's user access to this one, repair it "
            "in the registry, or delete it there permanently (its messages then become dead letters)",
        )

    @classmethod
    def none_in_use(cls, pipeline: str, registry: str) -> "SchemasNotGiven":
        """Return the error for a registry that returns new schemas and none of those in use: it may be another one, or
        was emptied.
        """
        return cls._of(
            pipeline,
            f"the schema registry at {registry} has a new schema but none of the schemas in use: it may be a "
            "different registry, or one that was emptied. Correct TIDEGATE_REGISTRY_URL, or restore the registry. "
            f"If it is the right one, record its schemas in the ledger: tidegate schema fetch {pipeline}",
        )

    @classmethod
    def too_many(cls, pipeline: str, ids: int, seconds: float | None = None) -> "SchemasNotGiven":
        """Return the error for more ids than may be looked up, nearly all of them garbage; or than there is time for:
        `seconds` is how long the registry took to report that there are no `ids` such schemas.
        """
        took = f" (the registry took {seconds:.0f} s to report this)" if seconds is not None else ""
        return cls._of(
            pipeline,
            f"one task's messages name more than {ids:,} different schemas that the registry does not have{took}: "
            "they are not framed as the contract says, or are garbage. If the contract's framing is wrong, correct "
            "it",
        )

    @classmethod
    def _of(cls, pipeline: str, problem: str) -> "SchemasNotGiven":
        live = pipeline.removesuffix("~replay")
        rest = (
            "Nothing was published and nothing became a dead letter. After ten tries the pipeline halts. You can "
            f"then turn the messages whose schema is unavailable into dead letters: tidegate resolve {pipeline} "
            "--batch dead-letters"
        )
        if live != pipeline:
            rest = f"The live tables have not changed. Correct this, then run tidegate replay {live} again"
        return cls(f"{problem}. {rest}", field=live)
