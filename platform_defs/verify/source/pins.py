"""The contract and transform of each range of a partition."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Pinned:
    """The contract and transform of a batch, by digests; None if the ledger names none."""

    contract: str | None = None
    transform: str | None = None  # empty: there was none
    application: int | None = None  # of the contract: it can come into force more than once


ContractRange = tuple[int, int, Pinned]  # from (included), until (excluded)


def one_after_another(contract_ranges: Sequence[ContractRange]) -> tuple[ContractRange, ...]:
    """Return the pieces in ascending order, adjacent equal ones merged; where pieces overlap, the first one wins."""
    found: list[ContractRange] = []
    for low, high, pinned in sorted(contract_ranges, key=lambda item: item[:2]):
        start = max(low, found[-1][1]) if found else low
        if found and start == found[-1][1] and found[-1][2] == pinned:
            found[-1] = (found[-1][0], max(found[-1][1], high), pinned)
        elif start < high:
            found.append((start, high, pinned))
    return tuple(found)
