"""The transfers of `tidegate demo delivery`, the crashes of its consumers, and their outcome. Pure.

The crashes are chosen so that every run shows the same. A crash between the debit and the credit of a transfer loses
the credit with at-most-once, and repeats the debit with at-least-once; both leave a sum of balances below 0.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

Semantics = Literal["at_most_once", "at_least_once", "exactly_once"]
Place = Literal["between_postings", "after_postings"]

SEMANTICS: tuple[Semantics, ...] = ("at_most_once", "at_least_once", "exactly_once")
PLACES: Mapping[Place, str] = {"between_postings": "between debit and credit", "after_postings": "after the credit"}
TRANSFERS = 300
BATCH = 20  # messages of one poll of a consumer
CRASHES = 6  # of each consumer; even, so that each place has the same number
_ACCOUNTS = "ABCDEFGHIJ"


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """A payment from one account to another. `number` counts from 1."""

    number: int
    debit_account: str
    credit_account: str
    amount: Decimal  # of two decimal places, above 0

    def to_message(self) -> bytes:
        """Return the message value: JSON."""
        return json.dumps({**vars(self), "amount": str(self.amount)}).encode()

    @classmethod
    def from_message(cls, value: bytes) -> "Transfer":
        """Return the transfer that `to_message` wrote."""
        fields: dict[str, Any] = json.loads(value)
        fields["amount"] = Decimal(fields["amount"])
        return cls(**fields)


@dataclass(frozen=True, kw_only=True)
class Crash:
    """A point at which a consumer is killed: while it handles this transfer for the first time."""

    transfer: int
    place: Place

    def __str__(self) -> str:
        return f"transfer {self.transfer}, {PLACES[self.place]}"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one consumer. `seconds`: until it had read all transfers, with its restarts."""

    semantics: Semantics
    crashes: int
    transfers: int
    lost: int  # transfers that lack a posting
    duplicated: int  # transfers with a posting that was written more than once
    balances_sum: Decimal  # 0.00 if every transfer has as many debits as credits
    seconds: float

    @property
    def as_promised(self) -> bool:
        """True if the outcome is as its semantics promise."""
        exact = not self.lost and not self.duplicated and not self.balances_sum
        return {"at_most_once": not self.duplicated, "at_least_once": not self.lost, "exactly_once": exact}[
            self.semantics
        ]


def transfers(seed: int) -> list[Transfer]:
    """Return TRANSFERS transfers, the same for the same seed."""
    chosen = random.Random(seed)  # noqa: S311  # generated data
    made = list[Transfer]()
    for number in range(1, TRANSFERS + 1):
        debit, credit = chosen.sample(_ACCOUNTS, 2)
        amount = Decimal(chosen.randint(100, 99_999)).scaleb(-2)
        made.append(Transfer(number=number, debit_account=debit, credit_account=credit, amount=amount))
    return made


def crashes(seed: int) -> Sequence[Crash]:
    """Return CRASHES crashes in the order of their transfers, the same for the same seed; half of them at each place.

    They are more than a batch apart: with at-most-once, a crash loses the rest of its batch, and a lost transfer is
    never handled, so a crash at it would not happen.
    """
    chosen = random.Random(seed)  # noqa: S311  # generated data
    places: list[Place] = [*PLACES] * (CRASHES // len(PLACES))
    chosen.shuffle(places)
    width = TRANSFERS // CRASHES
    firsts = (1 + number * width + chosen.randrange(width - BATCH) for number in range(CRASHES))
    return [Crash(transfer=transfer, place=place) for transfer, place in zip(firsts, places, strict=True)]
