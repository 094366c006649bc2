"""The batches that are compared in one snapshot: all of them, or those after the last check.

Pure: the caller reads the ledger. A checkpoint is void if anything but a new batch may have changed the compared data;
the next window then starts at the first message.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from platform_defs.verify.source.spans import within

if TYPE_CHECKING:
    from platform_defs.verify.source.ledger import Basis, Checkpoint
    from platform_defs.verify.source.partitions import Partition

FOREVER = 2**63 - 1
VOID = {  # by the part of the basis that has changed; the first that applies is named
    "log": "the contract names another topic, or the topic was recreated",
    "settlement": "tidegate resolve moved positions, or skipped offsets",
    "replay": "a replay replaced rows",
    "adoption": "tables were adopted",
    "tables": "the tables were replaced, restored or redefined",
    "contract": "the contract has changed",
    "dropped": "a column was dropped",
}
BACK = "a position is below the offsets already compared"


@dataclass(frozen=True)
class Window:
    """Batches after `after`, up to and including `until`."""

    after: int = 0
    until: int = FOREVER
    starts: Mapping[int, int] = field(default_factory=dict[int, int])  # by partition; default: the partition's start
    last: bool = True  # no batch has been committed after it

    @property
    def whole(self) -> bool:
        """True if it is everything: rows and dead letters of any batch and offset."""
        return self == Window()

    def of(self, part: "Partition") -> "Partition":
        """Return the part of a partition in the window, for a partition whose ranges are those of the window's batches.
        Pruned ranges are merged, so they may begin before the window.
        """
        if self.whole:
            return part
        start = self.starts.get(part.number, part.start)
        until = part.next if self.last else max([start, *(high for _, high in part.covered)])
        covered = [span for span in part.covered if span[1] > part.forgotten]
        covered += [(max(low, start), high) for low, high in part.covered if start < high <= part.forgotten]
        skipped_until = max([until, *(high for _, high in part.skips)]) if self.last else until
        return replace(part, start=start, next=until, covered=covered, skips=within(part.skips, start, skipped_until))


WHOLE = Window()


def next_window(
    checkpoint: "Checkpoint", batches: Sequence[tuple[int, int]], most: int, *, more: bool = False, pruned: int = 0
) -> Window:
    """Return the window after the checkpoint: batches (id, messages) in their order, until they have `most` messages.

    It has at least one batch, however large. `more`: there are others after `batches`. `pruned`: the last pruned batch,
    before all of `batches`. Ranges of pruned batches are merged around the remaining ones: all that come after the
    checkpoint are in this window. The log has next to none of their messages.
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
    """Return the reason why the checkpoint is void; None if it is valid. `positions`: by partition, the next offset to
    read.
    """
    differs = (message for name, message in VOID.items() if checkpoint.basis.get(name) != now.get(name))
    if (message := next(differs, None)) is not None:
        return message
    behind = any(positions.get(number, -1) < offset for number, offset in checkpoint.offsets.items())
    return BACK if behind else None
