"""The outcome of a producer's messages: its journal compared with the log."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from bench.producers.journal import DELIVERED, FAILED, KEYS, Journal


@dataclass(frozen=True)
class Round:
    """A round of one preset under one fault, in messages, messages a second, and milliseconds.

    Of the `sent` messages, `delivered` and `failed` were reported. `lost`: reported delivered, not in the log.
    `doubled`: in the log more than once. `reordered`: behind a later one of the same key, by the first copy of each.
    `ghosts`: reported failed, in the log.
    """

    fired: bool
    sent: int
    delivered: int
    failed: int
    lost: int
    doubled: int
    reordered: int
    ghosts: int
    messages_per_second: float
    latencies_ms: Sequence[float]
    longest_stall_ms: float


def compare_with_log(journal: Journal, log: Sequence[int], *, fired: bool) -> Round:
    """Return the round of this journal, whose messages are in the log in the order of `log` (their numbers)."""
    copies = array("q", bytes(8 * journal.total))
    reordered, latest = 0, [-1] * KEYS
    for number in log:
        copies[number] += 1
        if copies[number] == 1:
            reordered += number < latest[number % KEYS]
            latest[number % KEYS] = max(latest[number % KEYS], number)
    reported = [(what, copies[number]) for number, what in enumerate(journal.outcomes)]
    return Round(
        fired,
        sent=journal.total,
        delivered=journal.count[DELIVERED],
        failed=journal.count[FAILED],
        lost=sum(what == DELIVERED and not held for what, held in reported),
        doubled=sum(held > 1 for _, held in reported),
        reordered=reordered,
        ghosts=sum(what == FAILED and held > 0 for what, held in reported),
        messages_per_second=throughput(journal),
        latencies_ms=latencies(journal),
        longest_stall_ms=_longest_stall(journal),
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the least value that `share` of the values do not exceed; 0.0 if there are none."""
    if not ordered:
        return 0.0
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def _reported_ns(journal: Journal) -> list[int]:
    """Return the report time of each delivered message, ascending."""
    return sorted(at for at, what in zip(journal.reported_ns, journal.outcomes, strict=True) if what == DELIVERED)


def throughput(journal: Journal) -> float:
    """Return the messages delivered a second, from the first message sent to the last one reported."""
    reported = _reported_ns(journal)
    return len(reported) / ((reported[-1] - journal.sent_ns[0]) / 1e9) if reported else 0.0


def latencies(journal: Journal) -> Sequence[float]:
    """Return the milliseconds from sending to the report of each message delivered, ascending."""
    lines = zip(journal.sent_ns, journal.reported_ns, journal.outcomes, strict=True)
    return array("d", sorted((at - since) / 1e6 for since, at, what in lines if what == DELIVERED))


def _longest_stall(journal: Journal) -> float:
    """Return the longest time without a delivery in ms, from the first message sent to the last report."""
    reported = _reported_ns(journal)
    if not reported:
        return 0.0
    return (
        max(later - earlier for earlier, later in zip([journal.sent_ns[0], *reported[:-1]], reported, strict=True))
        / 1e6
    )
