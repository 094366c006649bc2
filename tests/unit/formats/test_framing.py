"""The schema that a message names: every message is in one group, or a fault that names what it looks like."""

from collections.abc import Sequence
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.contract.model.contract import Framing
from platform_defs.formats.framing import Unframed, unframe
from platform_defs.verify.decoders.documents import NotTheType
from platform_defs.verify.validators.known_schemas import Named, unframed

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")
HEADER = b"\1" + GUID.bytes


def taken_apart(
    framing: Framing, values: Sequence[bytes | None], names: Sequence[bytes | None] = (), *, protobuf: bool = False
) -> Unframed:
    headers = pa.array(names, pa.binary()) if names else None
    return unframe(framing, pa.array(values, pa.binary()), headers, protobuf=protobuf)


def payloads(found: Unframed) -> dict[int, tuple[str, bytes]]:
    """Return the schema's key and the payload, by index."""
    return {
        int(index): (group.key, found.data[start:stop].tobytes())
        for group in found.groups
        for index, start, stop in zip(group.indexes, group.starts, group.stops, strict=True)
    }


def faults(found: Unframed) -> dict[int, tuple[str, str]]:
    return {fault.index: (fault.error_class, fault.message) for fault in found.faults}


def prefixed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4) + payload


def test_messages_are_grouped_by_the_id_before_their_payload() -> None:
    found = taken_apart("prefix", [prefixed(7, b"a"), prefixed(2**32 - 1, b""), prefixed(7, b"bc"), prefixed(1, b"d")])
    assert payloads(found) == {0: ("7", b"a"), 1: (str(2**32 - 1), b""), 2: ("7", b"bc"), 3: ("1", b"d")}
    assert [group.key for group in found.groups] == ["1", "7", str(2**32 - 1)]
    assert not found.faults


def test_part_of_a_larger_array_is_read_where_it_is() -> None:
    values = pa.array([prefixed(1, b"a"), prefixed(2, b"b"), None, prefixed(3, b"c")], pa.binary()).slice(1)
    found = unframe("prefix", values, None)
    assert payloads(found) == {0: ("2", b"b"), 2: ("3", b"c")}
    assert faults(found)[1][0] == "NullValue"


def test_a_header_names_the_schema_and_the_payload_may_begin_with_anything() -> None:
    names = [HEADER, b"\0\0\0\0\7\2\2", None, b"\2odd"]
    found = taken_apart("header", [b"\0", b"x", b"y", b"z"], names, protobuf=True)
    assert payloads(found) == {0: (str(GUID), b"\0"), 1: ("7", b"x")}
    heads = {group.key: group.heads and group.heads.to_pylist() for group in found.groups}
    assert heads == {str(GUID): None, "7": [b"\2\2"]}
    assert faults(found)[2][0] == "MissingSchemaHeader"
    assert faults(found)[3] == ("NotFramed", r"the header __value_schema_id does not identify a schema: \x02odd")


BEHIND = [b"\2", b"\2\2\1", b"\0\0", b"\1", b"\2\1", b"\x80", b"\2\x80\x80\x80\x80\x80\0", b"\x0a\x01x\x10"]


@pytest.mark.parametrize("named", [prefixed(7, b""), HEADER])
def test_what_is_behind_the_name_of_a_schema_never_becomes_part_of_the_payload(named: bytes) -> None:
    for behind in BEHIND:
        found = taken_apart("header", [b"x"], [named + behind], protobuf=True)
        assert faults(found)[0][0] == "NotFramed", behind
        assert not found.groups
    error_class, message = faults(taken_apart("both", [b"x"], [named + b"\2\2"]))[0]
    assert (error_class, "continues after the schema id" in message) == ("NotFramed", True), (
        "Avro and JSON have no indexes"
    )


def test_messages_of_many_types_are_one_group() -> None:
    numbers = [bytes([2, 2 * (n % 64)]) for n in range(640)]
    found = taken_apart("header", [b"x"] * 640, [prefixed(7, one) for one in numbers], protobuf=True)
    (group,) = found.groups
    assert group.heads is not None
    assert group.heads.to_pylist() == numbers


