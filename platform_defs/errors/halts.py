"""The reasons why a pipeline halts: one dataclass for each halt code, with the exact data of the halt.

`to_json` returns what the ledger keeps in `tidegate.pipeline.halt_detail`, `read_detail` reads it back. Ledgers written
by other versions stay readable: a missing key gets its default, an unknown key is ignored, and an unknown code becomes
an `UnknownHalt`. How to resolve each code: docs/how-to/halts.md.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Self

Json = Mapping[str, Any]
_KEYS = {"now": "is"}  # attributes that have another name in the ledger
_SPAN = ("partition", "from_offset", "until_offset")


@dataclass(frozen=True, order=True)
class PartitionSpan:
    """Offsets of one partition: `from_offset` is included, `until_offset` is not."""

    partition: int
    from_offset: int
    until_offset: int

    @property
    def offsets(self) -> int:
        return self.until_offset - self.from_offset

    def __str__(self) -> str:
        return f"partition {self.partition} [{self.from_offset}, {self.until_offset})"


@dataclass(frozen=True)
class KnownHalt:
    """The data of a halt, as attributes with defaults."""

    code: ClassVar[str]
    seen: ClassVar[str]  # as a sentence

    def to_json(self) -> dict[str, Any]:
        """Return what the ledger keeps. Attributes that are None, False or empty tuples are left out."""
        stored: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return {
            _KEYS.get(name, name): value
            for name, value in stored.items()
            if value is not None and value is not False and value != []
        }

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Return the detail that `to_json` stored: a missing key gets its default, an unknown key is ignored."""
        found: dict[str, Any] = {}
        for name in (one.name for one in fields(cls)):
            value: Any = stored.get(_KEYS.get(name, name))
            if name == "ranges":
                value = [PartitionSpan(*(span[key] for key in _SPAN)) for span in value or ()]
            if value is not None:
                found[name] = (*value,) if type(value) is list else value
        return cls(**found)


@dataclass(frozen=True)
class TopicRecreated(KnownHalt):
    """The topic was deleted and created again: its topic ids."""

    code: ClassVar[str] = "topic_recreated"
    seen: ClassVar[str] = "the topic was deleted and created again: its id has changed."

    was: str = ""
    now: str = ""


@dataclass(frozen=True)
class ClusterSwitched(KnownHalt):
    """The brokers belong to a different cluster: the cluster ids."""

    code: ClassVar[str] = "cluster_switched"
    seen: ClassVar[str] = "these brokers belong to a different cluster."

    was: str = ""
    now: str = ""


@dataclass(frozen=True)
class TopicChanged(KnownHalt):
    """The contract names another topic than the one that was read: their names."""

    code: ClassVar[str] = "topic_changed"
    seen: ClassVar[str] = "the contract names a different topic from the one that was read."

    was: str = ""
    now: str = ""


@dataclass(frozen=True)
class RetentionPassed(KnownHalt):
    """Messages were deleted before they were read: their offsets."""

    code: ClassVar[str] = "retention_passed"
    seen: ClassVar[str] = "messages were deleted before they were read."

    ranges: tuple[PartitionSpan, ...] = ()


@dataclass(frozen=True)
class LogCut(KnownHalt):
    """The log was truncated. Found by its end: the `ranges` that are gone. Found by its leader epochs, after it was
    appended to: the `partitions` with a new leader, and the broker's `error`.
    """

    code: ClassVar[str] = "log_truncated"
    seen: ClassVar[str] = "the log was truncated below what was already read or planned."

    ranges: tuple[PartitionSpan, ...] = ()
    partitions: tuple[int, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class PartitionMissing(KnownHalt):
    """Partitions that were read and that the broker no longer has. No longer raised: within one topic id no partition
    is ever removed, so an answer without one is stale. Ledgers of older versions may have it.
    """

    code: ClassVar[str] = "partition_missing"
    seen: ClassVar[str] = "the broker no longer has a partition that was read."

    partitions: tuple[int, ...] = ()


@dataclass(frozen=True)
class TooManyDeadLetters(KnownHalt):
    """A batch that raises the number of dead letters above the contract's limit, in it or among the latest messages."""

    code: ClassVar[str] = "too_many_dead_letters"
    seen: ClassVar[str] = (
        "there are more dead letters than the contract allows; nothing from the last batch was published."
    )

    batch_id: int = 0
    messages: int = 0
    dead_letters: int = 0
    by_reason: Mapping[str, int] = field(default_factory=dict[str, int])  # dead letters by error class
    samples: tuple[Json, ...] = ()  # partition, offset, field, message, stage, error_class
    latest_messages: int | None = None  # in this batch and the batches before it that count with it
    latest_dead_letters: int | None = None  # of these; None in a ledger from before they counted


@dataclass(frozen=True)
class BlockingCheckFailed(KnownHalt):
    """A batch that fails blocking checks on each try. Recorded from the first try (`tidegate.pipeline.failed_checks`);
    a halt after GATE_TRIES tries.
    """

    code: ClassVar[str] = "blocking_check_failed"
    seen: ClassVar[str] = "a batch fails a blocking check on every try; nothing from this batch was published."

    batch_id: int = 0
    messages: int = 0
    rows: int = 0
    checks: tuple[Json, ...] = ()  # those that failed: check, table, observed
    tries: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the failed checks, as in a decision to publish the batch anyway."""
        return tuple(check["check"] for check in self.checks)


@dataclass(frozen=True)
class AccumulateRefused(KnownHalt):
    """The sums of a batch violate a constraint of their table: Postgres' error."""

    code: ClassVar[str] = "accumulate_refused"
    seen: ClassVar[str] = (
        "the sums of a batch violate a constraint of their table; nothing from this batch was published."
    )

    error: str = ""
    quotes_nothing: bool = False  # values were classified when it was recorded, so the error quotes none


@dataclass(frozen=True)
class KeepsFailing(KnownHalt):
    """A batch that failed repeatedly though every system was available: the number of failures, and the last error."""

    code: ClassVar[str] = "keeps_failing"
    seen: ClassVar[str] = "the same batch failed repeatedly; nothing from this batch was published."

    tries: int = 0
    error_class: str = ""
    error: str = ""
    quotes_nothing: bool = False  # values were classified when it was recorded, so the error quotes none


@dataclass(frozen=True)
class RegistrySwitched(KnownHalt):
    """The schema registry has other schemas under ids that messages name: its name in the ledger, and the ids."""

    code: ClassVar[str] = "registry_switched"
    seen: ClassVar[str] = "the schema registry now returns different schemas for ids that messages already used."

    registry: str = ""
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class UnknownHalt:
    """A halt that another version of Tidegate recorded, and whose code this one does not know."""

    seen: ClassVar[str] = (
        "another version of Tidegate halted the pipeline, for a reason that this version does not know."
    )

    code: str
    stored: Json = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        return dict(self.stored)


HaltDetail = KnownHalt | UnknownHalt
DETAILS: Mapping[str, type[KnownHalt]] = {kind.code: kind for kind in KnownHalt.__subclasses__()}


def read_detail(code: str, stored: Json | None) -> HaltDetail:
    """Return the detail of a halt as the ledger keeps it (`halt_code`, `halt_detail`)."""
    kind = DETAILS.get(code)
    return kind.from_json(stored or {}) if kind else UnknownHalt(code, stored or {})
