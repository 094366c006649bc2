"""A committed batch, as the ledger returns it and as it is reported."""

from collections.abc import Mapping
from dataclasses import dataclass

from platform_defs.contract.model.contract import CheckResult
from platform_defs.formats.blocks.writer_schema import Part
from platform_defs.offsets import OffsetRange, TopicView


@dataclass(frozen=True, order=True)
class SchemaCount:
    """The number of messages in a range that name, with their values or keys, a schema that was known when they were
    read.
    """

    generation: int
    key: str
    messages: int
    part: Part = "value"


@dataclass(frozen=True)
class RowChanges:
    """Counts of the rows that a batch changed in the table of an upsert. A message that is replaced by a later one of
    its key in the batch changes nothing, unless the table has other unique keys: then every message is written.
    """

    upserted: int  # rows inserted or replaced
    deleted: int  # rows that tombstones deleted: a key without a row has none

    def __add__(self, other: "RowChanges") -> "RowChanges":
        return RowChanges(self.upserted + other.upserted, self.deleted + other.deleted)


@dataclass(frozen=True)
class Published:
    """A committed batch, as it is reported to Dagster."""

    batch_id: int
    pipeline: str
    ranges: tuple[OffsetRange, ...]
    messages: int
    rows: int
    dead_letters: int
    unknown_fields: int
    checks: tuple[CheckResult, ...]
    timings: Mapping[str, float]  # seconds by step
    view: TopicView | None = None  # of the topic, just before it was published; None if it is reported late
    contract_version: str = ""
    contract_digest: str | None = None  # None: published before contracts were recorded
    registry: str = ""  # the one that has the schemas
    schemas: tuple[SchemaCount, ...] = ()  # how many of its messages name each, ascending
    skipped_records: int = 0  # messages of records that the contract skips
    run_id: str | None = None  # of the Dagster run that published it, if it is reported late
    plan: tuple[OffsetRange, ...] = ()  # that it is a part of, if ranges are published one by one
    filtered: int | None = None  # see Staged; None also if it is reported late: the ledger does not count them
    changes: RowChanges | None = None  # for an upsert that is not reported late
    followed: bool = False  # another batch of that plan follows at once, or the error that prevents it
