"""The reasons why a pipeline halts: one dataclass for each halt code, with the exact data of the halt.

`to_json` returns what the ledger keeps in `tidegate.pipeline.halt_detail`, `read_detail` reads it back. Ledgers written
by other versions stay readable: a missing key gets its default, an unknown key is ignored, and an unknown code becomes
an `UnknownHalt`. How to resolve each code: docs/how-to/halts.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

HaltCode = Literal[
    "topic_recreated",
    "cluster_switched",
    "topic_changed",
    "retention_passed",
    "log_truncated",
    "partition_missing",
    "too_many_dead_letters",
    "gate_red",
    "accumulate_refused",
    "keeps_failing",
    "registry_switched",
]
Json = Mapping[str, Any]


@dataclass(frozen=True, order=True)
class PartitionSpan:
    """Offsets of one partition: `from_offset` is included, `until_offset` is not."""

    partition: int
    from_offset: int
    until_offset: int

    @property
    def offsets(self) -> int:
        """The number of its offsets."""
        return self.until_offset - self.from_offset

    def __str__(self) -> str:
        return f"partition {self.partition} [{self.from_offset}, {self.until_offset})"


@dataclass(frozen=True)
class TopicRecreated:
    """The topic was deleted and created again: its topic ids."""

    code: ClassVar[HaltCode] = "topic_recreated"
    seen: ClassVar[str] = "the topic was deleted and created again: its id has changed."

    was: str = ""
    now: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"was": self.was, "is": self.now}

    @classmethod
    def from_json(cls, stored: Json) -> "TopicRecreated":
        return cls(stored.get("was", ""), stored.get("is", ""))


@dataclass(frozen=True)
class ClusterSwitched:
    """The brokers belong to a different cluster: the cluster ids."""

    code: ClassVar[HaltCode] = "cluster_switched"
    seen: ClassVar[str] = "these brokers belong to a different cluster."

    was: str = ""
    now: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"was": self.was, "is": self.now}

    @classmethod
    def from_json(cls, stored: Json) -> "ClusterSwitched":
        return cls(stored.get("was", ""), stored.get("is", ""))


@dataclass(frozen=True)
class TopicChanged:
    """The contract names another topic than the one that was read: their names."""

    code: ClassVar[HaltCode] = "topic_changed"
    seen: ClassVar[str] = "the contract names a different topic from the one that was read."

    was: str = ""
    now: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"was": self.was, "is": self.now}

    @classmethod
    def from_json(cls, stored: Json) -> "TopicChanged":
        return cls(stored.get("was", ""), stored.get("is", ""))


@dataclass(frozen=True)
class RetentionPassed:
    """Messages were deleted before they were read: their offsets."""

    code: ClassVar[HaltCode] = "retention_passed"
    seen: ClassVar[str] = "messages were deleted before they were read."

    ranges: tuple[PartitionSpan, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"ranges": [asdict(span) for span in self.ranges]}

    @classmethod
    def from_json(cls, stored: Json) -> "RetentionPassed":
        return cls(_spans(stored))


@dataclass(frozen=True)
class LogCut:
    """The log was truncated. Found by its end: the `ranges` that are gone. Found by its leader epochs, after it was
    appended to: the `partitions` with a new leader, and the broker's `error`.
    """

    code: ClassVar[HaltCode] = "log_truncated"
    seen: ClassVar[str] = "the log was truncated below what was already read or planned."

    ranges: tuple[PartitionSpan, ...] = ()
    partitions: tuple[int, ...] = ()
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        if self.error is not None:
            return {"error": self.error, "partitions": list(self.partitions)}
        return {"ranges": [asdict(span) for span in self.ranges]}

    @classmethod
    def from_json(cls, stored: Json) -> "LogCut":
        return cls(_spans(stored), tuple(stored.get("partitions", ())), stored.get("error"))


@dataclass(frozen=True)
class PartitionMissing:
    """Partitions that were read and that the broker no longer has. No longer raised: within one topic id no partition
    is ever removed, so an answer without one is stale. Ledgers of older versions may have it.
    """

    code: ClassVar[HaltCode] = "partition_missing"
    seen: ClassVar[str] = "the broker no longer has a partition that was read."

    partitions: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"partitions": list(self.partitions)}

    @classmethod
    def from_json(cls, stored: Json) -> "PartitionMissing":
        return cls(tuple(stored.get("partitions", ())))


@dataclass(frozen=True)
class TooManyDeadLetters:
    """A batch that raises the number of dead letters above the contract's limit, in it or among the latest messages."""

    code: ClassVar[HaltCode] = "too_many_dead_letters"
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

    def to_json(self) -> dict[str, Any]:
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return {**known, "samples": [dict(sample) for sample in self.samples]}

    @classmethod
    def from_json(cls, stored: Json) -> "TooManyDeadLetters":
        counts = {name: stored.get(name, 0) for name in ("batch_id", "messages", "dead_letters")}
        latest: dict[str, Any] = {name: stored.get(name) for name in ("latest_messages", "latest_dead_letters")}
        reasons, samples = stored.get("by_reason", {}), tuple(stored.get("samples", ()))
        return cls(**counts, by_reason=reasons, samples=samples, **latest)


