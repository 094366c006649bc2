"""The binary cases of Protobuf's conformance suite, written here with its structure and its names.

The suite is conformance/binary_json_conformance_suite.cc of https://github.com/protocolbuffers/protobuf (BSD, Google).
None of its text is used: messages are those of protobuf_schema.py, and upb decides what is right. In addition, every
case is cut off at each byte, every value is in every position, and varints have every length.
"""

import struct
from collections.abc import Iterator
from itertools import product

from tests.suites.protobuf_schema import GROUP, KINDS, MAPS, PACKABLE, UNKNOWN, map_number, number

VARINT, FIXED64, LENGTH, START, END, FIXED32 = range(6)
_WIRES = {
    **dict.fromkeys(("fixed64", "sfixed64", "double"), FIXED64),
    **dict.fromkeys(("fixed32", "sfixed32", "float"), FIXED32),
    **dict.fromkeys(("string", "bytes", "message"), LENGTH),
}
LONG_LENGTHS = frozenset(f"Varint.Bytes{size}.Length" for size in range(6, 11))  # upb takes these, and C++ does not
_INCOMPLETE = {VARINT: b"\x80", FIXED64: b"abcdefg", LENGTH: b"\x80", FIXED32: b"abc"}
Cases = Iterator[tuple[str, bytes]]


def varint(value: int, longer: int = 0) -> bytes:
    """Return a varint of 64 bits, with as many bytes more than it needs."""
    value, found = value & (1 << 64) - 1, bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value | (0x80 if longer else 0))
    return bytes(found) + b"\x80" * (longer - 1) + b"\0" * (longer > 0)


def tag(field: int, wire: int) -> bytes:
    return varint(field << 3 | wire)


def delimited(content: bytes) -> bytes:
    return varint(len(content)) + content


def put(field: int, content: bytes) -> bytes:
    """Return a field with a length."""
    return tag(field, LENGTH) + delimited(content)


def group(field: int, content: bytes) -> bytes:
    return tag(field, START) + content + tag(field, END)


def wire_of(kind: str) -> int:
    return _WIRES.get(kind, VARINT)


_LIMITS = (0, 1, 12345, 2**31 - 1, 2**31, 2**32 - 1, 2**33, 2**33 - 1, 2**63 - 1, -1, -(2**31), -(2**63), -(2**63) + 1)
_REALS = (
    0.0,
    -0.0,
    0.1,
    1.5,
    1.7976931348623157e308,
    2.2250738585072014e-308,
    5e-324,
    *map(float, ("inf", "-inf", "nan")),
)
_NARROW = (0.0, -0.0, 0.1, 1.00000075e-36, 3.402823e38, 1.17549435e-38, 1e-45, *map(float, ("inf", "-inf", "nan")))
_TEXTS = (b"", b"Hello world!", b"'\"?\\\a\b\f\n\r\t\v", "谷歌😁".encode(), b"\0", b"x" * 200)


def values(kind: str) -> list[bytes]:
    """Return values of the kind, as they are on the wire behind their tags."""
    match kind:
        case "double":
            return [struct.pack("<d", real) for real in _REALS]
        case "float":
            return [struct.pack("<f", real) for real in _NARROW]
        case "fixed64" | "sfixed64":
            return [struct.pack("<Q", value & (1 << 64) - 1) for value in _LIMITS]
        case "fixed32" | "sfixed32":
            return [struct.pack("<I", value & (1 << 32) - 1) for value in _LIMITS]
        case "string":
            return [delimited(text) for text in _TEXTS]
        case "bytes":
            return [delimited(text) for text in (*_TEXTS, b"\x01\x02", b"\xfb", bytes(range(256)))]
        case "message":
            a, b = tag(1, VARINT) + varint(1234), put(2, b"x")
            return [
                delimited(content) for content in (b"", a, a + b, put(3, tag(1, VARINT) + b"\x01"), put(UNKNOWN, b"y"))
            ]
        case "sint32" | "sint64":
            numbers = [value << 1 ^ value >> 63 for value in _LIMITS] + [2**32 + 1]
        case "enum":
            numbers = [0, 1, 2, -1, 2**63 - 1, -(2**63) + 1, 2**32, 77]
        case _:
            numbers = [*_LIMITS, 12345678]
    longer = [varint(value, more) for value in (0, 1, 12345) for more in (1, 2, 10 - len(varint(value)))]
    return [*map(varint, numbers), *longer]


