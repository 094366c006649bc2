"""Messages of several schemas in one block become the rows that each would become alone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Contract, Field, Format, Framing, OtherRecords, RowRule, WireFormat
from platform_defs.formats.blocks.arrow import integers
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.framed import FramedBlock, FramedReader

REQUIRED = RowRule("name_required", "name", "required", None, "")
FIELDS = (Field("name", column_type("string"), True, (REQUIRED,)), Field("count", column_type("integer"), False, ()))
SCHEMAS = {
    "1": WriterSchema("1", "json", "{}"),
    "2": WriterSchema("2", "json", "{}"),
    "3": WriterSchema("3", "avro", '"string"'),
    "4": WriterSchema("4", "json", "{}", encrypted=True),
}


def contract(framing: Framing = "prefix") -> Contract:
    return Contract("p", "1", "d", "", "t", "json", FIELDS, (), wire=WireFormat(framing))


def reader(framing: Framing = "prefix", asked: list[Sequence[str]] | None = None) -> FramedReader:
    def find(keys: Sequence[str]) -> Mapping[str, WriterSchema | None]:
        if asked is not None:
            asked.append(keys)
        return {key: SCHEMAS.get(key) for key in keys}

    return FramedReader(contract(framing), find)


def prefixed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4) + payload


def read(*values: bytes | None) -> FramedBlock:
    return reader().read(pa.array(values, pa.binary()), None)


def outcome(found: FramedBlock) -> dict[int, object]:
    """Return each message's row, or the class of its fault, by index."""
    rows = zip(integers(found.decoded.indexes), found.decoded.rows.to_pylist(), strict=True)
    return {**dict(rows), **{fault.index: fault.error_class for fault in found.decoded.faults}}


def test_rows_of_several_schemas_come_in_the_order_of_the_block() -> None:
    found = read(
        prefixed(2, b'{"name": "b"}'),
        prefixed(1, b'{"name": "a", "count": 1}'),
        None,
        prefixed(2, b'{"name": "c", "more": 1}'),
        b"{}",
    )
    assert outcome(found) == {
        0: {"name": "b", "count": None},
        1: {"name": "a", "count": 1},
        2: "NullValue",
        3: {"name": "c", "count": None},
        4: "NotFramed",
    }
    assert found.decoded.indexes.to_pylist() == [0, 1, 3]
    assert [fault.index for fault in found.decoded.faults] == [2, 4]
    assert (found.schemas, found.decoded.unknown_fields) == ({"2": 2, "1": 1}, 1)


@pytest.mark.parametrize(
    ("number", "error_class", "text"),
    [
        (9, "UnknownSchemaId", "has a schema 9"),
        (3, "WrongSchemaType", "schema 3 does not fit the contract: it is of type avro, but the contract reads json"),
        (4, "SchemaNotCompatible", "registry rules encrypt some of its fields"),
    ],
)
def test_a_schema_that_cannot_be_read_is_a_fault_of_its_messages_alone(
    number: int, error_class: str, text: str
) -> None:
    found = read(prefixed(number, b'{"name": "a"}'), prefixed(1, b'{"name": "b"}'))
    assert outcome(found) == {0: error_class, 1: {"name": "b", "count": None}}
    assert text in found.decoded.faults[0].message
    assert found.schemas == ({"1": 1} if number == 9 else {"1": 1, str(number): 1})


@pytest.mark.parametrize("kind", ["avro", "protobuf", "json"])
def test_ciphertext_is_refused_in_every_format(kind: Format) -> None:
    schema = WriterSchema("1", kind, "{}", encrypted=True)
    reading = FramedReader(replace(contract(), format=kind), lambda keys: dict.fromkeys(keys, schema))
    (fault,) = reading.read(pa.array([prefixed(1, b"")], pa.binary()), None).decoded.faults
    assert (fault.error_class, "only ciphertext could be stored" in fault.message) == ("SchemaNotCompatible", True)