@dataclass(frozen=True)
class GateRed:
    """A batch that fails blocking checks on each try. Recorded from the first time (`red_gate`); a halt after enough
    tries.
    """

    code: ClassVar[HaltCode] = "gate_red"
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

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "checks": [dict(check) for check in self.checks]}

    @classmethod
    def from_json(cls, stored: Json) -> "GateRed":
        counts = {name: stored.get(name, 0) for name in ("batch_id", "messages", "rows", "tries")}
        return cls(**counts, checks=tuple(stored.get("checks", ())))


@dataclass(frozen=True)
class AccumulateRefused:
    """The sums of a batch violate a constraint of their table: Postgres' error."""

    code: ClassVar[HaltCode] = "accumulate_refused"
    seen: ClassVar[str] = (
        "the sums of a batch violate a constraint of their table; nothing from this batch was published."
    )

    error: str = ""
    quotes_nothing: bool = False  # values were classified when it was recorded, so the error quotes none

    def to_json(self) -> dict[str, Any]:
        return _unless_false(asdict(self), "quotes_nothing")

    @classmethod
    def from_json(cls, stored: Json) -> "AccumulateRefused":
        return cls(stored.get("error", ""), stored.get("quotes_nothing", False))


@dataclass(frozen=True)
class KeepsFailing:
    """A batch that failed repeatedly though no system was away: the number of failures, and the last error."""

    code: ClassVar[HaltCode] = "keeps_failing"
    seen: ClassVar[str] = "the same batch failed repeatedly; nothing from this batch was published."

    tries: int = 0
    error_class: str = ""
    error: str = ""
    quotes_nothing: bool = False  # values were classified when it was recorded, so the error quotes none

    def to_json(self) -> dict[str, Any]:
        return _unless_false(asdict(self), "quotes_nothing")

    @classmethod
    def from_json(cls, stored: Json) -> "KeepsFailing":
        texts = stored.get("error_class", ""), stored.get("error", "")
        return cls(stored.get("tries", 0), *texts, stored.get("quotes_nothing", False))


@dataclass(frozen=True)
class RegistrySwitched:
    """The schema registry has other schemas under ids that messages name: its name in the ledger, and the ids."""

    code: ClassVar[HaltCode] = "registry_switched"
    seen: ClassVar[str] = "the schema registry now returns different schemas for ids that messages already used."

    registry: str = ""
    keys: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"registry": self.registry, "keys": list(self.keys)}

    @classmethod
    def from_json(cls, stored: Json) -> "RegistrySwitched":
        return cls(stored.get("registry", ""), tuple(stored.get("keys", ())))


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


KnownHalt = (
    TopicRecreated
    | ClusterSwitched
    | TopicChanged
    | RetentionPassed
    | LogCut
    | PartitionMissing
    | TooManyDeadLetters
    | GateRed
    | AccumulateRefused
    | KeepsFailing
    | RegistrySwitched
)
HaltDetail = KnownHalt | UnknownHalt
DETAILS: Mapping[str, type[KnownHalt]] = {
    kind.code: kind
    for kind in (
        TopicRecreated,
        ClusterSwitched,
        TopicChanged,
        RetentionPassed,
        LogCut,
        PartitionMissing,
        TooManyDeadLetters,
        GateRed,
        AccumulateRefused,
        KeepsFailing,
        RegistrySwitched,
    )
}


def read_detail(code: str, stored: Json | None) -> HaltDetail:
    """Return the detail of a halt as the ledger keeps it (`halt_code`, `halt_detail`)."""
    kind = DETAILS.get(code)
    return kind.from_json(stored or {}) if kind else UnknownHalt(code, stored or {})


def _unless_false(detail: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the detail without this key if it is False, as in ledgers of older versions."""
    return {key: value for key, value in detail.items() if key != name or value}


def _spans(stored: Json) -> tuple[PartitionSpan, ...]:
    ranges: Iterable[Json] = stored.get("ranges") or ()
    return tuple(PartitionSpan(item["partition"], item["from_offset"], item["until_offset"]) for item in ranges)
