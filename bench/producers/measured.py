"""The measurements of one preset under one fault: the rounds summed up, as they are returned and documented."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import merge
from statistics import median

from bench.producers.journal_check import Round, quantile


@dataclass(frozen=True)
class Measured:
    """A preset and a fault. Counts are messages of all rounds; times are milliseconds from send to acknowledgement.

    `fired` is the number of rounds in which the fault happened. `messages_per_second` is the median of the rounds, the
    quantiles are over all delivered messages, the longest stall is the maximum of all rounds.
    """

    preset: str
    fault: str
    rounds: int
    fired: int
    sent: int
    delivered: int
    failed: int
    lost: int
    doubled: int
    reordered: int
    ghosts: int
    messages_per_second: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    longest_stall_ms: float


def summed_up(preset: str, fault: str, rounds: Sequence[Round]) -> Measured:
    """Return the rounds (at least one) of a pair, summed up."""
    latencies = list(merge(*(one.latencies_ms for one in rounds)))
    return Measured(
        preset,
        fault,
        rounds=len(rounds),
        fired=sum(one.fired for one in rounds),
        sent=sum(one.sent for one in rounds),
        delivered=sum(one.delivered for one in rounds),
        failed=sum(one.failed for one in rounds),
        lost=sum(one.lost for one in rounds),
        doubled=sum(one.doubled for one in rounds),
        reordered=sum(one.reordered for one in rounds),
        ghosts=sum(one.ghosts for one in rounds),
        messages_per_second=round(median(one.messages_per_second for one in rounds)),
        p50_ms=round(quantile(latencies, 0.5), 1),
        p99_ms=round(quantile(latencies, 0.99), 1),
        max_ms=round(latencies[-1] if latencies else 0.0, 1),
        longest_stall_ms=round(max(one.longest_stall_ms for one in rounds), 1),
    )
