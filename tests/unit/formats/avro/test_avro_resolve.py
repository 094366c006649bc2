"""A writer's schema resolved once against a contract, with a reason for each field that does not fit."""

import json
import time
from decimal import Decimal
from typing import Any

import pytest

from platform_defs.contract.model.contract import Field
from platform_defs.formats.avro.decode import AvroReader
from platform_defs.formats.avro.parse_schema import NotAvro, parse_schema
from platform_defs.formats.avro.resolve import resolve
from platform_defs.formats.blocks.writer_schema import OtherRecord, SchemaNotCompatible, WriterSchema
from platform_defs.verify.decoders.avro import AvroValidator
from tests.unit.formats.avro.avro_messages import contract_of, decode, encode, fixed, logical, record, varint, writer

TIMES = ["timestamp-millis", "timestamp-micros", "timestamp-nanos"]
DECIMAL = {"logicalType": "decimal", "precision": 9, "scale": 2}
ENUM = {"type": "enum", "name": "E", "symbols": ["A"]}


def reasons(of: Any, to: str, required: bool = False) -> tuple[str, ...]:
    """Return the reasons why a field of type `of` does not fit a column of type `to`."""
    with pytest.raises(SchemaNotCompatible) as refused:
        AvroReader(contract_of({"a": to}, ["a"] if required else []), writer(record(a=of)))
    return refused.value.reasons


FITS: list[tuple[str, list[Any]]] = [
    ("string", ["string", logical("string", "uuid"), ENUM, logical("string", "unheard-of")]),
    ("integer", ["int", "long", logical("int", "unheard-of")]),
    ("double", ["double", "float", "int", logical("int", "unheard-of")]),
    (
        "decimal(9,2)",
        [{"type": "bytes", **DECIMAL}, fixed(5, "F", **DECIMAL), "int", "long", logical("int", "unheard-of")],
    ),
    ("boolean", ["boolean"]),
    ("date", [logical("int", "date")]),
    ("timestamp", [logical("long", name) for name in TIMES]),
    ("json", ["null", "long", ENUM, {"type": "map", "values": "int"}, ["int", "string"], record("R", x="int")]),
]
EVERY = [of for _, types in FITS for of in types] + [
    "bytes",
    fixed(4, "F4"),
    logical("string", "date"),  # in Avro, a logical type on a type other than its own is ignored
    logical("int", "time-millis"),
    logical("long", "time-micros"),
    logical("long", "local-timestamp-micros"),
    {"type": "array", "items": "string"},
]
PLAIN = [logical("string", "date")]


@pytest.mark.parametrize(("to", "types"), FITS)
def test_exact_promotions_alone_are_taken(to: str, types: list[Any]) -> None:
    for of in EVERY:
        fits = of in types or to == "json" or (to == "string" and of in PLAIN)
        for schema in (of, ["null", of], [of, "null"], [of]) if not isinstance(of, list) and of != "null" else (of,):
            if fits:
                AvroReader(contract_of({"a": to}), writer(record(a=schema)))
            else:
                assert len(reasons(schema, to)) == 1


def test_a_reason_names_the_field_and_what_would_be_right() -> None:
    assert reasons("long", "double") == ("a is a long; the contract's double is read from a double, a float or an int",)
    assert reasons(["int", "string"], "string") == (
        "a is a union of 2 types, which only a json column can store; the contract requires string",
    )


@pytest.mark.parametrize(
    ("decimal", "message"),
    [
        ({"precision": 64, "scale": 127}, "the scale 0 to the precision; they are 64 and 127"),
        ({"precision": 9, "scale": -2}, "they are 9 and -2"),
        ({"scale": 2}, "the precision must be at least 1, and the scale 0 to the precision; they are 0 and 2"),
        ({"precision": "9", "scale": None}, 'they are "9" and null'),
        ({"precision": 6_000, "scale": 5_000}, "a is a decimal of scale 5,000; at most 1,000 is supported"),
    ],
)
def test_a_decimal_that_avro_does_not_allow_is_refused_with_the_reason(decimal: dict[str, Any], message: str) -> None:
    for of in ({"type": "bytes"}, fixed(4, "F4"), {"type": {"type": "bytes", "logicalType": "decimal", **decimal}}):
        (reason,) = reasons(["null", {"logicalType": "decimal", **decimal, **of}], "decimal(38,9)")
        assert message in reason
        assert ("not a decimal" in reason) == ("5,000" not in reason)
    (reason,) = reasons(logical("long", "decimal", precision=9), "string")
    assert "a long (not a decimal: only bytes and fixed can be one)" in reason


