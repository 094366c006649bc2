"""The messages that `tidegate send` makes from values by a contract, without a broker."""

from dataclasses import replace
from typing import Any

import pytest

from platform_defs.contract.model.contract import Contract, Framing, WireFormat
from platform_defs.errors import BadInput
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.encoding.messages import MessageSchemas
from platform_defs.formats.framing import HEADERS
from platform_defs.messages.lines import Line
from platform_defs.messages.outgoing import Checked, Outgoing, Refused, Unchecked
from platform_defs.settings.contracts import find_contract
from tests.support.kafka.registered import AVRO
from tests.support.world import transfer

SCHEMAS = MessageSchemas(WriterSchema("7", "avro", AVRO))


def contract_of(framing: Framing, **wire: Any) -> Contract:
    made = WireFormat(framing, record="bank.Transfer", schema_text=AVRO, **wire)
    return replace(find_contract("bank_transfers"), format="avro", wire=made)


def lines(*texts: bytes) -> list[Line]:
    return [Line(number, text) for number, text in enumerate(texts, 1)]


@pytest.mark.parametrize("framing", ["prefix", "both", "header", "none"])
def test_values_are_framed_as_the_contract_says_and_those_that_do_not_fit_refused(framing: Framing) -> None:
    wrong = transfer(3, debit="?")
    made = Checked(contract_of(framing), SCHEMAS).messages(lines(transfer(1), b"\r", b'{"x": 1}', wrong, transfer(4)))
    assert [item.number for item in made] == [1, 3, 4, 5]
    sent = [item.message for item in made if isinstance(item, Outgoing)]
    named = b"\0\0\0\0\7"
    assert {bytes(message.value or b"")[:5] == named for message in sent} == {framing in ("prefix", "both")}
    headers = ((HEADERS["value"], named),) if framing == "header" else ()
    assert {message.headers for message in sent} == {headers}
    unencoded, letter = (item for item in made if isinstance(item, Refused))
    assert str(unencoded) == (
        "3 cannot be encoded: x: the record bank.Transfer has no such field; its fields are: transfer_id, "
        "debit_account, credit_account, amount, currency, occurred_at, memo"
    )
    assert str(letter).startswith("4 would be a dead letter (debit_account_pattern): debit_account breaks")


def test_many_values_are_refused_by_their_own_numbers() -> None:
    texts = [transfer(n, currency="XXX" if n % 100 == 99 else "EUR") for n in range(1_000)]
    made = Checked(find_contract("bank_transfers"), None).messages(lines(*texts))
    assert [item.number for item in made if isinstance(item, Refused)] == list(range(100, 1_001, 100))


def test_a_key_that_no_upsert_can_use_is_refused() -> None:
    customers = find_contract("crm_customers")
    for key, reason in ((None, "set one with --key"), (b"\xff", "not UTF-8"), (b"a\0", "NUL character")):
        with pytest.raises(BadInput, match=reason):
            Checked(customers, None, key)
    made = Checked(find_contract("bank_transfers"), None, b"\xff").messages(lines(transfer(1)))
    assert [item.message.key for item in made if isinstance(item, Outgoing)] == [b"\xff"]


@pytest.mark.parametrize(("schema", "text"), [('"long"', b"1"), ('"string"', b"\xff")])
def test_a_key_that_its_schema_does_not_take_is_refused(schema: str, text: bytes) -> None:
    contract = contract_of("prefix", key_format="avro", subject="t-value")
    schemas = replace(SCHEMAS, key=WriterSchema("8", "avro", schema))
    with pytest.raises(BadInput, match="--key must be text that the schema of t-key can encode: "):
        Checked(contract, schemas, text).messages(lines(transfer(1)))


def test_unchecked_values_are_sent_byte_for_byte() -> None:
    made = Unchecked(b"k", (("h", b""),), 2).messages(lines(b"\xff", b""))
    assert [tuple(item.message)[:4] for item in made if isinstance(item, Outgoing)] == [
        (b"\xff", b"k", (("h", b""),), 2),
        (b"", b"k", (("h", b""),), 2),
    ]
    assert [item.number for item in made] == [1, 2]
