"""The inputs and results of a Spark task, as protocols. See engine/interfaces/broker_and_auditor.py.

Source and StagingArea travel to the workers: they are picklable and open their connections there.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

import pyarrow as pa

from platform_defs.contract.model.contract import Fault, Stage
from platform_defs.engine.interfaces.gaps import Gaps
from platform_defs.formats.blocks.block import Block
from platform_defs.ledger.published import SchemaCount
from platform_defs.offsets import OffsetRange

MessagePlace = tuple[int, int]  # of a message in the topic: partition, offset


class Source(Protocol):
    """Reads a topic inside a task."""

    def read(self, wanted: OffsetRange, cluster_id: str | None = None) -> Iterator[Block]:
        """Yield every message of `wanted` that the broker delivers, in blocks; end only when the range is proven read.

        Proof is a message at or past its last offset, or partition EOF at or past `until_offset`. Raises BrokerAway if
        the broker stops delivering, TidegateError if the offsets are not there (any more), OtherCluster if the brokers
        are not those of `cluster_id`, MessageMisplaced for a message outside the range.
        """
        ...


@dataclass(frozen=True)
class Coverage:
    """Proof that one attempt read the whole of a range, with its counts."""

    range: OffsetRange
    attempt: UUID
    messages: int
    rows: int
    dead_letters: int
    unknown_fields: int
    gap_digest: str  # of the offsets that the broker never delivered
    leader_epoch: int | None  # of the last message; None without one
    schemas: tuple[SchemaCount, ...] = ()  # ascending
    skipped_records: int = 0  # messages of records that the contract skips

    @property
    def outcome(self) -> tuple[Any, ...]:
        """The values in which complete attempts at one range must agree."""
        counts = (self.messages, self.rows, self.dead_letters, self.skipped_records, self.unknown_fields)
        return (*counts, self.gap_digest, self.leader_epoch, self.schemas)


class Recording(Protocol):
    """A connection to the staging area, for as long as a task works."""

    def transaction(self) -> AbstractContextManager[None]:
        """Open the transaction of one attempt at one range, which commits when the block ends without an error: its
        dead letters, then its coverage. Nothing is kept without the coverage.
        """
        ...

    def dead_letters(self, partition: int, attempt: UUID, block: Block, faults: Sequence[Fault]) -> None:
        """Keep the messages of `block` that `faults` name, byte for byte, each with its reason."""
        ...

    def cover(self, coverage: Coverage, gaps: Gaps) -> None:
        """Keep the proof that the range was read to its end, and the offsets that never arrived."""
        ...


class StagingArea(Protocol):
    """The staging area in which the tasks of one try at a batch leave their results."""

    @property
    def staging_id(self) -> int:
        """The number of the try, which names its staging table."""
        ...

    def recording(self) -> AbstractContextManager[Recording]:
        """Open the connection over which a task records its ranges, one after the other."""
        ...

    def copy(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        """COPY `batches` into this try's table over a connection of its own. Return the number of committed rows."""
        ...


@dataclass(frozen=True)
class Refusal:
    """The reason why a message is excluded when its batch is tried again: the transform failed on it, or the table
    rejected it.
    """

    stage: Stage
    error_class: str
    message: str
    certain: bool = True  # if not, what the transform calls may be away for this message: a later try decides

    def of_message(self, index: int) -> Fault:
        """Return it as the fault of the message at `index` of its block."""
        return Fault(index, self.stage, self.error_class, self.message)
