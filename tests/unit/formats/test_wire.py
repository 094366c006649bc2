"""Cursors over many messages: each stays in its own message, whatever the messages hold."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.formats.blocks.buffer import PADDING, buffer_of
from platform_defs.formats.wire.columns import binary_column, column_of, decimal_column, texts
from platform_defs.formats.wire.cursors import Cursors
from platform_defs.formats.wire.varint import zigzag


def cursors(messages: list[bytes]) -> Cursors:
    """Return cursors of the messages, one right behind the other."""
    ends = np.cumsum([0, *map(len, messages)], dtype=np.int64)
    buffer = buffer_of(b"".join(messages), int(ends[-1]))
    return Cursors(buffer, ends[:-1], ends[1:], np.zeros(len(messages), np.bool_), None)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def one_varint(data: bytes) -> tuple[int, int] | None:
    """Return the value and the length, read byte by byte; None if it is not one of 64 bits."""
    value = 0
    for index, byte in enumerate(data[:10]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return (value, index + 1) if value < 2**64 else None
    return None


@given(st.lists(st.binary(max_size=12), min_size=1, max_size=20))
def test_a_varint_is_read_as_byte_by_byte_or_doubted(messages: list[bytes]) -> None:
    inside = cursors(messages)
    starts = inside.at
    values = inside.varints()
    for row, message in enumerate(messages):
        found = one_varint(message)
        assert inside.doubtful[row] == (found is None)
        if found:
            assert (int(values[row]), int(inside.at[row] - starts[row])) == found


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
def test_every_number_of_64_bits_is_read(numbers: list[int]) -> None:
    inside = cursors([varint(number) for number in numbers])
    assert inside.varints().tolist() == numbers
    inside.finish()
    assert not inside.doubtful.any()


def test_zigzag_alternates_from_zero() -> None:
    assert zigzag(np.array([0, 1, 2, 3, 2**64 - 1], np.uint64)).tolist() == [0, -1, 1, -2, -(2**63)]


@given(st.lists(st.tuples(st.binary(max_size=9), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=20))
def test_a_span_never_leaves_its_message(messages: list[tuple[bytes, int]]) -> None:
    inside = cursors([message for message, _ in messages])
    _, lengths = inside.spans(np.array([length for _, length in messages], np.int64))
    for row, (message, length) in enumerate(messages):
        fits = 0 <= length <= len(message)
        assert inside.doubtful[row] == (not fits)
        assert lengths[row] == (length if fits else 0)
    assert (inside.at <= inside.stops).all()


def test_what_passes_its_stop_is_doubtful_and_ends_there() -> None:
    inside = cursors([b"ab", b"", b"abc"])
    inside.step(1)
    inside.step(2)
    assert inside.doubtful.tolist() == [True, True, False]
    assert (inside.at == inside.stops).all()


def test_some_of_the_messages_are_read_apart_and_the_others_wait() -> None:
    inside = cursors([b"\x01a", b"\x00", b"\x01b"])
    present = inside.octets() == 1
    with inside.among(present) as some:
        starts, lengths = some.spans(some.left)
        column = binary_column(some.buffer, starts, lengths, some.rows, 3)
        with some.among(np.array([False, True])) as last:
            last.doubt_all()
    inside.finish()
    assert column.to_pylist() == [b"a", None, b"b"]
    assert inside.doubtful.tolist() == [False, False, True]


def test_nothing_is_copied_where_enough_bytes_lie_behind() -> None:
    data = np.zeros(100, np.uint8)
    assert np.shares_memory(buffer_of(data, 100 - PADDING).raw, data)
    assert len(buffer_of(data, 90).raw) == 90 + PADDING


def test_numbers_of_some_messages_leave_nulls_for_the_others() -> None:
    rows = np.array([0, 2])
    assert column_of(np.array([5, 6]), pa.int64(), rows, 3).to_pylist() == [5, None, 6]
    assert column_of(np.array([True, False]), pa.bool_(), rows, 3).to_pylist() == [True, None, False]
    assert decimal_column(np.array([-1, 1]), np.array([-5, 0]), rows, 3).to_pylist() == [-5, None, 2**64]


@given(st.lists(st.one_of(st.none(), st.binary(max_size=6), st.text(max_size=4).map(str.encode))))
def test_text_is_utf8_without_nul(values: list[bytes | None]) -> None:
    column, wrong = texts(pa.array(values, pa.binary()))
    for row, value in enumerate(values):
        try:
            text = None if value is None else value.decode()
        except UnicodeDecodeError:
            text = "\0"
        bad = text is not None and "\0" in text
        assert (wrong is not None and bool(wrong[row])) == bad
        assert column[row].as_py() == (None if bad else text)