def fields(kind: str) -> Iterator[tuple[str, int]]:
    """Yield every field of the kind that takes one value at a time, and one that the schema does not know."""
    for position in ("single", "optional", "many", "one", *(("packed", "unpacked") if kind in PACKABLE else ())):
        yield position, number(position, kind)
    yield "unknown", UNKNOWN


def premature_eof() -> Cases:
    """Yield messages that end before a value, in it, in its length and in what has a length."""
    for kind in KINDS:
        wire = wire_of(kind)
        for position, field in fields(kind):
            name = f"PrematureEof.{kind}.{position}"
            yield f"{name}.BeforeValue", tag(field, wire)
            yield f"{name}.InsideValue", tag(field, wire) + _INCOMPLETE[wire]
            if wire == LENGTH:
                yield f"{name}.InDelimitedData", tag(field, wire) + varint(1)
            if kind == "message":
                yield f"{name}.InSubmessageValue", put(field, tag(5, VARINT) + b"\x80")
                yield f"{name}.InLengthOfSubmessage", put(field, tag(2, LENGTH) + varint(5) + b"abc")
            if kind in PACKABLE:
                yield f"{name}.InPackedFieldValue", put(field, _INCOMPLETE[wire])
                yield f"{name}.InPackedField", tag(field, LENGTH) + varint(1)


def valid_data() -> Cases:
    """Yield each value in each position, alone and after others, packed and not, and with an overlong tag."""
    for kind in KINDS:
        wire, each = wire_of(kind), values(kind)
        for position, field in fields(kind):
            name = f"ValidData.{kind}.{position}"
            for place, value in enumerate(each):
                yield f"{name}[{place}]", tag(field, wire) + value
            yield f"{name}.LongTag", varint(field << 3 | wire, 1) + each[1]
            yield f"{name}.SelectsLast", b"".join(tag(field, wire) + value for value in each[:4])
            yield f"{name}.All", b"".join(tag(field, wire) + value for value in each)
            if kind not in PACKABLE:
                continue
            yield f"{name}.PackedInput", put(field, b"".join(each[:4]))
            yield f"{name}.PackedInput.All", put(field, b"".join(each))
            yield f"{name}.PackedInput.Empty", put(field, b"")
            yield f"{name}.MixedInput", put(field, each[0] + each[1]) + tag(field, wire) + each[2] + put(field, each[1])


def other_wire_types() -> Cases:
    """Yield fields with the wire type of another kind, which makes them unknown fields."""
    samples = {VARINT: varint(5), FIXED64: b"\1" * 8, LENGTH: delimited(b"\x08\x01"), FIXED32: b"\1" * 4}
    for kind in KINDS:
        for position, field in fields(kind):
            for wire, sample in samples.items():
                yield f"WireType{wire}.{kind}.{position}", tag(field, wire) + sample
            yield f"WireTypeGroup.{kind}.{position}", group(field, tag(1, VARINT) + b"\x05")


def maps() -> Cases:
    """Yield entries that lack, repeat or reorder their key and value, or contain more than these."""
    for key, value in MAPS:
        field, name = map_number(key, value), f"ValidDataMap.{key}.{value}"
        keys = [tag(1, wire_of(key)) + one for one in values(key)[:3]]
        held = [tag(2, wire_of(value)) + one for one in values(value)]
        yield f"{name}.Default", put(field, keys[0] + held[0])
        yield f"{name}.MissingDefault", put(field, b"")
        yield f"{name}.MissingKey", put(field, held[1])
        yield f"{name}.MissingValue", put(field, keys[1])
        yield f"{name}.Unordered", put(field, held[1] + keys[1])
        yield f"{name}.DuplicateKey", put(field, keys[1] + held[0]) + put(field, keys[1] + held[1])
        yield f"{name}.DuplicateKeyInMapEntry", put(field, keys[0] + keys[1] + held[1])
        yield f"{name}.DuplicateValueInMapEntry", put(field, keys[1] + held[0] + held[1])
        yield f"{name}.SeveralKeys", b"".join(put(field, one + held[1]) for one in keys)
        yield f"{name}.UnknownFieldInMapEntry", put(field, keys[1] + held[1] + put(UNKNOWN, b"x"))
        yield f"{name}.UnknownFieldFirst", put(field, tag(3, VARINT) + b"\x05" + keys[1] + held[1])
        yield f"{name}.KeyOfOtherWireType", put(field, put(1, b"\xff\xfe") + held[1])
        yield f"{name}.NotDelimited", tag(field, VARINT) + b"\x05"
        for place, one in enumerate(held):
            yield f"{name}[{place}]", put(field, keys[1] + one)


