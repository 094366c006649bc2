"""Dead letters matched with their messages, and the sentences about them."""

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field

from platform_defs.verify.compare.report import Findings
from platform_defs.verify.source.messages import Chunk
from platform_defs.verify.source.partitions import DeadLetter, Partition
from platform_defs.verify.validators.validator import NoRow

LATE = ("transform", "publish")  # stages that may refuse a message which can be decoded


@dataclass
class DeadLetters:
    """Dead letters ordered by (partition, offset), consumed once, up to a place."""

    letters: Iterator[DeadLetter]
    _held: list[DeadLetter] = field(default_factory=list[DeadLetter])

    def before(self, partition: int, offset: int) -> dict[int, list[DeadLetter]]:
        """Return by offset the unconsumed ones whose (partition, offset) is below the place."""
        found: dict[int, list[DeadLetter]] = {}
        while (letter := self._held.pop() if self._held else next(self.letters, None)) is not None:
            if (letter.partition, letter.offset) >= (partition, offset):
                self._held.append(letter)
                break
            found.setdefault(letter.offset, []).append(letter)
        return found


def report_strays(dead: dict[int, list[DeadLetter]], findings: Findings) -> None:
    """Report dead letters at offsets that the pipeline did not read."""
    for where, letters in dead.items():
        for letter in letters:
            what = "a dead letter outside the offsets recorded as read in the ledger"
            findings.bad("duplicated", what, letter.partition, where)


def settled_in(part: Partition, messages: Chunk, dead: Collection[int]) -> set[int]:
    """Return the offsets of messages whose dead letters were resolved and pruned: the log had lost them then, and has
    them again, since its start moved back. No result is expected of them, and their outcome is not known.
    """
    spans = part.settled.within(messages.from_offset, messages.until_offset)
    offsets = {offset for low, high in spans for offset in range(low, high)}
    return offsets.intersection(messages.offsets).difference(dead) if offsets else offsets


def skipped_in(others: Mapping[int, NoRow], dead: Container[int]) -> list[int]:
    """Return the offsets of messages that the contract skips and that have no dead letter."""
    return [offset for offset, row in others.items() if row.skipped and offset not in dead]


OTHER_BYTES = "the dead letter does not contain the message's bytes"


def no_dead_letter(reason: str) -> str:
    """Return the sentence for an invalid message."""
    return f"the message is not valid ({reason}), but there is no dead letter for it"


def several(letters: list[DeadLetter]) -> str:
    """Return the sentence for a message with several dead letters."""
    return f"the message has {len(letters)} dead letters"


def needless(letter: DeadLetter) -> str:
    """Return the sentence for a valid message."""
    return f"the message is valid, but it was made a dead letter ({letter.error_class})"
