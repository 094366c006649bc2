"""A number and its noun agree."""

import pytest

from platform_defs.errors.words import noun_for, plural, span


@pytest.mark.parametrize(("count", "words"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1_500, "1,500 rows")])
def test_a_noun_has_the_number_of_its_count(count: int, words: str) -> None:
    assert plural(count, "row") == words


def test_a_plural_that_does_not_end_in_s_is_named() -> None:
    assert (plural(1, "try", "tries"), plural(2, "try", "tries")) == ("1 try", "2 tries")


def test_a_noun_can_go_without_its_number() -> None:
    assert (noun_for(1, "partition"), noun_for(2, "partition")) == ("partition", "partitions")


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (604_800_000, "7 days"),
        (86_400_000, "1 day"),
        (129_600_000, "36 hours"),
        (90_000, "90 seconds"),
        (5_400_000, "90 minutes"),
        (1_500, "1,500 ms"),
        (0, "0 ms"),
    ],
)
def test_a_time_is_told_in_its_largest_whole_unit(milliseconds: int, words: str) -> None:
    assert span(milliseconds) == words