def merging() -> Cases:
    """Yield messages that come twice and are merged, within a oneof too; of a oneof the last member counts."""
    halves = tag(1, VARINT) + varint(7), put(2, b"b") + tag(4, VARINT) + b"\x01", put(5, tag(4, VARINT) + b"\x02")
    for position in ("single", "optional", "many", "one"):
        field = number(position, "message")
        yield f"MessageMerge.{position}", b"".join(put(field, half) for half in halves)
        yield f"MessageMerge.{position}.Twice", b"".join(put(field, half) for half in (*halves, *halves))
        yield (
            f"MessageMerge.{position}.Interrupted",
            put(field, halves[0]) + tag(UNKNOWN, VARINT) + b"\1" + put(field, halves[1]),
        )
    for first, last in product(KINDS, KINDS):
        pair = [
            tag(number("one", kind), wire_of(kind)) + values(kind)[place] for kind, place in ((first, 1), (last, 0))
        ]
        yield f"Oneof.{first}.{last}.Default", b"".join(pair)
        again = tag(number("one", first), wire_of(first)) + values(first)[1]
        yield f"Oneof.{first}.{last}.{first}", b"".join((*pair, again))


def illegal_tags() -> Cases:
    """Yield field numbers and wire types that do not exist, and tags of too many bytes."""
    for place, raw in enumerate((b"\1DEADBEEF", b"\2\1\1", b"\3\4", b"\5DEAD", b"\0\0", b"\0")):
        yield f"IllegalZeroFieldNum_Case_{place}", raw
    for place, more in enumerate(
        (b"\x80\x80\x80\x80\x80\x0f", b"\x80\x80\x80\x40", b"\x80" * 7 + b"\0", b"\x80" * 11 + b"\0")
    ):
        yield f"BadTag[{place}]", b"\x88" + more + varint(1234)
    for longer in range(1, 11):
        yield f"BadTag.Overlong{longer}", b"\x88" + b"\x80" * (longer - 1) + b"\0" + varint(1)
    for field in (2**28, 2**29 - 1, 2**29, 2**31, 2**32, 2**40, 19_000):
        yield f"BadTag.Field{field}", tag(field, VARINT) + varint(1)
    for wire, field, value in product((6, 7), (0, 1, 2, 3, 250), range(4)):
        yield f"UnknownWireType{wire}_Field{field}_Version{value}", tag(field, wire) + bytes([value])
    for length in (2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**64 - 1):
        for field in (number("single", "string"), number("single", "message"), number("packed", "int32"), UNKNOWN):
            yield f"Length{length}.Field{field}", tag(field, LENGTH) + varint(length) + b"abc"
    for size in range(1, 13):
        yield f"Varint.Bytes{size}", tag(number("single", "int64"), VARINT) + b"\xff" * (size - 1) + b"\x01"
        yield f"Varint.Bytes{size}.Unknown", tag(UNKNOWN, VARINT) + b"\xff" * (size - 1) + b"\x01"
        yield f"Varint.Bytes{size}.Length", tag(number("single", "bytes"), LENGTH) + b"\x80" * (size - 1) + b"\0"


