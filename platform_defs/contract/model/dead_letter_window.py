"""The dead letters among a pipeline's latest messages: the contract's limit applies to these counts.

Counting batch by batch is not enough: in batches of ten no batch ever has a thousand dead letters, however bad the
topic is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SLOTS = 20  # about how many parts the counts are kept in: one for each batch would be thousands of tiny ones


@dataclass(frozen=True)
class Counted:
    """Messages of consecutive batches, and how many of them are dead letters."""

    messages: int = 0
    dead_letters: int = 0

    def __add__(self, other: Counted) -> Counted:
        return Counted(self.messages + other.messages, self.dead_letters + other.dead_letters)


@dataclass(frozen=True)
class Recent:
    """A pipeline's latest messages, counted, oldest first. Kept in `tidegate.pipeline.recent_messages`."""

    slots: tuple[Counted, ...] = ()

    def latest(self, size: float) -> Counted:
        """Return the latest `size` messages, at least the newest slot. The oldest slot counts in part, as if it were
        uniform.
        """
        newer = sum(self.slots[1:], Counted())
        for oldest in self.slots[:1]:
            part = int(min(oldest.messages, size - newer.messages)) if newer.messages else oldest.messages
            return newer + Counted(part, oldest.dead_letters * part // max(1, oldest.messages))
        return newer

    def plus(self, batch: Counted, size: float) -> Recent:
        """Return the counts with `batch` as the newest, and without the slots that the latest `size` messages do not
        need.
        """
        slots = [*self.slots]
        if slots and slots[-1].messages * SLOTS < size:
            slots[-1] += batch
        else:
            slots.append(batch)
        kept = sum(slot.messages for slot in slots)
        while (kept := kept - slots[0].messages) >= size:
            del slots[0]
        return Recent(tuple(slots))

    def to_json(self) -> list[list[int]]:
        """Return the counts as the ledger keeps them: messages and dead letters of each slot."""
        return [[slot.messages, slot.dead_letters] for slot in self.slots]

    @classmethod
    def from_json(cls, stored: Iterable[Sequence[int]]) -> Recent:
        return cls(tuple(Counted(messages, dead) for messages, dead in stored))


NONE_YET = Recent()
