"""Which batches are compared in one snapshot: all of them, or those that come after what was compared before.

Pure: what the ledger says goes in. A checkpoint is void where something else than a new batch may have changed what was
compared; the next window then begins at the first message.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from platform_defs.verification.source.spans import within

if TYPE_CHECKING:
    from platform_defs.verification.source.partitions import Partition
    from resources.postgres.ledger.verified import Basis, Checkpoint

FOREVER = 2**63 - 1
VOID = {  # by what the checkpoint was made under and no longer holds; the first that applies is named
    "log": "the topic is another one, or was created again",
    "settlement": "a settlement moved positions, or gave offsets up",
    "replay": "a replay has put other rows in place",
    "adoption": "tables were adopted",
    "tables": "the pipeline's tables are other ones",
    "contract": "another contract is in force",
    "dropped": "a column was dropped",
}
BACK = "a position is below what was compared"


@dataclass(frozen=True)
class Window:
    """Batches after `after`, up to and including `until`."""

    after: int = 0
    until: int = FOREVER
    starts: Mapping[int, int] = field(default_factory=dict[int, int])  # by partition; else at the start
    last: bool = True  # whether no batch had been committed after it

    @property
    def whole(self) -> bool:
        """True if it is everything: rows and dead letters of whatever batch and offset."""
        return self == Window()

    def of(self, part: "Partition") -> "Partition":
        """What it is about of a partition whose ranges are those of its batches. What is pruned was put together, so it
        may begin before the window.
        """
        if self.whole:
            return part
        start = self.starts.get(part.number, part.start)
        until = part.next if self.last else max([start, *(high for _, high in part.covered)])
        covered = [span for span in part.covered if span[1] > part.forgotten]
        covered += [(max(low, start), high) for low, high in part.covered if start < high <= part.forgotten]
        return replace(part, start=start, next=until, covered=covered, skips=within(part.skips, start, until))


WHOLE = Window()


def next_window(
    checkpoint: "Checkpoint", batches: Sequence[tuple[int, int]], most: int, *, more: bool = False, pruned: int = 0
) -> Window:
    """The window after the checkpoint: batches (id, messages) in their order, until they have `most` messages.

    It has one batch at least, however large. `more`: whether there are others after `batches`. `pruned`: the last batch
    that is pruned, before all of `batches`. What is left of pruned batches is put together, around those that were
    kept: all that come after the checkpoint are in this window. The log has next to none of their messages.
    """
    taken, messages = 0, 0
    for _, count in batches:
        if taken and messages + count > most:
            break
        taken, messages = taken + 1, messages + count
    until = batches[taken - 1][0] if taken else max(checkpoint.batch_id, pruned)
    last = taken == len(batches) and not more
    return Window(checkpoint.batch_id, until, checkpoint.offsets, last)


def why_void(checkpoint: "Checkpoint", now: "Basis", positions: Mapping[int, int]) -> str | None:
    """Why the checkpoint no longer holds; None where it does. `positions`: by partition, the offset to be read next."""
    differs = (said for name, said in VOID.items() if checkpoint.basis.get(name) != now.get(name))
    if (said := next(differs, None)) is not None:
        return said
    behind = any(positions.get(number, -1) < offset for number, offset in checkpoint.offsets.items())
    return BACK if behind else None