def groups() -> Cases:
    """Yield groups of a known field, an unknown one and one of another type, with and without their ends."""
    message = number("single", "message")
    for name, field in (("Known", GROUP), ("Unknown", UNKNOWN), ("WrongType", number("single", "int32"))):
        other = put(2, b"hello world")
        yield f"UnmatchedEndGroup.{name}", tag(field, END)
        yield f"UnmatchedEndGroup.{name}.WithData", tag(field, END) + other
        yield f"UnmatchedEndGroup.{name}.NestedLen", put(message, tag(field, END))
        yield f"UnmatchedEndGroup.{name}.Nested", group(GROUP, tag(field + 1, END))
        yield f"UnmatchedStartGroup.{name}", tag(field, START)
        yield f"UnmatchedStartGroup.{name}.WithData", tag(field, START) + other
        yield f"UnmatchedStartGroup.{name}.NestedLen", put(message, tag(field, START))
        yield f"UnmatchedStartGroup.{name}.Nested", group(GROUP, tag(field + 1, START))
        yield f"MismatchedGroupTags.{name}", tag(field, START) + other + tag(field + 1, END)
        yield f"Group.{name}", group(field, tag(1, VARINT) + varint(5) + put(2, tag(1, VARINT) + b"\1"))
        yield f"Group.{name}.Twice", group(field, tag(1, VARINT) + b"\1") + group(field, put(2, b""))
        yield f"Group.{name}.Unknown", group(field, group(UNKNOWN, tag(9, FIXED32) + b"abcd") + put(900, b"z"))
    for depth in (1, 10, 49, 50, 97, 98, 99, 100, 101, 200, 5_000):
        within = b""
        for _ in range(depth):
            within = group(UNKNOWN, within)
        yield f"EnforceDepthLimit.Groups{depth}", within
        within = b""
        for _ in range(depth):
            within = put(5, within)
        yield f"EnforceDepthLimit.Messages{depth}", put(message, within)


def texts() -> Cases:
    """Yield strings that are not UTF-8, in each position."""
    for place, wrong in enumerate(
        (b"\xa0\xb0\xc0\xd0", b"\xff", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"a\xe5")
    ):
        for position in ("single", "optional", "many", "one"):
            yield f"RejectInvalidUtf8.{position}[{place}]", put(number(position, "string"), wrong)
            yield f"AcceptInvalidUtf8.Bytes.{position}[{place}]", put(number(position, "bytes"), wrong)
        strings = map_number("string", "string")
        yield f"RejectInvalidUtf8.MapKey[{place}]", put(strings, put(1, wrong) + put(2, b"x"))
        yield f"RejectInvalidUtf8.MapValue[{place}]", put(strings, put(1, b"x") + put(2, wrong))
        yield f"RejectInvalidUtf8.Message[{place}]", put(number("single", "message"), put(2, wrong))
        yield f"AcceptInvalidUtf8.Unknown[{place}]", put(UNKNOWN, wrong)


def unknown_fields() -> Cases:
    """Yield fields that the schema does not know, between those that it does; and extensions."""
    strange = [tag(UNKNOWN, VARINT) + varint(7), put(UNKNOWN, b"7"), tag(UNKNOWN, FIXED32) + b"\7" * 4]
    strange += [tag(UNKNOWN, FIXED64) + b"\7" * 8, group(UNKNOWN, tag(1, VARINT) + b"\1")]
    known = [tag(number("single", kind), wire_of(kind)) + values(kind)[1] for kind in KINDS]
    yield "Empty", b""
    yield "UnknownOrdering", b"".join(strange)
    yield "AlternatingUnknownFields", b"".join(one + strange[place % len(strange)] for place, one in enumerate(known))
    yield "AllKnownFields", b"".join(known)
    yield "AllKnownFieldsBackwards", b"".join(reversed(known))
    yield "ManyUnknownFields", b"".join(strange) * 500
    yield "ManyRepeatedMessages", put(number("many", "message"), tag(1, VARINT) + b"\1") * 500
    yield "Extension", put(2000, b"more")
    yield "Extension.UnknownToTheSchema", put(2001, b"more")


def cases() -> dict[str, bytes]:
    """Return all cases by name, and each short one cut off at each of its bytes."""
    makers = (premature_eof, valid_data, other_wire_types, maps, merging, illegal_tags, groups, texts, unknown_fields)
    found = {name: raw for make in makers for name, raw in make()}
    kept = {name: raw for name, raw in found.items() if not name.startswith(("PrematureEof", "WireType", "Oneof"))}
    whole = set(found.values())
    for name, raw in kept.items():
        cuts = {raw[:size] for size in range(1, len(raw))} - whole if len(raw) <= 24 else set()
        found |= {f"{name}, cut off at {len(cut)}": cut for cut in sorted(cuts, key=len)}
        whole |= cuts
    return found
