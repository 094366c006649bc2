"""Every reason why an Avro message is no row: the class, the field and the byte; its neighbours are untouched."""

import json
from typing import Any

import pytest

from platform_defs.formats.avro.decode import AvroReader
from platform_defs.formats.avro.walk import MAX_DEPTH
from platform_defs.formats.blocks.writer_schema import SchemaNotCompatible
from platform_defs.verify.decoders.avro import AvroValidator
from platform_defs.verify.decoders.documents import NotTheType
from tests.unit.formats.avro.avro_messages import (
    Readers,
    contract_of,
    decode,
    encode,
    fixed,
    logical,
    record,
    varint,
    writer,
)

COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 3}
SCHEMA = record(
    name="string",
    small="int",
    flag="boolean",
    rate="double",
    amount=AMOUNT,
    day=logical("int", "date"),
    at=logical("long", "timestamp-nanos"),
    colour=COLOUR,
    memo=["null", "string"],
    tags={"type": "array", "items": "long"},
)
COLUMNS = {
    "name": "string",
    "small": "integer",
    "flag": "boolean",
    "rate": "double",
    "amount": "decimal(6,2)",
    "day": "date",
    "at": "timestamp",
    "colour": "string",
    "memo": "string",
}
GOOD: dict[str, Any] = {
    "name": "a",
    "small": 1,
    "flag": True,
    "rate": 0.5,
    "amount": b"\x0a",
    "day": 1,
    "at": 1000,
    "colour": 1,
    "memo": (1, "m"),
    "tags": [1, 2],
}
PARTS = [(item["name"], item["type"]) for item in SCHEMA["fields"]]


def message(**changed: Any) -> bytes:
    return encode(SCHEMA, GOOD | changed)


def spoiled(field: str, data: bytes) -> bytes:
    """Return a good message whose `field` consists of these bytes."""
    return b"".join(data if name == field else encode(of, GOOD[name]) for name, of in PARTS)


def truncated(field: str) -> bytes:
    """Return a message that ends where `field` begins."""
    names = [name for name, _ in PARTS]
    return b"".join(encode(of, GOOD[name]) for name, of in PARTS[: names.index(field)])


BAD: list[tuple[str, str | None, bytes, str]] = [
    ("TruncatedAvro", "name", b"", "in name, at byte 0 of 0: the message ends in the middle of a number"),
    ("TruncatedAvro", "name", b"\x04a", "in name, at byte 1 of 2: 2 bytes should follow, with 1 left"),
    ("TruncatedAvro", "flag", truncated("flag"), "in flag, at byte 3 of 3: 1 byte should follow, with 0 left"),
    ("TruncatedAvro", "rate", truncated("rate") + b"1234567", "8 bytes should follow, with 7 left"),
    ("TruncatedAvro", None, message()[:-1], "in tags, at byte 24 of 24: the message ends in the middle of a number"),
    ("TruncatedAvro", None, spoiled("tags", varint(2**31)), "2,147,483,648 items should follow, with 0 bytes left"),
    ("TruncatedAvro", "name", varint(2**31) + b"a", "2,147,483,648 bytes should follow, with 1 left"),
    ("TrailingBytes", None, message() + b"\0", "at byte 25 of 26: the record has ended, with 1 byte left"),
    (
        "InvalidBranch",
        "memo",
        spoiled("memo", varint(2)),
        "in memo, at byte 18 of 23: branch index 2 is out of range: the union has 2",
    ),
    ("InvalidBranch", "memo", spoiled("memo", varint(-1)), "branch index -1 is out of range: the union has 2"),
    ("InvalidEnum", "colour", spoiled("colour", varint(2)), "index 2 is not in the enum Colour, which has 2 symbols"),
    ("InvalidEnum", "colour", spoiled("colour", varint(-1)), "index -1 is not in the enum Colour"),
    ("InvalidBoolean", "flag", spoiled("flag", b"\x02"), "a boolean must be 0 or 1, not 2"),
    ("InvalidVarint", "at", spoiled("at", b"\xff" * 10), "a number of more than 64 bits"),
    ("InvalidVarint", "at", spoiled("at", b"\xff" * 9 + b"\x02"), "a number of more than 64 bits"),
    ("InvalidVarint", "small", spoiled("small", varint(2**31)), "2147483648 is not an int, which has 32 bits"),
    ("InvalidLength", "name", spoiled("name", varint(-1)), "in name, at byte 0 of 24: the length is negative: -1"),
    ("InvalidLength", None, spoiled("tags", b"\x01\x04\x02\x00"), "the block declares 2 bytes, but its items take 1"),
    ("InvalidUtf8", "name", message(name=b"a\xff"), "name is not UTF-8 at its byte 1"),
    ("NulCharacter", "memo", message(memo=(1, "a\0")), r"memo holds \u0000, which Postgres' text cannot store: a\x00"),
    ("NotFinite", "rate", message(rate=float("nan")), "rate is nan; a double must be finite"),
    ("NotFinite", "rate", message(rate=float("-inf")), "rate is -inf"),
    ("OutOfRange", "amount", message(amount=(10**7).to_bytes(4)), "amount is 10000.000; decimal(6,2) has 4 digits"),
    ("OutOfRange", "amount", message(amount=b"\x7f" * 40), "amount is a number of 40 bytes"),
    (
        "TooManyDecimals",
        "amount",
        message(amount=b"\x01"),
        "amount is 0.001; decimal(6,2) keeps 2 and nothing is round",
    ),
    ("OutOfRange", "day", message(day=3_000_000), "day is 3,000,000 days from 1970; years run from 0001 to 9999"),
    ("TooManyDecimals", "at", message(at=1), "at is 1 nanosecond; a timestamp keeps microseconds"),
]


