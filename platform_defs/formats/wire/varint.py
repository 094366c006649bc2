"""Varints of many messages at once: seven bits a byte, the lowest first, the top bit set in all bytes but the last.

https://protobuf.dev/programming-guides/encoding/#varints, and Avro's int and long, which are zigzag besides:
https://avro.apache.org/docs/1.12.0/specification/#binary-encoding
"""

import numpy as np

from platform_defs.formats.blocks.buffer import Buffer, Integers, Words

_U = np.uint64
_TOP_BITS = _U(0x8080808080808080)
# Groups of seven bits are joined in pairs, then groups of 14, then of 28: the lower half stays, the upper moves.
_FOLDS = (
    (_U(0x007F007F007F007F), _U(0x7F007F007F007F00), _U(1)),
    (_U(0x00003FFF00003FFF), _U(0x3FFF00003FFF0000), _U(2)),
    (_U(0x000000000FFFFFFF), _U(0x0FFFFFFF00000000), _U(4)),
)


def varints(buffer: Buffer, at: Integers) -> tuple[Words, Integers]:
    """Return the varints at these positions, and their lengths; 0 if one is not of 64 bits."""
    first = buffer.raw[at]
    count = np.count_nonzero(first >= 0x80)
    if 2 * count > len(at):  # picking the long ones would take longer than it saves
        values, lengths = unsigned(buffer.words[at])
    else:  # lengths, branches and tags mostly have one byte
        values, lengths = first.astype(np.uint64), np.ones(len(at), np.int64)
        if count:
            long = np.flatnonzero(first >= 0x80)
            values[long], lengths[long] = unsigned(buffer.words[at[long]])
    if not lengths.all():
        longer = np.flatnonzero(lengths == 0)
        values[longer], lengths[longer] = ninth_and_tenth(values[longer], buffer.words[at[longer] + 8])
    return values, lengths


def unsigned(words: Words) -> tuple[Words, Integers]:
    """Return the varint at the start of each word (eight bytes, little-endian), and its length in bytes; 0 if no byte
    of the eight is its last.
    """
    last = ~words & _TOP_BITS
    lowest = last & (~last + _U(1))  # the top bit of the varint's last byte
    mask = (lowest << _U(1)) - _U(1)  # all bits up to it; none of the eight: all bits
    values = words & mask & ~_TOP_BITS
    for low, high, shift in _FOLDS:
        values = (values & low) | ((values & high) >> shift)
    lengths = (np.bitwise_count(mask) >> 3).astype(np.int64)
    lengths[last == 0] = 0
    return values, lengths


def ninth_and_tenth(values: Words, next_words: Words) -> tuple[Words, Integers]:
    """Return the same for varints whose first eight bytes `unsigned` has read, with a word from the ninth byte on.
    Length 0 if the tenth byte is not the last, or has more than the one bit that 64 bits leave for it.
    """
    ninth, tenth = next_words & _U(0xFF), (next_words >> _U(8)) & _U(0xFF)
    is_tenth = ninth >= _U(0x80)
    values = values | (ninth & _U(0x7F)) << _U(56) | np.where(is_tenth, tenth, _U(0)) << _U(63)
    return values, np.where(is_tenth, np.where(tenth <= _U(1), 10, 0), 9)


def zigzag(values: Words) -> Integers:
    """Return signed integers, which alternate from zero: 0, -1, 1, -2, ..."""
    return ((values >> _U(1)) ^ (_U(0) - (values & _U(1)))).view(np.int64)
