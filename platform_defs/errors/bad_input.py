"""A user's contract, transform, setting or argument, or a system of theirs, that cannot be used as it is."""

from collections.abc import Sequence

from platform_defs.errors.root import TidegateError


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


class SchemasNotGiven(BadInput):
    """Messages name schemas that the registry does not give, although it is there. Unlike its absence, this is the
    messages' doing: ten tries halt the pipeline.
    """

    @classmethod
    def unknown(cls, pipeline: str, batch_id: int, messages: str, said: str) -> "SchemasNotGiven":
        """None of a batch's schemas is known, and nothing says that this is the right registry."""
        return cls._of(
            pipeline,
            f"{messages} of batch {batch_id} name a schema, and the registry has none of these ({said}). Is this the "
            "right registry (TIDEGATE_REGISTRY_URL, TIDEGATE_REGISTRY_NAME)? If it is, make it known (tidegate schema "
            f"fetch {pipeline}), or register a schema under the contract's subject: then these become dead letters",
        )

    @classmethod
    def refused(cls, pipeline: str, reason: str) -> "SchemasNotGiven":
        """The registry refuses one schema while it answers for others."""
        return cls._of(
            pipeline,
            f"{reason}. It answers for other schemas: give its user access to this one, repair it there, or delete it "
            "there for good (then its messages become dead letters)",
        )

    @classmethod
    def none_in_use(cls, pipeline: str, registry: str) -> "SchemasNotGiven":
        """The registry gives new schemas and none of those in use: it may be another one, or was emptied."""
        return cls._of(
            pipeline,
            f"the schema registry at {registry} gives a new schema, and none of those in use, so that it may be "
            "another registry, or one that was emptied. Correct TIDEGATE_REGISTRY_URL, or restore the registry. "
            f"If it is the right one as it is, let the ledger know its schemas: tidegate schema fetch {pipeline}",
        )

    @classmethod
    def too_many(cls, pipeline: str, ids: int, seconds: float | None = None) -> "SchemasNotGiven":
        """More ids than are asked for, nearly all of them garbage; or than there is time for: `seconds` is what it took
        to be answered that there are no `ids` such schemas.
        """
        took = f" ({seconds:.0f} s went by until it had said so)" if seconds is not None else ""
        return cls._of(
            pipeline,
            f"one task's messages name more than {ids:,} different schemas that the registry does not have{took}: they "
            "are not framed as the contract says, or garbage. Correct the contract's framing if that is it",
        )

    @classmethod
    def _of(cls, pipeline: str, problem: str) -> "SchemasNotGiven":
        rest = (
            "Nothing was published and nothing became a dead letter. After ten tries the pipeline halts; then messages "
            f"whose schema is not given can be made dead letters: tidegate ack {pipeline} --batch dead-letters"
        )
        return cls(f"{problem}. {rest}", field=pipeline)


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