def test_all_fields_that_do_not_fit_are_named() -> None:
    contract = contract_of({"a": "integer", "b": "string", "c": "date"}, required=["c"])
    with pytest.raises(SchemaNotCompatible) as refused:
        AvroReader(contract, writer(record(a="string", b="string")))
    assert refused.value.reasons == (
        "a is a string; the contract's integer is read from an int or a long without a logical type",
        "c is required by the contract; the schema has no such field",
    )


def test_a_field_that_the_writer_does_not_know_is_null() -> None:
    decoded = decode(contract_of({"a": "integer", "b": "string"}), record(a="int"), [varint(1)] * 70)
    assert decoded.rows.to_pylist() == [{"a": 1, "b": None}] * 70


def test_the_writers_defaults_and_order_mean_nothing() -> None:
    schema = record(b="string", a="int")
    schema["fields"][0]["default"] = "x"
    decoded = decode(contract_of({"a": "integer", "b": "string"}), schema, [encode(schema, {"a": 1, "b": "y"})])
    assert decoded.rows.to_pylist() == [{"a": 1, "b": "y"}]


INNER = record("Account", iban="string", bank=["null", record("Bank", name="string")])


@pytest.mark.parametrize("copies", [1, 70])
def test_fields_of_nested_records_are_found_by_their_path(copies: int) -> None:
    schema = record(account=["null", INNER], amount="long")
    contract = contract_of(
        {"iban": "string", "bank": "string", "whole": "json", "amount": "integer"},
        iban="account.iban",
        bank="account.bank.name",
        whole="account",
    )
    full = encode(schema, {"account": (1, {"iban": "X", "bank": (1, {"name": "B"})}), "amount": 1})
    half = encode(schema, {"account": (1, {"iban": "X", "bank": (0, None)}), "amount": 2})
    none = encode(schema, {"account": (0, None), "amount": 3})
    decoded = decode(contract, schema, [full, half, none] * copies)
    assert (
        decoded.rows.to_pylist()
        == [
            {"iban": "X", "bank": "B", "whole": '{"iban":"X","bank":{"name":"B"}}', "amount": 1},
            {"iban": "X", "bank": None, "whole": '{"iban":"X","bank":null}', "amount": 2},
            {"iban": None, "bank": None, "whole": None, "amount": 3},
        ]
        * copies
    )


def test_a_path_leads_through_records_only() -> None:
    contract = contract_of({"iban": "string"}, iban="account.iban")
    with pytest.raises(SchemaNotCompatible, match=r"iban \(account.iban\) cannot be reached: account is a string"):
        AvroReader(contract, writer(record(account="string")))


def test_a_field_is_found_by_its_aliases_in_their_order() -> None:
    field = Field("a", contract_of({"a": "integer"}).fields[0].type, True, (), aliases=(("old", "a"), ("older",)))
    contract = contract_of({"a": "integer"})
    contract = type(contract)(**{**vars(contract), "fields": (field,)})
    for schema, value in (
        (record(a="int", older="string"), {"a": 5, "older": ""}),
        (record(old=record("O", a="int"), older="string"), {"old": {"a": 5}, "older": ""}),
        (record(older="long"), {"older": 5}),
    ):
        assert decode(contract, schema, [encode(schema, value)]).rows.to_pylist() == [{"a": 5}]


def test_fields_that_the_contract_does_not_know_are_counted() -> None:
    schema = record(a="int", more=record("R", b="int"))
    messages = [encode(schema, {"a": 1, "more": {"b": 2}})] * 3
    assert decode(contract_of({"a": "integer"}), schema, messages).unknown_fields == 3
    assert resolve(contract_of({"a": "integer"}), writer(schema)).unknown == ("more",)
    whole = contract_of({"a": "integer", "more": "json"})
    assert decode(whole, schema, messages).unknown_fields == 0
    assert decode(contract_of({"a": "integer", "b": "integer"}, b="more.b"), schema, messages).unknown_fields == 0


def test_a_schema_of_another_record_is_said() -> None:
    with pytest.raises(OtherRecord, match=r"shop.Order"):
        AvroReader(contract_of({"a": "integer"}, record="bank.Transfer"), writer(record("shop.Order", a="int")))


@pytest.mark.parametrize("copies", [1, 70])
def test_of_a_union_of_records_one_is_read(copies: int) -> None:
    schema = [record("Order", a="string"), record("Transfer", a="int")]
    decoded = decode(
        contract_of({"a": "integer"}, record="Transfer"), schema, [varint(1) + varint(5), b"\0\x02x"] * copies
    )
    assert decoded.rows.to_pylist() == [{"a": 5}] * copies
    assert {fault.error_class for fault in decoded.faults} == {"OtherRecord"}
    assert decoded.faults[0].message == "the message is the record Order, not the record that the contract reads"
    with pytest.raises(SchemaNotCompatible, match=r"a union of Order, Transfer: name one of them"):
        AvroReader(contract_of({"a": "integer"}), writer(schema))


