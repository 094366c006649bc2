"""The delivery report of each message that a producer sent, to be compared with the log afterwards."""

from array import array
from collections.abc import Sequence

WAITING, DELIVERED, FAILED = 0, 1, 2
KEYS = 16  # a message's key is its number modulo this: order is promised, and checked, per key


class Journal:
    """The send and report times of each message, by its number from 0, in nanoseconds of one clock.

    One thread appends (`sent`), and one records reports (`delivered`, `failed`); any may read the counts.
    """

    def __init__(self) -> None:
        self.sent_ns = array("q")
        self.reported_ns = array("q")
        self.outcomes = array("b")
        self.count = {DELIVERED: 0, FAILED: 0}

    @property
    def total(self) -> int:
        """The number of messages sent."""
        return len(self.outcomes)

    def sent(self, now_ns: int) -> int:
        """Record a message that is sent now; return its number."""
        self.sent_ns.append(now_ns)
        self.reported_ns.append(0)
        self.outcomes.append(WAITING)
        return len(self.outcomes) - 1

    def delivered(self, numbers: Sequence[int], now_ns: int) -> None:
        """Record that these messages were reported delivered."""
        self._report(numbers, now_ns, DELIVERED)

    def failed(self, numbers: Sequence[int], now_ns: int) -> None:
        """Record that these messages were reported failed."""
        self._report(numbers, now_ns, FAILED)

    def _report(self, numbers: Sequence[int], now_ns: int, what: int) -> None:
        for number in numbers:
            self.outcomes[number] = what
            self.reported_ns[number] = now_ns
        self.count[what] += len(numbers)