def test_a_schema_is_asked_for_once_whether_it_is_known_or_not() -> None:
    asked: list[Sequence[str]] = []
    of_task = reader(asked=asked)
    for _ in range(3):
        of_task.read(pa.array([prefixed(n, b"{}") for n in (9, 1, 2, 1)], pa.binary()), None)
    assert asked == [["1", "2", "9"]]


RECORDS = {
    name: WriterSchema(key, "avro", f'{{"type": "record", "name": "{name}", "fields": {written}}}')
    for name, key, written in (("A", "1", '[{"name": "name", "type": "string"}]'), ("B", "2", "[]"))
}


@pytest.mark.parametrize(("others", "faults"), [("dead_letter", ["OtherRecord"]), ("skip", [])])
def test_a_message_of_another_record_is_a_dead_letter_or_counted(others: OtherRecords, faults: list[str]) -> None:
    known = {schema.key: schema for schema in RECORDS.values()}
    wire = WireFormat(record="A", other_records=others)
    reading = FramedReader(
        replace(contract(), format="avro", wire=wire), lambda keys: {key: known[key] for key in keys}
    )
    found = reading.read(pa.array([prefixed(1, b"\2x"), prefixed(2, b""), prefixed(1, b"\2y")], pa.binary()), None)
    assert found.decoded.rows.column(0).to_pylist() == ["x", "y"]
    assert [fault.error_class for fault in found.decoded.faults] == faults
    assert found.skipped == 1 - len(faults), "counted, or a dead letter"
    assert found.schemas == {"1": 2, "2": 1}


def test_headers_name_the_schema_too() -> None:
    values = pa.array([b'{"name": "a"}', prefixed(1, b'{"name": "b"}')], pa.binary())
    found = reader("both").read(values, pa.array([b"\0\0\0\0\2", None], pa.binary()))
    assert outcome(found) == {0: {"name": "a", "count": None}, 1: {"name": "b", "count": None}}
    assert found.schemas == {"2": 1, "1": 1}


MESSAGES = st.lists(
    st.none()
    | st.binary(max_size=8)
    | st.builds(
        prefixed,
        st.integers(0, 5),
        st.sampled_from([b"", b"{}", b'{"name": "x"}', json.dumps({"name": "ä", "count": 5}).encode(), b'{"name": 1}']),
    )
)


@pytest.mark.slow
@given(MESSAGES, st.data())
def test_a_block_is_what_its_messages_are_alone_however_it_is_cut(
    values: list[bytes | None], data: st.DataObject
) -> None:
    of_task = reader()
    whole = outcome(of_task.read(pa.array(values, pa.binary()), None))
    assert whole == {index: outcome(read(value))[0] for index, value in enumerate(values)}
    cut = data.draw(st.integers(0, len(values)))
    parts = [outcome(of_task.read(pa.array(part, pa.binary()), None)) for part in (values[:cut], values[cut:])]
    assert whole == {**parts[0], **{index + cut: found for index, found in parts[1].items()}}


PROTOBUF = 'syntax = "proto3"; message A { bool x = 1; } message B { string name = 1; int64 count = 2; }'
INDEXES = b"\2\2"  # one, and it is 1: the second message of the file


@pytest.mark.parametrize("named", ["prefix", "header"])
def test_protobufs_indexes_are_behind_the_id_wherever_that_is(named: Framing) -> None:
    wire = WireFormat(named, record="B")
    of_task = FramedReader(
        replace(contract(), format="protobuf", wire=wire),
        lambda keys: {key: WriterSchema(key, "protobuf", PROTOBUF) for key in keys},
    )
    payload, head = b"\x0a\x01x\x10\x07", prefixed(5, b"")
    values = [head + INDEXES + payload, head + b"\0" + payload] if named == "prefix" else [payload] * 3
    names = [head + INDEXES, head + b"\0", head]
    found = of_task.read(pa.array(values * 100, pa.binary()), pa.array(names[: len(values)] * 100, pa.binary()))
    rows = {0: {"name": "x", "count": 7}, 1: "OtherRecord"} | (
        {2: {"name": "x", "count": 7}} if named == "header" else {}
    )
    assert outcome(found) == {n: rows[n % len(values)] for n in range(len(values) * 100)}
