"""json columns: the text that each value becomes, and the values that Postgres' jsonb would refuse or change."""

import pytest

from platform_defs.contract.model.contract import Contract
from platform_defs.formats.json import json_text, lines
from tests.unit.formats.json.test_decode_nested import JSON_ONLY, MIXED, fault, row

EXACT = [
    "12345678901234567890",
    "0.1000000000000000000001",
    "-0",
    "1.0",
    "1e2",
    "1E+400",
    "123456789012345678901234567890.10",
    '"a"',
    '"ä\\n\\"\\\\"',
    "true",
    "[]",
    "{}",
    '[1,[2,{"b":1,"a":null}],"x"]',
    '{"":{"":""}}',
]


@pytest.mark.parametrize("text", EXACT)
@pytest.mark.parametrize("of", [JSON_ONLY, MIXED])
def test_a_json_column_is_the_value_to_the_last_digit(of: Contract, text: str) -> None:
    assert row(of, f'{{"payload":{text}}}'.encode()) == {"payload": text}
    assert row(of, f'{{ "payload" :\n {text} }}'.encode()) == {"payload": text}


def test_the_text_does_not_depend_on_whitespace_or_escapes() -> None:
    spelt = b'{"payload": { "b" : [1, 2.50], "\\u0061":"\\u00e4\\/" }}'
    assert row(JSON_ONLY, spelt) == row(JSON_ONLY, '{"payload":{"b":[1,2.50],"a":"ä/"}}'.encode())
    assert row(JSON_ONLY, spelt) == {"payload": '{"b":[1,2.50],"a":"ä/"}'}


def test_an_object_may_be_kept_whole_and_taken_apart() -> None:
    got = row(MIXED, b'{"user":{"address":{"city":"Ulm","more":[1]},"tags":["a"]}}')
    assert got == {"city": "Ulm", "address": '{"city":"Ulm","more":[1]}', "tags": '["a"]'}


@pytest.mark.parametrize(
    ("value", "error_class", "message"),
    [
        (rb'{"payload":"\u0000"}', "NulCharacter", r"payload holds \u0000, which Postgres' jsonb cannot store"),
        (rb'{"payload":[{"\u0000":1}]}', "NulCharacter", "payload holds"),
        (rb'{"payload":{"a":"\ud800"}}', "InvalidUnicode", "half a surrogate pair"),
        (b'{"payload":1e131072}', "OutOfRange", "contains the number 1e131072, which Postgres' numeric cannot store"),
        (b'{"payload":[1e-16384]}', "OutOfRange", "1e-16384"),
        (b'{"payload":1e999999999999999999999}', "OutOfRange", "numeric cannot store"),
        (b'{"payload":{"a":1,"a":1}}', "DuplicateKey", 'payload has the key "a" twice in one object'),
        (rb'{"payload":[{"a":1,"\u0061":2}]}', "DuplicateKey", 'the key "a" twice'),
        (b'{"payload":1,"payload":1}', "DuplicateKey", "payload appears twice"),
        (b'{"payload":NaN}', "InvalidJson", "NaN"),
        (b'{"payload":' + b"[" * 100 + b"]" * 100 + b"}", "TooDeep", "100 levels"),
    ],
)
@pytest.mark.parametrize("of", [JSON_ONLY, MIXED])
def test_what_jsonb_would_refuse_or_change_is_a_fault(
    of: Contract, value: bytes, error_class: str, message: str
) -> None:
    found = fault(of, value)
    assert found.error_class == error_class
    assert message in found.message


def test_what_jsonb_has_no_room_for_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (json_text, lines):
        monkeypatch.setattr(module, "MAX_BYTES", 100)
    assert row(JSON_ONLY, b'{"payload":"%s"}' % (b"x" * 98)) == {"payload": '"%s"' % ("x" * 98)}
    found = fault(JSON_ONLY, b'{"payload":"%s"}' % (b"x" * 99))
    assert (found.error_class, found.message) == (
        "TooLarge",
        "payload is 101 bytes of JSON; a json column stores at most 100",
    )
