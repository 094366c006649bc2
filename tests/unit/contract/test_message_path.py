"""A message path: any list of keys can be written as one, and is read back as the same keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.contract.model.message_path import parse_path, spell_path

KEYS = st.text(st.characters() | st.sampled_from(r".\\e"), max_size=12)


@given(st.lists(KEYS, min_size=1, max_size=5).map(tuple))
def test_what_is_spelled_is_read_back(path: tuple[str, ...]) -> None:
    assert parse_path(spell_path(path)) == path


@given(KEYS)
def test_what_is_read_is_spelled_as_it_was(text: str) -> None:
    try:
        path = parse_path(text)
    except ValueError:
        return
    assert spell_path(path) == text


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("deviceId", ("deviceId",)),
        ("user.address.city", ("user", "address", "city")),
        (r"a\.b.c", ("a.b", "c")),
        (r"a\\.b", ("a\\", "b")),
        (r"\e", ("",)),
        (r"a.\e.b", ("a", "", "b")),
        ("é ü.\n", ("é ü", "\n")),
    ],
)
def test_a_path_is_keys_between_dots(text: str, path: tuple[str, ...]) -> None:
    assert parse_path(text) == path


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "a\\", r"a\b", r"a\e", r"\ea", r"\e\e"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a path of keys"):
        parse_path(text)


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="half a surrogate pair"):
        parse_path("user.\ud800")


def test_a_path_ends_where_messages_do() -> None:
    assert len(parse_path(".".join("k" * 99))) == 99
    with pytest.raises(
        ValueError, match="the path has 100 keys; 99 is the maximum, since a message has at most 100 levels"
    ):
        parse_path(".".join("k" * 100))
    assert parse_path("k" * 1_000) == ("k" * 1_000,)
    with pytest.raises(ValueError, match="a key of the path has 1,001 characters; 1,000 is the maximum"):
        parse_path("a." + "k" * 1_001)
