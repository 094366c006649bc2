"""verify's own validator: fields inside objects, and json columns."""

from typing import Any

import pytest

from platform_defs.verify.validators.validator import NoRow, Validator
from tests.unit.verify.test_validator import contract, field

NESTED = contract(
    field("device_id", "string", True, path=("deviceId",)),
    field("city", "string", path=("user", "address", "city"), max_length=5),
    field("zip", "integer", path=("user", "address", "a.b")),
    field("name", "string", path=("user", "näme")),
    field("nothing", "integer", path=("user", "")),
    field("tags", "json", path=("user", "tags")),
    field("payload", "json", path=("payload",)),
)


def nested(text: str) -> Any:
    """Return the result for a message with a deviceId and `text`."""
    return Validator(NESTED).value(('{"deviceId":"d1"' + ("," if text else "") + text + "}").encode())


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ('"user":{"address":{"city":"Bern","a.b":3000},"näme":"Ada","":7}', ("Bern", 3000, "Ada", 7)),
        ("", (None, None, None, None)),
        ('"user":null', (None, None, None, None)),
        ('"user":{}', (None, None, None, None)),
        ('"user":{"address":null,"n\\u00e4me":"Ada"}', (None, None, "Ada", None)),
        ('"user":{"address":{"city":null,"b":1},"address.city":"x"},"city":"y","a.b":4', (None, None, None, None)),
    ],
)
def test_a_path_leads_through_objects_and_what_is_missing_or_null_is_null(text: str, row: tuple[Any, ...]) -> None:
    assert nested(text) == ("d1", *row, None, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('"user":"Ada"', "WrongType"),
        ('"user":[]', "WrongType"),
        ('"user":0', "WrongType"),
        ('"user":false', "WrongType"),
        ('"user":{"address":"Bern"}', "WrongType"),
        ('"user":{"address":{"city":{}}}', "WrongType"),
        ('"user":{"address":{"city":"Zürich"}}', "city_max_length"),
        ('"user":{},"user":{}', "DuplicateKey"),
        ('"user":{"address":{},"address":null}', "DuplicateKey"),
        ('"user":{"address":{"a.b":1,"a\\u002eb":1}}', "DuplicateKey"),
        ('"user":{"":1,"":1}', "DuplicateKey"),
        ('"deviceId":"d1"', "DuplicateKey"),
    ],
)
def test_it_says_why_a_nested_message_is_no_row(text: str, reason: str) -> None:
    assert nested(text) == NoRow(reason)


def test_repeated_keys_that_no_field_asks_for_change_nothing() -> None:
    assert nested('"x":1,"x":2,"user":{"y":1,"y":{"z":1,"z":2}}') == ("d1", *[None] * 6)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("null", None),
        ("true", "true"),
        ("0", "0"),
        ('"a\\u00e9\\n"', '"aé\\n"'),
        ("[]", "[]"),
        (' { "b" : [ 1.50 , -0 , 1E400 ] , "a" : {} } ', '{"b":[1.50,-0,1E400],"a":{}}'),
        ("123456789012345678901234567890.123456789", "123456789012345678901234567890.123456789"),
    ],
)
def test_a_json_column_takes_any_value_exactly(value: str, text: str | None) -> None:
    assert nested(f'"payload":{value},"user":{{"tags":{value}}}') == ("d1", None, None, None, None, text, text)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (r'"\u0000"', "NulCharacter"),
        (r'{"a\u0000":1}', "NulCharacter"),
        (r'["\ud800"]', "InvalidUnicode"),
        (r'{"\udc00":1}', "InvalidUnicode"),
        ('{"a":{"b":1,"b":2}}', "DuplicateKey"),
        (r'[{"a":1,"\u0061":1}]', "DuplicateKey"),
        ("1e131072", "OutOfRange"),
        ("[1e-16384]", "OutOfRange"),
        ("[" * 100 + "]" * 100, "TooDeep"),
    ],
)
def test_what_jsonb_refuses_or_would_drop_is_no_row(value: str, reason: str) -> None:
    assert nested(f'"payload":{value}') == NoRow(reason)
    assert nested(f'"user":{{"tags":{value}}}') == NoRow(reason)


def test_depth_counts_from_the_message() -> None:
    deepest = "[" * 99 + "]" * 99
    assert nested(f'"payload":{deepest}')[-1] == deepest
