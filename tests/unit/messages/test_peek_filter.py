"""A block of messages in `tidegate peek`: decoded, checked, filtered and masked."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.contract.model.classified import HIDDEN
from platform_defs.contract.model.column_types import STRING, TIMESTAMP
from platform_defs.contract.model.contract import Contract, Field
from platform_defs.engine.task.decoding import BlockDecoder
from platform_defs.errors import BadInput
from platform_defs.formats.blocks.block import message_blocks
from platform_defs.messages.chosen_topic import ChosenTopic
from platform_defs.messages.cli.peek_answer import _lines, _message_json
from platform_defs.messages.peek_filter import PeekFilter
from platform_defs.messages.peeked_message import PeekedMessage
from platform_defs.settings.contracts import find_contract
from tests.support.world import declassified, transfer

TRANSFERS, CUSTOMERS = find_contract("bank_transfers"), find_contract("crm_customers")
OPEN = declassified(TRANSFERS)
SECRET = "Zürich4711"  # noqa: S105  # a classified value


@dataclass(frozen=True)
class Sent:
    """A message as confluent_kafka gives it."""

    content: bytes | None
    at: int = 0
    name: bytes | None = None
    with_headers: Sequence[tuple[str, bytes | None]] = ()
    time: tuple[int, int] = (1, 1_790_000_000_000)

    def key(self) -> bytes | None:
        return self.name

    def value(self) -> bytes | None:
        return self.content

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return self.time

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return list(self.with_headers) or None

    def leader_epoch(self) -> int | None:
        return 0


def peeked(
    contract: Contract | None, *messages: Sent, hides: bool = False, most: int | None = None, **options: Any
) -> list[PeekedMessage]:
    chosen = ChosenTopic("t", contract, hides=hides)
    decoder = BlockDecoder(contract, None) if contract else None
    numbered = [replace(one, at=at) for at, one in enumerate(messages, start=100)]
    (block,) = message_blocks(numbered)
    return PeekFilter(chosen, decoder, **options).matching(3, block, most)


def offsets(found: Sequence[PeekedMessage]) -> list[int]:
    return [one.offset for one in found]


GOOD = [Sent(transfer(n, f"{n + 1}.00"), name=b"k%d" % (n % 2)) for n in range(4)]
BAD = [Sent(b"{not json", name=b"k0"), Sent(transfer(9, "-1.00")), Sent(None), Sent(b"\xff\xfe")]


def test_a_key_or_header_cannot_look_like_another_message() -> None:
    forged = b"a\npartition 0, offset 9, no timestamp, key b, 4 bytes"
    messages = Sent(transfer(1), name=forged, with_headers=[(forged.decode(), forged)]), Sent(b"text\n" + forged)
    for contract in (OPEN, None):
        shown = "\n".join(line for one in peeked(contract, *messages) for line in _lines(one)).splitlines()
        assert sum(line.startswith("partition") for line in shown) == 2


def test_a_field_that_another_contract_classifies_is_masked_and_no_filter() -> None:
    chosen, (block,) = ChosenTopic("t", OPEN, True, frozenset(["amount"])), message_blocks([GOOD[0]])
    (one,) = PeekFilter(chosen, BlockDecoder(OPEN, None)).matching(0, block, None)
    assert one.fields is not None
    assert (one.fields["amount"], one.fields["transfer_id"]) == (HIDDEN, "T1")
    with pytest.raises(BadInput, match="amount may hold classified values"):
        PeekFilter(chosen, BlockDecoder(OPEN, None), where="amount > 1")
    fields = [replace(one, classification="secret" if one.name == "transfer_id" else "") for one in OPEN.fields]
    own = replace(OPEN, fields=tuple(fields))
    (block,) = message_blocks([Sent(transfer(9, "-77.00"))])
    (one,) = PeekFilter(replace(chosen, contract=own), BlockDecoder(own, None)).matching(0, block, None)
    assert one.fault is not None
    assert "77" not in one.fault.message


def test_each_message_has_its_fields_or_why_it_would_be_a_dead_letter() -> None:
    first, bad, negative, tombstone, _ = peeked(OPEN, GOOD[0], *BAD)
    assert first.fields is not None
    assert (first.fields["transfer_id"], str(first.fields["amount"])) == ("T1", "1.00")
    assert (first.partition, first.offset, first.timestamp_type, first.fault) == (3, 100, "CreateTime", None)
    assert first.value is not None
    assert (first.value.size, first.value.data) == (len(GOOD[0].content or b""), None)
    assert bad.fault is not None
    assert (bad.fault.error_class, bad.fields, bad.value and bad.value.data) == ("InvalidJson", None, b"{not json")
    assert negative.fault is not None
    assert (negative.fault.stage, negative.fault.error_class) == ("check", "amount_minimum")
    assert (tombstone.value, tombstone.fault is not None) == (None, True)


def test_an_upserts_tombstone_is_none_and_a_message_without_a_key_is_one() -> None:
    contract = declassified(CUSTOMERS)
    value = json.dumps({"customer_id": "C1", "name": "A", "tier": "gold", "signed_up": "2026-01-01"}).encode()
    kept, gone, nameless = peeked(contract, Sent(value, name=b"C1"), Sent(None, name=b"C1"), Sent(value))
    assert (kept.fault, kept.key and kept.key.text) == (None, "C1")
    assert (gone.fault, gone.fields, gone.value, gone.other_record) == (None, None, None, False)
    assert nameless.fault is not None
    assert nameless.fault.error_class == "MissingKey"


def test_filters_select_by_key_and_by_columns() -> None:
    every = [*GOOD, *BAD]
    assert offsets(peeked(OPEN, *every, key="k0")) == [100, 102, 104]
    assert offsets(peeked(OPEN, *every, where="amount > 2")) == [102, 103]
    assert offsets(peeked(OPEN, *every, where="amount > 0", key="k1")) == [101, 103]
    assert offsets(peeked(OPEN, *every, where="_error is not null")) == [104, 105, 106, 107]
    assert offsets(peeked(OPEN, *every, where="_error = 'amount_minimum'")) == [105]
    assert offsets(peeked(OPEN, *every, where="_offset >= 102 and _partition = 3 and _size is null")) == [106]
    assert offsets(peeked(OPEN, *every, where="_key = 'k1' and _timestamp > '2026-01-01'")) == [101, 103]
    assert offsets(peeked(OPEN, *every, where="amount > 0", most=1)) == [100]
    assert offsets(peeked(OPEN, *BAD, where="amount > 0")) == []


def test_fields_of_a_messages_metadata_are_shown_and_searched() -> None:
    tenant = Field("tenant", STRING, required=True, rules=(), source="header:tenant")
    sent_at = Field("sent_at", TIMESTAMP, required=False, rules=(), source="timestamp")
    contract = replace(OPEN, metadata_fields=(tenant, sent_at))
    sent = [replace(one, with_headers=[("tenant", b"t%d" % n)]) for n, one in enumerate(GOOD)]
    (one,) = peeked(contract, *sent, where="tenant = 't2' and sent_at > '2026-01-01'")
    assert one.fields is not None
    assert (one.offset, one.fields["tenant"], one.fields["sent_at"].year) == (102, "t2", 2026)


def test_a_topic_without_a_contract_is_searched_as_text() -> None:
    messages = [Sent(b'{"a": 1}', name=b"\xff"), Sent(b"\xff"), Sent(None)]
    assert offsets(peeked(None, *messages, where="_value->>'$.a' = '1'")) == [100]
    assert offsets(peeked(None, *messages, where="_key is null and _size > 0")) == [100, 101]
    first, second, third = peeked(None, *messages)
    assert (first.fields, first.value and first.value.text, first.key and first.key.data) == (None, '{"a": 1}', b"\xff")
    assert (second.value and second.value.text, third.value) == (None, None)
    with pytest.raises(BadInput, match="_value"):
        peeked(None, *messages, where="amount > 1")


def test_a_message_of_another_record_is_neither_decoded_nor_a_dead_letter() -> None:
    class Skipping(BlockDecoder):
        def read(self, partition: int, block: Any, chosen: Any) -> Any:
            found = super().read(partition, block, chosen)
            return replace(found, decoded=replace(found.decoded, faults=[]))

    chosen, (block,) = ChosenTopic("t", OPEN, hides=False), message_blocks([Sent(b"{")])
    (one,) = PeekFilter(chosen, Skipping(OPEN, None)).matching(0, block, None)
    assert (one.other_record, one.fault) == (True, None)


def test_classified_columns_cannot_be_named_and_the_others_can() -> None:
    for expression in ("memo like 'p%'", "length(debit_account) > 1", "_key = 'k1'"):
        with pytest.raises(BadInput, match="may hold classified values"):
            peeked(TRANSFERS, *GOOD, hides=True, where=expression)
    assert offsets(peeked(TRANSFERS, *GOOD, hides=True, where="amount > 2")) == [102, 103]
    with pytest.raises(BadInput) as refused:
        peeked(TRANSFERS, *GOOD, hides=True, where="nothing = 1")
    assert "memo" not in str(refused.value)


def shown(found: Sequence[PeekedMessage]) -> str:
    return "\n".join(json.dumps(_message_json(one)) + "\n".join(_lines(one)) for one in found)


def test_classified_values_keys_and_headers_are_masked() -> None:
    message = replace(
        Sent(transfer(0, memo=SECRET)), name=SECRET.encode(), with_headers=[("trace", SECRET.encode()), ("none", None)]
    )
    (one,) = found = peeked(TRANSFERS, message, hides=True)
    assert one.fields is not None
    assert (one.fields["memo"], one.fields["debit_account"], one.fields["transfer_id"]) == (HIDDEN, HIDDEN, "T1")
    assert one.key is not None
    assert (one.key.size, one.key.data, one.key.text) == (len(SECRET.encode()), None, None)
    assert SECRET not in shown(found)


@pytest.mark.slow
@given(
    memo=st.sampled_from([SECRET, SECRET * 30, f"{SECRET}\0"]),
    damage=st.sampled_from(["cut", "amount", "account", "array", "bytes", "none"]),
    options=st.sampled_from([{}, {"where": "_error is not null"}, {"where": "amount > 0"}, {"key": SECRET}]),
)
def test_whatever_is_wrong_with_a_message_no_classified_value_is_shown(
    memo: str, damage: str, options: dict[str, Any]
) -> None:
    value = transfer(0, memo=memo, debit=SECRET if damage == "account" else "A00001")
    damaged = {
        "cut": value[:-5],
        "amount": transfer(0, "nothing", memo=memo),
        "array": b"[" + value + b"]",
        "bytes": value + SECRET.encode("utf-16"),
    }
    message = Sent(damaged.get(damage, value), name=SECRET.encode(), with_headers=[("h", SECRET.encode())])
    text = shown(peeked(TRANSFERS, message, hides=True, **options))
    assert SECRET not in text
    assert SECRET.encode().hex() not in text.replace(" ", "")


def test_a_fault_is_masked_where_another_contract_of_the_topic_classifies_fields() -> None:
    (one,) = found = peeked(OPEN, Sent(transfer(0, debit=SECRET)), hides=True)
    assert one.fault is not None
    assert one.fault.error_class == "debit_account_pattern"
    assert SECRET not in shown(found)