def test_a_message_is_a_record() -> None:
    with pytest.raises(SchemaNotCompatible, match="the schema is a string; the contract requires a record"):
        AvroReader(contract_of({"a": "integer"}), WriterSchema("1", "avro", '"string"'))


def test_a_schema_may_refer_to_others() -> None:
    money = {**record("Money", amount="long"), "namespace": "bank"}
    other = {**record("Pair", left="Money", right="bank.Money"), "namespace": "bank"}
    schema = record(pair="bank.Pair", again=["null", "bank.Money"])
    references = (("money", json.dumps(money)), ("pair", json.dumps(other)))
    contract = contract_of({"left": "integer", "again": "json"}, left="pair.left.amount")
    decoded = decode(contract, schema, [b"\x02\x04\x02\x06"], references=references)
    assert decoded.rows.to_pylist() == [{"left": 1, "again": '{"amount":3}'}]


NOT_AVRO: list[tuple[str, str]] = [
    ("{", "it is not JSON"),
    ("[" * 100_000, "it is not JSON"),
    ("9" * 5_000, "it is not JSON"),
    ("[" * 500 + '"int"' + "]" * 500, "deeper than 100 levels"),
    ("3", "a int is not a type"),
    ('{"type": "record", "name": "R", "fields": 3}', "fields is not a list of objects"),
    ('{"type": "record", "name": "R", "fields": [{"name": "a"}]}', "a type or field has no type"),
    ('{"type": "record", "fields": []}', "a type or field has no name"),
    ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "S"}]}', "the type S is not defined"),
    ('{"type": "fixed", "name": "F", "size": -1}', "the size of the fixed F is not a number of bytes"),
    ('{"type": "enum", "name": "E", "symbols": [1]}', "symbols is not a list of texts"),
    (r'{"type": "enum", "name": "E", "symbols": ["\u0000"]}', "a symbol of the enum E is not text"),
    ("[]", "a union has no branches"),
    ('[["int"]]', "a union is directly in a union"),
    (json.dumps(record(a=ENUM, b=ENUM)), "the type E is defined twice"),
    (json.dumps({**record(), "fields": [{"name": "a", "type": "int"}] * 2}), "has the field a twice"),
    (r'{"type": "record", "name": "\ud800", "fields": []}', "is not a name"),
]


@pytest.mark.parametrize(("document", "why"), NOT_AVRO)
def test_what_is_no_schema_is_refused_with_the_reason(document: str, why: str) -> None:
    with pytest.raises(NotAvro, match=why):
        parse_schema(document)
    with pytest.raises(SchemaNotCompatible):
        AvroReader(contract_of({"a": "integer"}), WriterSchema("1", "avro", document))


def test_a_schema_of_two_thousand_fields_is_read() -> None:
    names = [f"f{n}" for n in range(2_000)]
    schema = record(**dict.fromkeys(names, "int"))
    contract = contract_of(dict.fromkeys(names, "integer"))
    decoded = decode(contract, schema, [encode(schema, {name: n for n, name in enumerate(names)})] * 70)
    assert list(decoded.rows.to_pylist()[69].values()) == list(range(2_000))


def test_a_schema_of_a_megabyte_is_resolved_in_seconds() -> None:
    chain = [record(f"R{n}", inner=f"R{n - 1}" if n else "null") for n in range(15_000)]
    schema = record(a="int", **{f"f{n}": of for n, of in enumerate(chain)})
    assert len(json.dumps(schema)) > 1_000_000
    started = time.process_time()
    decoded = decode(contract_of({"a": "integer"}), schema, [varint(1)] * 70)
    assert decoded.rows.num_rows == 70
    assert time.process_time() - started < 30


LENIENT = [
    ("string", {"type": "enum", "name": "E", "symbols": ["A", "A", "B-2"], "default": "C"}, b"\2", "A"),
    ("json", ["null", "int", "int"], b"\4\x0a", "5"),
    ("string", {"type": "enum", "name": "1 e", "symbols": ["A"]}, b"\0", "A"),
    ("decimal(9,2)", fixed(1, "F", **DECIMAL), b"\x64", Decimal("1.00")),
    ("json", fixed(1, "F", **DECIMAL), b"\x64", "1.00"),
]


@pytest.mark.parametrize(("to", "of", "message", "value"), LENIENT)
def test_a_schema_that_avro_forbids_is_taken_where_it_changes_no_value(
    to: str, of: Any, message: bytes, value: Any
) -> None:
    """docs/reference/avro.md lists these."""
    contract, schema = contract_of({"a": to}), record(a=of)
    assert decode(contract, schema, [message] * 100).rows.to_pylist() == [{"a": value}] * 100
    assert AvroValidator(contract, json.dumps(schema)).values(message) == [value]
