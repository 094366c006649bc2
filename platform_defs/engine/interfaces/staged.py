"""A staged batch, and its dead letters by reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from platform_defs.contract.model.contract import Stage
from platform_defs.engine.interfaces.source_and_staging import Coverage
from platform_defs.offsets import PendingBatch


@dataclass(frozen=True)
class Staged:
    """A batch whose rows are in staging: the facts that publish uses and checks again."""

    pending: PendingBatch
    staging_id: int
    winners: Mapping[UUID, int]  # rows by the attempts whose results arrived
    coverage: tuple[Coverage, ...]  # one complete attempt a range
    registry: str = ""  # whose schemas the coverage counts
    messages_with_rows: int | None = None  # that the transform made into one row or more; None without a transform

    @property
    def filtered(self) -> int | None:
        """Messages that passed their checks and that the transform made no row from; None without a transform."""
        decoded = sum(item.rows for item in self.coverage)
        return None if self.messages_with_rows is None else decoded - self.messages_with_rows

    @property
    def rows(self) -> int:
        return sum(self.winners.values())

    @property
    def messages(self) -> int:
        return sum(item.messages for item in self.coverage)

    @property
    def dead_letters(self) -> int:
        return sum(item.dead_letters for item in self.coverage)

    @property
    def unknown_fields(self) -> int:
        return sum(item.unknown_fields for item in self.coverage)


@dataclass(frozen=True)
class FaultGroup:
    """The messages of a batch that are dead letters for one reason."""

    stage: Stage
    error_class: str
    count: int
    samples: tuple[Mapping[str, Any], ...]  # up to ten, by offset: partition, offset, field, message