@pytest.mark.parametrize(("error_class", "field", "bad", "text"), BAD, ids=[item[0] for item in BAD])
def test_a_bad_message_is_one_fault_and_its_neighbours_are_rows(
    error_class: str, field: str | None, bad: bytes, text: str
) -> None:
    decoded = decode(contract_of(COLUMNS), SCHEMA, [*[message()] * 40, bad, *[message()] * 40])
    (fault,) = decoded.faults
    assert (fault.index, fault.stage, fault.error_class, fault.field) == (40, "decode", error_class, field)
    assert text in fault.message
    assert decoded.rows.num_rows == 80
    assert decoded.indexes.to_pylist() == [n for n in range(81) if n != 40]


def test_timestamps_end_with_the_year_9999() -> None:
    schema = record(at=logical("long", "timestamp-millis"))
    last = 253_402_300_799_999
    decoded = decode(contract_of({"at": "timestamp"}), schema, [varint(last), varint(last + 1), varint(-(2**63))])
    assert [str(at) for at in decoded.rows["at"].to_pylist()] == ["9999-12-31 23:59:59.999000+00:00"]
    assert [fault.error_class for fault in decoded.faults] == ["OutOfRange", "OutOfRange"]


@pytest.mark.timeout(200)
def test_a_decimal_of_four_megabytes_is_out_of_range_without_computing_its_digits() -> None:
    readers, large = Readers(contract_of({"c": "decimal(6,2)"}), record(c=AMOUNT)), b"\x7f" * 4_000_000
    messages = [varint(len(large)) + large]
    assert readers.single(messages) == readers.verification(messages) == ["OutOfRange"]


NODE = record("Node", value="long", next=["null", "Node"])


def chain(length: int) -> bytes:
    return b"".join(varint(n) + varint(1) for n in range(length)) + varint(0) + varint(0)


def test_a_value_may_nest_to_a_limit() -> None:
    readers = Readers(contract_of({"node": "json"}), record(node=NODE))
    assert readers.single([chain(5)]) == [(nested(5),)]
    outcomes = readers.single([chain(MAX_DEPTH - 2), chain(MAX_DEPTH - 1)])
    assert isinstance(outcomes[0], tuple)
    assert outcomes[1] == "TooDeep"
    assert readers.verification([chain(MAX_DEPTH - 2), chain(MAX_DEPTH - 1)]) == outcomes


def nested(length: int) -> str:
    text = '{"value":0,"next":null}'
    for n in range(length - 1, -1, -1):
        text = f'{{"value":{n},"next":{text}}}'
    return text


def test_a_record_that_contains_itself_without_end_takes_no_byte() -> None:
    endless = record("Endless", inner="Endless")
    decoded = decode(contract_of({"a": "integer"}), record(e=endless, a="int"), [varint(7)] * 70)
    assert decoded.rows["a"].to_pylist() == [7] * 70


def test_a_schema_that_doubles_with_each_record_is_passed_at_once() -> None:
    levels: Any = record("L0", x="null", y="null")
    for n in range(1, 60):
        levels = record(f"L{n}", x=levels, y=f"L{n - 1}")
    decoded = decode(contract_of({"a": "integer"}), record(bomb=levels, a="int"), [varint(7)] * 70)
    assert decoded.rows["a"].to_pylist() == [7] * 70


def test_values_that_take_a_byte_end_with_the_message_however_the_schema_doubles() -> None:
    levels: Any = record("L0", x="boolean", y="boolean")
    for n in range(1, 60):
        levels = record(f"L{n}", x=levels, y=f"L{n - 1}")
    decoded = decode(contract_of({"a": "integer"}), record(bomb=levels, a="int"), [b"\0" * 9] * 70)
    assert {fault.error_class for fault in decoded.faults} == {"TruncatedAvro"}
    assert len(decoded.faults) == 70


