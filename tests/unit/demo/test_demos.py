"""The demos of delivery and of consumer groups, without a server: their choices and conclusions."""

from collections import Counter
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from platform_defs.cli.main import app
from platform_defs.demo.delivery_model import (
    BATCH,
    CRASHES,
    PLACES,
    TRANSFERS,
    Outcome,
    Semantics,
    Transfer,
    crashes,
    transfers,
)
from platform_defs.demo.groups import is_settled

SEEDS = st.integers(0, 2**40)


@given(seed=SEEDS)
def test_what_a_crash_may_lose_is_over_before_the_next_crash(seed: int) -> None:
    """With at-most-once delivery, a crash loses the rest of its batch: up to BATCH - 1 transfers."""
    chosen = [crash.transfer for crash in crashes(seed)]
    assert len(chosen) == CRASHES
    assert all(later - earlier > BATCH for earlier, later in pairwise(chosen))
    assert 1 <= chosen[0] <= chosen[-1] <= TRANSFERS


@given(seed=SEEDS)
def test_half_of_the_crashes_are_between_debit_and_credit(seed: int) -> None:
    assert Counter(crash.place for crash in crashes(seed)) == dict.fromkeys(PLACES, CRASHES // 2)


@given(seed=SEEDS)
def test_every_transfer_moves_money_between_two_accounts(seed: int) -> None:
    """A posting that is missing or written twice changes the sum of the balances."""
    made = transfers(seed)
    assert [one.number for one in made] == [*range(1, TRANSFERS + 1)]
    assert all(one.amount > 0 and one.debit_account != one.credit_account for one in made)
    assert [Transfer.from_message(one.to_message()) for one in made] == made
    assert (crashes(seed), made) == (crashes(seed), transfers(seed))


@pytest.mark.parametrize(
    ("semantics", "lost", "duplicated", "balances_sum", "kept"),
    [
        ("at_most_once", 3, 0, "-1.00", True),
        ("at_most_once", 0, 1, "0.00", False),
        ("at_least_once", 0, 3, "-1.00", True),
        ("at_least_once", 1, 0, "0.00", False),
        ("exactly_once", 0, 0, "0.00", True),
        ("exactly_once", 1, 0, "0.00", False),
        ("exactly_once", 0, 1, "0.00", False),
        ("exactly_once", 0, 0, "0.01", False),
    ],
)
def test_a_consumer_keeps_what_its_semantics_promise(
    semantics: Semantics, lost: int, duplicated: int, balances_sum: str, kept: bool
) -> None:
    outcome = Outcome(
        semantics=semantics,
        crashes=CRASHES,
        transfers=TRANSFERS,
        lost=lost,
        duplicated=duplicated,
        balances_sum=Decimal(balances_sum),
        seconds=1.0,
    )
    assert outcome.as_promised == kept


@pytest.mark.parametrize(
    ("assigned", "settled"),
    [
        ({"a": [0, 1, 2]}, True),
        ({"a": [1], "b": [0, 2], "c": []}, True),
        ({"a": [0, 1, 2], "b": None}, False),
        ({"a": [0, 1]}, False),
        ({"a": [0, 1], "b": [1, 2]}, False),
        ({}, False),
    ],
)
def test_a_rebalance_is_over_once_each_partition_has_one_consumer(
    assigned: dict[str, list[int] | None], settled: bool
) -> None:
    assert is_settled(assigned) == settled


def test_an_option_of_the_first_demo_is_refused_before_the_name_of_another() -> None:
    refused = CliRunner().invoke(app, ["demo", "--count", "3", "groups"])
    assert refused.exit_code == 2
    assert "after its name" in refused.stderr
