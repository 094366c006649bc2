"""What a producer was told of each message that it sent, kept beside it to be compared with the log afterwards."""

from array import array
from collections.abc import Sequence

WAITING, DELIVERED, FAILED = 0, 1, 2
KEYS = 16  # a message's key is its number modulo this: order is promised, and judged, within a key


class Journal:
    """A line for each message, by its number from 0. Times are in nanoseconds of one clock.

    One thread appends (`sent`), and one tells (`delivered`, `failed`); any may read the counts.
    """

    def __init__(self) -> None:
        self.sent_ns = array("q")
        self.told_ns = array("q")
        self.told = array("b")
        self.count = {DELIVERED: 0, FAILED: 0}

    @property
    def total(self) -> int:
        """How many messages were sent."""
        return len(self.told)

    def sent(self, now_ns: int) -> int:
        """Note a message that is handed over now; return its number."""
        self.sent_ns.append(now_ns)
        self.told_ns.append(0)
        self.told.append(WAITING)
        return len(self.told) - 1

    def delivered(self, numbers: Sequence[int], now_ns: int) -> None:
        """Note that the producer was told of these messages: delivered."""
        self._tell(numbers, now_ns, DELIVERED)

    def failed(self, numbers: Sequence[int], now_ns: int) -> None:
        """Note that the producer was told of these messages: failed."""
        self._tell(numbers, now_ns, FAILED)

    def _tell(self, numbers: Sequence[int], now_ns: int, what: int) -> None:
        for number in numbers:
            self.told[number] = what
            self.told_ns[number] = now_ns
        self.count[what] += len(numbers)
