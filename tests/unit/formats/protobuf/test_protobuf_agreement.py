"""The block reader, the single reader and verify's own reader agree, whatever the messages hold."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_defs.contract.model.contract import Contract
from platform_defs.formats.blocks.reason import Reason, Wrong
from platform_defs.formats.protobuf.decode import ProtobufReader
from platform_defs.formats.protobuf.shapes import FieldShape, MessageShape
from platform_defs.formats.protobuf.tree import Tree, TreeReader
from platform_defs.verify.compare.chunk_validator import row_table
from platform_defs.verify.decoders.documents import NotTheType
from platform_defs.verify.decoders.protobuf import ProtobufValidator
from tests.support.mutations import MESSAGES
from tests.unit.formats.protobuf.protobuf_messages import (
    COLUMNS2,
    COLUMNS3,
    PROTO2,
    PROTO3,
    contract_of,
    damaged,
    decoded,
    everything,
    new,
    schema,
    transfer,
    type_of,
)

BLOCK = 100  # messages: enough for the walk


class Readers:
    """The three readers of one schema and one contract, and good messages for them."""

    def __init__(self, text: str, contract: Contract, make: Callable[[random.Random], Any]) -> None:
        self.make, self.contract = make, contract
        self.block = ProtobufReader(contract, schema(text))
        self.validator = ProtobufValidator(contract, text)

    def validate(self, payload: bytes) -> list[Any] | str:
        try:
            return self.validator.values(payload)
        except NotTheType as why:
            return str(why)

    def assert_agreement(self, payloads: Sequence[bytes]) -> None:
        found = decoded(self.block, payloads)
        found.rows.validate(full=True)
        assert found.rows.schema == self.contract.arrow_schema
        columns: list[list[Any]] = [column.to_pylist() for column in found.rows.columns]
        rows = dict(zip(found.indexes.to_pylist(), zip(*columns, strict=True), strict=True))
        faults = {fault.index: fault for fault in found.faults}
        unknown = 0
        for index, payload in enumerate(payloads):
            alone = self.block.read_alone(payload)
            if isinstance(alone, Reason):
                fault = faults.pop(index)
                assert (fault.error_class, fault.message, fault.field) == (
                    alone.error_class,
                    alone.message,
                    alone.field,
                )
                assert self.validate(payload) == alone.error_class, payload.hex()
            else:
                row = list(rows.pop(index))
                assert row == alone.values, payload.hex()
                assert row == self.validate(payload), payload.hex()
                unknown += alone.unknown
        assert not rows
        assert not faults
        assert unknown == found.unknown_fields


READERS = {
    "proto3": Readers(PROTO3, contract_of(COLUMNS3), transfer),
    "proto2": Readers(PROTO2, contract_of(COLUMNS2), everything),
}
SYNTAXES, SEEDS = st.sampled_from(sorted(READERS)), st.integers(0, 2**32)


@pytest.mark.longest
@pytest.mark.long
@settings(max_examples=12, deadline=None)
@given(SYNTAXES, SEEDS)
def test_good_messages_are_read_the_same_by_all_readers(syntax: str, seed: int) -> None:
    readers, chance = READERS[syntax], random.Random(seed)
    payloads = [readers.make(chance).SerializeToString(deterministic=True) for _ in range(BLOCK)]
    readers.assert_agreement(payloads)
    cut = chance.randrange(BLOCK)
    readers.assert_agreement(payloads[:cut])
    readers.assert_agreement(payloads[cut:])


def test_no_good_message_is_a_dead_letter() -> None:
    for readers in READERS.values():
        chance = random.Random(1)
        payloads = [readers.make(chance).SerializeToString(deterministic=True) for _ in range(BLOCK)]
        wrong = [fault for fault in decoded(readers.block, payloads).faults if fault.error_class != "OutOfRange"]
        assert not wrong  # OutOfRange: a uint64 that no column of 64 bits holds


@pytest.mark.long
def test_a_block_that_is_too_large_to_be_read_at_once_is_read_in_parts() -> None:
    readers = READERS["proto3"]
    payloads = [new(PROTO3, "Transfer", text="x" * 200_000, number=n).SerializeToString() for n in range(200)]
    payloads[150] += b"\0"
    found = decoded(readers.block, payloads)
    assert [fault.index for fault in found.faults] == [150]
    assert found.indexes.to_pylist() == found.rows.column("number").to_pylist() == [*range(150), *range(151, 200)]


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(SYNTAXES, SEEDS)
def test_damaged_messages_are_read_the_same_by_all_readers(syntax: str, seed: int) -> None:
    assert_agreement_on_damaged(READERS[syntax], random.Random(seed))


def assert_agreement_on_damaged(readers: Readers, chance: random.Random) -> None:
    """Assert that damaged messages among good ones are read as alone: none has touched its neighbours."""
    good = [readers.make(chance).SerializeToString(deterministic=True) for _ in range(BLOCK)]
    readers.assert_agreement([damaged(chance, payload) if chance.random() < 0.7 else payload for payload in good])


@pytest.mark.longest
@pytest.mark.parametrize("syntax", READERS)
@pytest.mark.timeout(7_200)
def test_messages_with_wrong_bytes_harm_nothing(syntax: str, capfd) -> None:
    for number in range(MESSAGES // len(READERS) // BLOCK):
        assert_agreement_on_damaged(READERS[syntax], random.Random(number))
    assert capfd.readouterr() == ("", "")


def test_rows_hold_what_upb_has() -> None:
    chance, readers = random.Random(3), READERS["proto3"]
    messages = [transfer(chance) for _ in range(3 * BLOCK)]
    found = decoded(readers.block, [message.SerializeToString() for message in messages])
    assert found.rows.num_rows == len(messages)
    for row, message in zip(found.rows.to_pylist(), messages, strict=True):
        assert {name: row[name] for name in ("text", "number", "real", "yes", "narrow")} == {
            **{"text": message.text, "number": message.number, "real": message.real, "yes": message.yes},
            "narrow": message.narrow,
        }
        assert row["at"] == (_time(message.at) if message.HasField("at") else None)
        assert row["day"] == (
            date(message.day.year, message.day.month, message.day.day) if message.HasField("day") else None
        )
        assert row["amount"] == (Decimal(message.amount) if message.amount else None)
        assert row["state"] == {0: "NEW", 1: "DONE", -1: "LATE"}[message.state]
        assert row["party_city"] == (message.party.city if message.HasField("party") else None)
        assert row["branch"] == (message.branch if message.WhichOneof("from") == "branch" else None)
        assert row["signed"] == (message.signed if message.HasField("signed") else None)
        _assert_arrays(row, message)
        mapped = MessageToDict(message, preserving_proto_field_name=True)
        for name, missing in (("party", None), ("took", None), ("anything", None), ("parties", []), ("by_number", {})):
            assert (json.loads(row[name]) if row[name] else None) == mapped.get(name, missing), name


def _assert_arrays(row: dict[str, Any], message: Any) -> None:
    assert (row["numbers"], row["words"]) == ([*message.numbers], [*message.words])
    assert row["days"] == [date(day.year, day.month, day.day) for day in message.days]
    assert row["times"] == [_time(at) for at in message.times]
    assert row["rates"] == [Decimal(rate.value or 0) for rate in message.rates]
    assert row["states"] == [{0: "NEW", 1: "DONE", -1: "LATE"}[state] for state in message.states]


def _time(at: Any) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at.seconds, microseconds=at.nanos // 1_000)


def test_a_decimal_with_more_zeros_than_arrow_takes_off_is_a_row_to_verify_as_well() -> None:
    contract = contract_of({"exact": "decimal(33,14)", "sums": "array<decimal(33,14)>"})
    message = new(PROTO3, "Transfer")
    message.exact.value, message.exact.scale = (-(10**50)).to_bytes(24, "big", signed=True), 37
    message.sums.add(value=message.exact.value, scale=37)
    payload = message.SerializeToString()
    read = decoded(ProtobufReader(contract, schema(PROTO3)), [payload]).rows
    validated = row_table(contract.arrow_schema, [tuple(ProtobufValidator(contract, PROTO3).values(payload))])
    assert validated.to_pylist() == read.to_pylist() == [{"exact": Decimal(-(10**13)), "sums": [Decimal(-(10**13))]}]


def test_what_upb_takes_is_taken_and_holds_the_same() -> None:
    chance, taken, refused = random.Random(1), 0, 0
    shape, of = MessageShape(type_of(PROTO2, "All")), GetMessageClass(type_of(PROTO2, "All"))
    for payload in _good_and_damaged(chance, 4_000):
        try:
            wanted: Any = of.FromString(payload)
        except DecodeError:
            wanted = None
        try:
            tree = TreeReader(payload).read(shape, 0)
        except Wrong:
            tree = None
        assert (wanted is None) == (tree is None), payload.hex()
        if tree is None:
            refused += 1
        elif not _has_unnamed(shape, tree):
            taken += 1
            _assert_same(shape, tree, wanted)
    assert taken > 500
    assert refused > 500


def _good_and_damaged(chance: random.Random, count: int) -> Iterator[bytes]:
    for _ in range(count // 4):
        good = everything(chance).SerializeToString(deterministic=True)
        yield good
        yield from (damaged(chance, good) for _ in range(3))


def _has_unnamed(shape: MessageShape, tree: Tree) -> bool:
    """Return True if an enum has a number without a name: upb treats it as missing, here it is a dead letter."""
    for number, value in tree.items():
        field = shape.fields[number]
        if field.enum is not None and value not in field.enum.names:
            return True
        inner = (value if field.repeated else [value]) if field.message else []
        if field.message and any(_has_unnamed(field.message, part) for part in inner):
            return True
    return False


def _assert_same(shape: MessageShape, tree: Tree, wanted: Any) -> None:
    present = {field.number for field, _ in wanted.ListFields()}
    for number, field in shape.fields.items():
        if field.message is not None and field.message.of.GetOptions().map_entry:
            continue  # upb leaves out an entry that has unknown fields; Java, C++ and the specification do not
        assert (number in present) == bool(number in tree and (tree[number] or not field.repeated)), field.name
        if number in present:
            _assert_same_value(field, tree[number], getattr(wanted, field.name))


def _assert_same_value(field: FieldShape, found: Any, wanted: Any) -> None:
    values, others = (found, list(wanted)) if field.repeated else ([found], [wanted])
    if field.message is None:
        texts = [value.decode() if field.kind == "string" else value for value in values]
        assert repr(texts) == repr(others), field.name
        return
    for value, other in zip(values, others, strict=True):
        _assert_same(field.message, value, other)
