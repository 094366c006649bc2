"""verify's own JSON: exact, and in one form if Postgres' jsonb considers values equal."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.verify.decoders.documents import NotTheType, Number, canonical, check_jsonb, compact, parse

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=4)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), TEXTS, st.decimals(-9, 9, places=3))
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3))
)


def spelt(document: object, *, shuffled: bool = False) -> str:
    """Return a document as JSON, decimals as numbers; `shuffled`: in another order, with zeros and whitespace."""
    match document:
        case dict():
            members = [
                f"{json.dumps(key, ensure_ascii=shuffled)}:{spelt(inner, shuffled=shuffled)}"
                for key, inner in document.items()
            ]
            return "{" + (" , ".join(members[::-1]) if shuffled else ",".join(members)) + "}"
        case list():
            return "[" + ",".join(spelt(inner, shuffled=shuffled) for inner in document) + "]"
        case Decimal():
            return f"{document}00" if shuffled else str(document)
        case _:
            return json.dumps(document, ensure_ascii=shuffled)


@given(DOCUMENTS)
def test_what_is_read_is_written_as_it_was(document: object) -> None:
    text = spelt(document)
    assert compact(parse(text.encode())) == text


@given(DOCUMENTS)
def test_order_whitespace_escapes_and_zeros_make_no_difference(document: object) -> None:
    assert canonical(spelt(document)) == canonical(spelt(document, shuffled=True))


@given(DOCUMENTS, DOCUMENTS)
def test_different_documents_are_different(one: object, other: object) -> None:
    def plain(document: object) -> object:  # as Python compares, except that True is 1 there
        return json.loads(spelt(document), parse_int=Decimal, parse_float=Decimal, object_hook=lambda d: ("object", d))

    def exact(document: object) -> object:
        match document:
            case bool() | str() | None:
                return type(document).__name__, document
            case list():
                return [exact(inner) for inner in document]
            case ("object", dict() as members):
                return {key: exact(value) for key, value in members.items()}
            case _:
                return document

    assert (canonical(spelt(one)) == canonical(spelt(other))) == (exact(plain(one)) == exact(plain(other)))


@pytest.mark.parametrize(
    ("number", "same"),
    [
        ("1.0", "1"),
        ("1.00", "1"),
        ("10e-1", "1"),
        ("0.1e+1", "1"),
        ("-0", "0"),
        ("0.000", "0"),
        ("0e99", "0"),
        ("-1.50", "-1.5"),
        ("1200", "1200"),
        ("1.2E3", "1200"),
        ("0.0012", "0.0012"),
        ("1e40", "1e40"),
        ("1" + "0" * 40, "1e40"),
        ("1e-40", "1e-40"),
        ("12345678901234567890.5", "12345678901234567890.5"),
    ],
)
def test_a_number_has_one_spelling(number: str, same: str) -> None:
    assert canonical(number) == same


@pytest.mark.parametrize("text", ["", "{", "nul", "NaN", '{"a":}', "[" * 100_000])
def test_what_is_not_json_stays_as_it_is(text: str) -> None:
    assert canonical(text) == text


def test_the_last_of_repeated_keys_counts_as_in_jsonb() -> None:
    assert canonical('{"a":1,"a":2}') == canonical('{"a":2}')


@pytest.mark.parametrize("number", ["9e131071", "0e131072", "1e-16383", "0e1073741822", "9.9e131071", "0.01e131073"])
def test_numbers_within_the_range_of_numeric(number: str) -> None:
    check_jsonb(Number(number))


@pytest.mark.parametrize("number", ["1e131072", "0.01e131074", "1e-16384", "0e-16384", "0e1073741823", "1e99999999999"])
def test_numbers_beyond_the_range_of_numeric(number: str) -> None:
    with pytest.raises(NotTheType, match="OutOfRange"):
        check_jsonb(Number(number))
