"""Changes that the matrix (evolution_matrix.py) leaves out: enum names, the message of a file, and contracts whose
fields are found by number.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from platform_defs.contract.evolution.changes import ChangeClass
from platform_defs.contract.evolution.plan import plan
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.reader.odcs import load
from platform_defs.formats.protobuf.decode import ProtobufReader
from platform_defs.formats.writer_fit import why_not
from platform_defs.schemas.conversion.importing import Wanted, import_schema
from tests.unit.formats.protobuf.protobuf_messages import contract_of, decoded, new, schema

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


def imported(fields: str) -> Contract:
    """Return the contract of a schema, its fields found by number."""
    text = f'syntax = "proto3"; package bank; message M {{ string id = 1; {fields} }} message Part {{ int32 n = 1; }}'
    made = import_schema(schema(text), Wanted(subject="bank.m-value"))
    return load(Path("bank/m.odcs.yaml"), made.text)


@pytest.mark.parametrize(
    ("before", "after", "breaks"),
    [
        ("int32 a = 2;", "string b = 2;", ["field b integer -> string"]),
        ("int32 a = 2;", "int64 b = 2;", []),
        ("int32 a = 2;", "string b = 3;", []),
        ("int32 a = 2;", "int32 a = 3; string b = 2;", ["field a: number 2 -> 3", "field b integer -> string"]),
        ("int32 a = 2;", "string b = 2; int32 c = 3;", ["field b integer -> string"]),
        ("bytes a = 2;", "repeated bytes b = 2;", ["field b bytes -> array<bytes>"]),
        ("Part a = 2; int32 b = 3;", "Part a = 2; Part c = 4;", []),
    ],
)
def test_a_number_used_again_is_free_only_where_messages_of_the_old_schema_are_still_rows(
    before: str, after: str, breaks: list[str]
) -> None:
    old, new_ = imported(before), imported(after)
    found = plan(old, new_).changes
    assert [change.what for change in found if change.kind is ChangeClass.BREAKS_PRODUCERS] == breaks
    text = f'syntax = "proto3"; package bank; message M {{ string id = 1; {before} }} message Part {{ int32 n = 1; }}'
    refused = why_not(new_, schema(text))
    assert not refused or breaks, "messages that were rows are dead letters"


def test_the_name_in_the_message_of_a_field_that_is_found_by_number_is_free_to_change() -> None:
    old = imported("int32 a = 2;")
    new_ = replace(old, fields=(old.fields[0], replace(old.fields[1], physical_path=("b",))))
    (found,) = plan(old, new_).changes
    assert (found.kind, found.what) == (ChangeClass.FREE, "field a: b in the message")
    assert why_not(new_, schema('syntax = "proto3"; package bank; message M { string id = 1; int32 a = 2; }')) is None
