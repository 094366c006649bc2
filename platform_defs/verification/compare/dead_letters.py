"""Dead letters beside the messages that they are of, and what is said of them."""

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field

from platform_defs.verification.compare.report import Findings
from platform_defs.verification.judge.judge import NoRow
from platform_defs.verification.source.messages import Chunk
from platform_defs.verification.source.partitions import DeadLetter, Partition

LATE = ("transform", "publish")  # stages that may refuse a message which can be decoded


@dataclass
class DeadLetters:
    """Dead letters ordered by (partition, offset), handed out once, up to a place."""

    letters: Iterator[DeadLetter]
    _held: list[DeadLetter] = field(default_factory=list[DeadLetter])

    def before(self, partition: int, offset: int) -> dict[int, list[DeadLetter]]:
        """By offset, those not yet handed out whose (partition, offset) is below the place."""
        found: dict[int, list[DeadLetter]] = {}
        while (letter := self._held.pop() if self._held else next(self.letters, None)) is not None:
            if (letter.partition, letter.offset) >= (partition, offset):
                self._held.append(letter)
                break
            found.setdefault(letter.offset, []).append(letter)
        return found


def report_strays(dead: dict[int, list[DeadLetter]], findings: Findings) -> None:
    """Dead letters at offsets that no message of the pipeline has."""
    for where, letters in dead.items():
        for letter in letters:
            what = "a dead letter outside the offsets that the ledger says were read"
            findings.bad("duplicated", what, letter.partition, where)


def settled_in(part: Partition, messages: Chunk, dead: Collection[int]) -> set[int]:
    """Offsets of messages whose dead letters were settled and are pruned: what the log held no longer then, and holds
    now, since its start has moved back. Of the message nothing is due, and what became of it cannot be said.
    """
    spans = part.settled.within(messages.from_offset, messages.until_offset)
    offsets = {offset for low, high in spans for offset in range(low, high)}
    return offsets.intersection(messages.offsets).difference(dead) if offsets else offsets


def skipped_in(others: Mapping[int, NoRow], dead: Container[int]) -> list[int]:
    """The offsets of messages that the contract skips, and that nothing became of."""
    return [offset for offset, row in others.items() if row.skipped and offset not in dead]


OTHER_BYTES = "the dead letter does not hold the message's bytes"


def no_dead_letter(reason: str) -> str:
    """For a message that is not valid."""
    return f"the message is not valid ({reason}), and there is no dead letter of it"


def several(letters: list[DeadLetter]) -> str:
    """For a message of several dead letters."""
    return f"the message has {len(letters)} dead letters"


def needless(letter: DeadLetter) -> str:
    """For a message that is valid."""
    return f"the message is valid, but it was made a dead letter ({letter.error_class})"
