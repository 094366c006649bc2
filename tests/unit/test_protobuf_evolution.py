"""What becomes of a contract's rows when the writer of its messages changes the schema."""

from typing import Any

import pytest

from platform_defs.formats.protobuf.decode import ProtobufReader
from platform_defs.formats.writer_schema import SchemaNotCompatible
from platform_defs.verification.protobuf import ProtobufJudge
from tests.unit.protobuf_messages import contract_of, decoded, new, schema

HEAD = 'syntax = "proto3"; package bank; enum State { NEW = 0; DONE = 1; } '
BEFORE = "message Transfer { string id = 1; int64 amount = 2; optional string memo = 3; State state = 4; }"
COLUMNS = {"id": "string", "amount": "integer", "memo": "string", "state": "string"}
ROW = ["T1", 5, "m", "DONE"]
VALUES: dict[str, Any] = {"id": "T1", "amount": 5, "memo": "m", "state": 1}

CHANGES = [
    # (what changes, the new message, values that differ, the row that it becomes or why it becomes none)
    ("nothing", BEFORE, {}, ROW),
    ("field added", BEFORE.replace("}", "string channel = 9; }"), {"channel": "web"}, ROW),
    ("field dropped", BEFORE.replace("optional string memo = 3;", ""), {"memo": None}, ["T1", 5, None, "DONE"]),
    ("field renumbered", BEFORE.replace("amount = 2", "amount = 7"), {}, ROW),
    ("field renamed", BEFORE.replace("memo", "note"), {"memo": None, "note": "n"}, ["T1", 5, None, "DONE"]),
    (
        "number reused under another name",
        BEFORE.replace("optional string memo = 3", "string reason = 3"),
        {"memo": None, "reason": "r"},
        ["T1", 5, None, "DONE"],
    ),
    ("int64 to int32", BEFORE.replace("int64", "int32"), {}, ROW),
    ("int64 to sint32", BEFORE.replace("int64", "sint32"), {"amount": -5}, ["T1", -5, "m", "DONE"]),
    ("int64 to uint64", BEFORE.replace("int64", "uint64"), {}, ROW),
    ("optional to implicit", BEFORE.replace("optional ", ""), {"memo": ""}, ["T1", 5, "", "DONE"]),
    ("implicit to optional", BEFORE.replace("int64", "optional int64"), {"amount": None}, ["T1", None, "m", "DONE"]),
    (
        "singular to repeated",
        BEFORE.replace("int64", "repeated int64"),
        {"amount": [5]},
        "amount is repeated int64, and the contract wants one integer",
    ),
    (
        "into a oneof",
        BEFORE.replace("optional string memo = 3;", "oneof o { string memo = 3; int32 code = 10; }"),
        {"memo": None, "code": 3},
        ["T1", 5, None, "DONE"],
    ),
    ("enum value added", BEFORE, {"state": 2}, "state is 2, a number that bank.State does not name"),
    ("messages reordered", "message Refund { int64 id = 1; } " + BEFORE, {}, ROW),
    (
        "string to bytes",
        BEFORE.replace("optional string memo", "optional bytes memo"),
        {"memo": b"m"},
        "memo is bytes in bank.Transfer, which is not read as string",
    ),
    (
        "enum to string",
        BEFORE.replace("State state", "string state"),
        {"state": "DONE"},
        ROW,
    ),
    (
        "integer to double",
        BEFORE.replace("int64", "double"),
        {},
        "amount is double in bank.Transfer, which is not read as integer",
    ),
    (
        "field into a message",
        BEFORE.replace("int64 amount = 2", "Money amount = 2") + " message Money { int64 units = 1; }",
        {"amount": {"units": 5}},
        "amount is bank.Money in bank.Transfer, which is not read as integer",
    ),
]


@pytest.mark.parametrize(("change", "message", "values", "wanted"), CHANGES, ids=[change[0] for change in CHANGES])
def test_a_writers_change_gives_the_same_row_or_a_reason(
    change: str, message: str, values: dict[str, Any], wanted: list[Any] | str
) -> None:
    text, contract = HEAD + message, contract_of(COLUMNS, "bank.Transfer")
    written = {name: value for name, value in {**VALUES, **values}.items() if value is not None}
    payload = new(text, "Transfer", **written).SerializeToString()
    if isinstance(wanted, str) and not wanted.startswith("state"):
        with pytest.raises(SchemaNotCompatible) as refused:
            ProtobufReader(contract, schema(text))
        assert str(refused.value) == wanted
        return
    found = decoded(ProtobufReader(contract, schema(text)), [payload] * 100)
    if isinstance(wanted, str):
        assert [fault.message for fault in found.faults] == [wanted] * 100
        return
    assert list(found.rows.to_pylist()[99].values()) == wanted
    assert ProtobufJudge(contract, text).values(payload) == wanted


def test_an_enum_value_that_the_writers_schema_knows_is_its_name() -> None:
    text = HEAD.replace("DONE = 1;", "DONE = 1; LATE = 2;") + BEFORE
    payload = new(text, "Transfer", **{**VALUES, "state": 2}).SerializeToString()
    found = decoded(ProtobufReader(contract_of(COLUMNS), schema(text)), [payload] * 100)
    assert set(found.rows.column("state").to_pylist()) == {"LATE"}


def test_messages_reordered_change_what_an_index_means_for_their_own_schema_only() -> None:
    contract = contract_of(COLUMNS, "bank.Transfer")
    payload = new(HEAD + BEFORE, "Transfer", **VALUES).SerializeToString()
    before = ProtobufReader(contract, schema(HEAD + BEFORE), framed=True)
    after = ProtobufReader(contract, schema(HEAD + "message Refund { int64 id = 1; } " + BEFORE), framed=True)
    assert decoded(before, [b"\0" + payload] * 100).rows.num_rows == 100
    assert decoded(after, [b"\x02\x02" + payload] * 100).rows.num_rows == 100
    assert {fault.error_class for fault in decoded(after, [b"\0" + payload] * 100).faults} == {"OtherRecord"}


def test_a_package_renamed_is_another_record_unless_the_contract_names_none() -> None:
    text = (HEAD + BEFORE).replace("package bank", "package newbank")
    payload = b"\0" + new(text, "Transfer", **VALUES).SerializeToString()
    named = decoded(ProtobufReader(contract_of(COLUMNS, "bank.Transfer"), schema(text), framed=True), [payload] * 100)
    assert {fault.error_class for fault in named.faults} == {"OtherRecord"}
    assert (
        decoded(ProtobufReader(contract_of(COLUMNS), schema(text), framed=True), [payload] * 100).rows.num_rows == 100
    )
