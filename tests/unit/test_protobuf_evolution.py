"""What the matrix of changes (evolution_matrix.py) leaves open: enum names, and which message of a file is meant."""

from typing import Any

from platform_defs.formats.protobuf.decode import ProtobufReader
from tests.unit.protobuf_messages import contract_of, decoded, new, schema

HEAD = 'syntax = "proto3"; package bank; enum State { NEW = 0; DONE = 1; } '
BEFORE = "message Transfer { string id = 1; int64 amount = 2; optional string memo = 3; State state = 4; }"
COLUMNS = {"id": "string", "amount": "integer", "memo": "string", "state": "string"}
VALUES: dict[str, Any] = {"id": "T1", "amount": 5, "memo": "m", "state": 1}


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