def test_a_schema_that_grows_fourfold_with_each_record_is_given_up_once() -> None:
    levels: Any = record("L0", x="boolean", y="boolean")
    for n in range(1, 20):
        levels = record(f"L{n}", a=levels, b=f"L{n - 1}", c=f"L{n - 1}", d=f"L{n - 1}")
    decoded = decode(contract_of({"a": "integer"}), record(bomb=levels, a="int"), [b"\0" * 9] * 70)
    assert [fault.error_class for fault in decoded.faults] == ["TruncatedAvro"] * 70


@pytest.mark.parametrize("items", ["null", fixed(0, "Zero"), record("Nothing")])
def test_items_without_a_byte_are_counted_not_read(items: Any) -> None:
    schema = record(list={"type": "array", "items": items}, a="int")
    many = varint(10**9) + varint(0) + varint(7)
    passed = decode(contract_of({"a": "integer"}), schema, [many] * 70)
    assert passed.rows["a"].to_pylist() == [7] * 70
    kept = decode(contract_of({"list": "json"}), schema, [many] * 70)
    assert {fault.error_class for fault in kept.faults} == {"TooManyItems"}
    assert "list has more than 1,000 values that take no bytes" in kept.faults[0].message


def test_a_json_column_takes_a_hundred_thousand_items() -> None:
    schema = record(list={"type": "array", "items": "long"})
    decoded = decode(contract_of({"list": "json"}), schema, [encode(schema, {"list": range(100_000)})])
    assert decoded.rows["list"].to_pylist() == [f"[{','.join(map(str, range(100_000)))}]"]


def test_a_hundred_thousand_items_are_passed_in_one_message_among_many() -> None:
    schema = record(list={"type": "array", "items": "int"}, a="int")
    long = encode({"type": "array", "items": "int"}, [1] * 100_000)
    messages = [varint(0) + varint(n) for n in range(200)]
    messages[50] = long + varint(50)
    decoded = decode(contract_of({"a": "integer"}), schema, messages)
    assert decoded.rows["a"].to_pylist() == list(range(200))


def test_a_json_column_refuses_what_jsonb_would_not_hold() -> None:
    of_map = {"type": "map", "values": "double"}
    schema = record(map=of_map)
    twice, nan, nul, odd = (
        encode(of_map, pairs)
        for pairs in ([("a", 1.0), ("a", 2.0)], [("a", float("nan"))], [("\0", 1.0)], [(b"\xff", 1.0)])
    )
    decoded = decode(contract_of({"map": "json"}), schema, [twice, nan, nul, odd])
    assert [fault.error_class for fault in decoded.faults] == [
        "DuplicateKey",
        "NotFinite",
        "NulCharacter",
        "InvalidUtf8",
    ]


def test_a_document_of_long_names_ends_before_it_is_spelt() -> None:
    schema = record(list={"type": "array", "items": record("Long", **{"x" * 1_000: "boolean"})})
    message = varint(100_000) + b"\1" * 100_000 + b"\0"  # a hundred megabytes of JSON, three times the limit
    readers = Readers(contract_of({"list": "json"}), schema)
    assert readers.single([message]) == readers.verification([message]) == ["TooLarge"]


@pytest.mark.parametrize(
    "schema",
    [
        record(**{"x" * 1_001: "int"}),
        record("N" * 1_001, a="int"),
        {**record(a="int"), "namespace": "n" * 1_000},
        record(e={"type": "enum", "name": "E", "symbols": ["A", "B" * 1_001]}),
    ],
)
def test_a_schema_whose_names_would_flood_a_table_is_refused(schema: Any) -> None:
    contract = contract_of({"a": "json"})
    with pytest.raises(SchemaNotCompatible, match=r"a name in it has 1,00[12] characters, and the maximum is 1,000"):
        AvroReader(contract, writer(schema))
    with pytest.raises(NotTheType, match="SchemaNotCompatible"):
        AvroValidator(contract, json.dumps(schema))


def test_a_schema_of_a_megabyte_with_2000_fields_is_read() -> None:
    fields: dict[str, Any] = {f"field_{n}": "long" for n in range(2_000)}
    schema = {**record(**fields), "doc": "x" * 1_000_000}
    message = b"".join(varint(n) for n in range(2_000))
    decoded = decode(contract_of({"field_7": "integer", "field_1999": "integer"}), schema, [message] * 70)
    assert decoded.rows.to_pylist() == [{"field_7": 7, "field_1999": 1_999}] * 70
    assert decoded.unknown_fields == 70


def test_no_reason_holds_what_postgres_text_cannot() -> None:
    schema = record(**{"name": "string", "weird\tname": "int"})
    decoded = decode(contract_of({"name": "string"}), schema, [b"\x06\0\0\xff\x02", b"\x02a\x80"])
    assert [fault.error_class for fault in decoded.faults] == ["InvalidUtf8", "TruncatedAvro"]
    assert all(fault.message.isprintable() for fault in decoded.faults)