@given(
    header=st.builds(
        bytes.__add__, st.sampled_from([b"", b"\0\0\0", prefixed(7, b""), HEADER]), st.binary(max_size=12)
    ),
    protobuf=st.booleans(),
)
def test_the_engine_and_verify_take_the_same_headers_apart(header: bytes, *, protobuf: bool) -> None:
    found = taken_apart("header", [b"x"], [header], protobuf=protobuf)
    if found.faults:
        with pytest.raises(NotTheType, match=faults(found)[0][0]):
            unframed("header", b"x", header, protobuf=protobuf)
        return
    wanted = unframed("header", b"x", header, protobuf=protobuf)
    (group,) = found.groups
    behind = b"" if group.heads is None else group.heads[0].as_py()
    assert Named(group.key, b"x", behind) == wanted
    assert group.first == (not behind)


def test_with_both_a_header_goes_before_a_prefix() -> None:
    found = taken_apart("both", [prefixed(7, b"a"), prefixed(7, b"b"), b"{}"], [None, HEADER, None])
    assert payloads(found) == {0: ("7", b"a"), 1: (str(GUID), prefixed(7, b"b"))}
    assert faults(found)[2][0] == "NotFramed"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"", "it has only 0 bytes"),
        (b"\0", "it has only 1 byte"),
        (b"\0\0\0\1", "it has only 4 bytes"),
        (b' \n{"a": 1}', "it looks like JSON"),
        (b"\3\0" + bytes(16) + b"x", "AWS Glue"),
        (b"\0" + (77).to_bytes(8) + b"x", "Apicurio's framing of 8 bytes (id 77)"),
        (b"Obj\1" + bytes(9), "a whole Avro file"),
        (b"\xff\xfe12345678", "it begins with ff fe 31 32 33 34 35 36"),
        (bytes(5), "it begins with 00 00 00 00 00"),
    ],
)
def test_what_is_not_framed_is_said_to_be_what_it_looks_like(value: bytes, text: str) -> None:
    error_class, message = faults(taken_apart("prefix", [value]))[0]
    assert error_class == "NotFramed"
    assert text in message


def test_a_key_that_is_missing_or_not_framed_is_a_fault_of_the_key() -> None:
    found = unframe("prefix", pa.array([None, b"k1"], pa.binary()), None, "key")
    assert [(fault.error_class, fault.field) for fault in found.faults] == [
        ("MissingKey", "_key"),
        ("NotFramed", "_key"),
    ]


VALUES = st.lists(st.none() | st.binary(max_size=12) | st.builds(prefixed, st.integers(0, 3), st.binary(max_size=4)))
HEADED = st.none() | st.binary(max_size=20) | st.just(HEADER) | st.builds(prefixed, st.integers(0, 3), st.just(b""))


@given(values=VALUES, data=st.data(), framing=st.sampled_from(["prefix", "header", "both"]))
def test_every_message_is_in_one_group_or_a_fault(
    values: list[bytes | None], data: st.DataObject, framing: Framing
) -> None:
    names = data.draw(st.lists(HEADED, min_size=len(values), max_size=len(values)))
    found = unframe(framing, pa.array(values, pa.binary()), pa.array(names, pa.binary()))
    grouped = [int(index) for group in found.groups for index in group.indexes]
    assert sorted([*grouped, *(fault.index for fault in found.faults)]) == list(range(len(values)))
    assert all((np.diff(group.indexes) > 0).all() for group in found.groups)
    for index, (_, payload) in payloads(found).items():
        assert (values[index] or b"").endswith(payload)
    alone = [
        unframe(framing, pa.array([v], pa.binary()), pa.array([n], pa.binary()))
        for v, n in zip(values, names, strict=True)
    ]
    assert payloads(found) == {i: payloads(one)[0] for i, one in enumerate(alone) if one.groups}
    assert faults(found) == {i: faults(one)[0] for i, one in enumerate(alone) if one.faults}
