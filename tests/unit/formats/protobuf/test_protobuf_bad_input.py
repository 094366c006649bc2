"""Each mistake that a Protobuf message or its schema can have, and the text of the dead letter."""

import base64
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from platform_defs.contract.model.contract import Contract, Fault
from platform_defs.errors import Retryable
from platform_defs.formats.blocks.writer_schema import SchemaNotCompatible
from platform_defs.formats.protobuf.decode import ProtobufReader
from platform_defs.formats.protobuf.descriptors import file_of
from platform_defs.verify.decoders.documents import NotTheType
from platform_defs.verify.decoders.protobuf import ProtobufValidator
from tests.unit.formats.protobuf.protobuf_messages import COLUMNS3, PROTO3, contract_of, decoded, new, schema

pytestmark = pytest.mark.long


CONTRACT = contract_of(COLUMNS3)
READER, VALIDATOR = ProtobufReader(CONTRACT, schema(PROTO3)), ProtobufValidator(CONTRACT, PROTO3)
GOOD = new(PROTO3, "Transfer", text="good", number=7).SerializeToString()


def transfer(**values: Any) -> bytes:
    return new(PROTO3, "Transfer", **values).SerializeToString()


def known(number: int, inner: bytes) -> bytes:
    """Return a field of a message type, given as bytes."""
    return bytes([number << 3 | 2, len(inner)]) + inner


def nested(levels: int) -> bytes:
    """Return `party.last` nested in itself, `levels` messages deep."""
    inner = b""
    for _ in range(levels // 2):
        inner = _long(2, inner)
        inner = _long(12, inner)
    return inner


def _long(number: int, inner: bytes) -> bytes:
    length, written = len(inner), bytearray()
    while length >= 0x80:
        written.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2, *written, length]) + inner


BAD = [
    # (payload, class, field, part of the message)
    (
        b"\x0a\x05ab",
        "InvalidProtobuf",
        None,
        "is cut off: its length is 5 bytes, more than the 2 left at byte 2, in text",
    ),
    (b"\x10", "InvalidProtobuf", None, "in the middle of a number at byte 1, in number"),
    (b"\x19\0\0\0", "InvalidProtobuf", None, "its length is 8 bytes, more than the 3 left at byte 1, in real"),
    (b"\xad\x01\0", "InvalidProtobuf", None, "its length is 4 bytes, more than the 1 left at byte 2, in narrow"),
    (b"\x0a\xff\xff\xff\xff\x07", "InvalidProtobuf", None, "its length is 2,147,483,647 bytes"),
    (b"\x0a\xff\xff\xff\xff\x0f", "InvalidProtobuf", None, "gives a length of 4,294,967,295 bytes at byte 1"),
    (b"\x0a\x80\x80\x80\x80\x80\0", "InvalidProtobuf", None, "gives a length of 0 bytes at byte 1"),
    (b"\xf2\xff\xff\xff\x0f\xff\xff\xff\xff\x07", "InvalidProtobuf", None, "its length is 2,147,483,647 bytes"),
    (b"\x10" + b"\xff" * 10 + b"\0", "InvalidVarint", None, "more than 10 bytes at byte 1, in number"),
    (b"\0", "InvalidProtobuf", None, "no field number between 1 and 536,870,911 at byte 0"),
    (b"\x80\x80\x80\x80\x10\0", "InvalidProtobuf", None, "no field number"),
    (b"\x0e", "InvalidProtobuf", None, "the wire type 6"),
    (b"\x0f", "InvalidProtobuf", None, "the wire type 7"),
    (b"\x0c", "InvalidProtobuf", None, "ends group 1, which was not started"),
    (b"\x0b", "InvalidProtobuf", None, "ends inside group 1"),
    (b"\x0b\x14", "InvalidProtobuf", None, "ends group 2, which was not started"),
    (known(12, b"\x0a\x05ab"), "InvalidProtobuf", None, "at byte 4, in party.city"),
    (b"\x0b" * 200 + b"\x0c" * 200, "TooDeep", None, "deeper than 100 levels"),
    (nested(102), "TooDeep", None, "deeper than 100 levels"),
    (known(1, b"a\xff"), "InvalidUtf8", "text", "is not UTF-8 at its byte 1"),
    (known(1, b"\xed\xa0\x80"), "InvalidUtf8", "text", "is not UTF-8"),
    (known(1, b"a\0b"), "NulCharacter", "text", r"holds \u0000"),
    (known(12, known(1, b"\xff")), "InvalidUtf8", "party_city", "party_city (party.city) is not UTF-8"),
    (known(12, known(4, b"") + known(5, known(1, b"\xff"))), "InvalidUtf8", "party", "is not UTF-8"),
    (known(12, known(5, known(1, b"\0"))), "NulCharacter", "party", r"holds \u0000"),
    (transfer(real=float("nan")), "NotFinite", "real", "is nan"),
    (transfer(narrow=float("-inf")), "NotFinite", "narrow", "is -inf"),
    (transfer(large=2**63), "OutOfRange", "large", "is 9223372036854775808; an integer has 64 bits"),
    (b"\x50\x07", "InvalidEnum", "state", "is 7, a number that bank.State does not name"),
    (known(12, known(5, b"\x0a\x01a\x10\x07")), "InvalidEnum", "party", "holds 7, a number that bank.State"),
    (transfer(amount="1,5"), "WrongType", "amount", 'the string "1,5"'),
    (transfer(amount="1e5"), "OutOfRange", "amount", "has 4 digits before the point"),
    (transfer(amount="0.001"), "TooManyDecimals", "amount", "keeps 2 and nothing is rounded"),
    (transfer(rate={"value": "x"}), "WrongType", "rate", 'the string "x"'),
    (transfer(exact={"value": b"\x7f" * 9}), "OutOfRange", "exact", "has 20 digits before the point"),
    (transfer(exact={"value": b"\1", "scale": 3}), "TooManyDecimals", "exact", "is 1e-3"),
    (transfer(exact={"value": b"\1", "scale": -(2**31)}), "OutOfRange", "exact", "is 1e2147483648"),
    (transfer(exact={"value": b"\1", "scale": 2**31 - 1}), "TooManyDecimals", "exact", "is 1e-2147483647"),
    (transfer(exact={"value": b"\1" * 600}), "OutOfRange", "exact", "is a number of 600 bytes"),
    (transfer(iso="2026-02-29"), "InvalidDate", "iso", "not a date"),
    (transfer(iso="0000-01-01"), "OutOfRange", "iso", "years run from 0001"),
    (transfer(day={"year": 2026, "month": 2, "day": 29}), "InvalidDate", "day", "month 2, day 29"),
    (transfer(day={"year": 2026, "month": 0, "day": 1}), "InvalidDate", "day", "month 0"),
    (transfer(day={"year": 10_000, "month": 1, "day": 1}), "OutOfRange", "day", "the year 10000"),
    (transfer(day={"month": 1, "day": 1}), "OutOfRange", "day", "the year 0"),
    (transfer(at={"nanos": 1}), "InvalidTimestamp", "at", "keeps microseconds and nothing is rounded"),
    (transfer(at={"nanos": 1_000_000_000}), "InvalidTimestamp", "at", "1,000,000,000 nanoseconds"),
    (transfer(at={"nanos": -1_000}), "InvalidTimestamp", "at", "-1,000 nanoseconds"),
    (transfer(at={"seconds": 253_402_300_800}), "OutOfRange", "at", "years run from 0001 to 9999"),
    (transfer(took={"seconds": 1, "nanos": -1}), "OutOfRange", "took", "is not a valid duration"),
    (known(15, known(1, b"\x0a\1a" + known(2, b"\x11" + b"\xff" * 8))), "NotFinite", "anything", "holds nan"),
    pytest.param(
        *(_long(24, b"\0" * 1_000_001).replace(b"\xc2", b"\xc2\x01", 1), "TooManyItems", None),
        "more than 1,000,000 items",
        marks=pytest.mark.slow,
    ),
]


def test_the_examples_of_one_field_are_spelt_as_meant() -> None:
    assert known(12, known(1, b"a")) == transfer(party={"city": "a"})
    assert nested(4) == transfer(party={"last": {"party": {"last": {}}}})


@pytest.mark.parametrize(("payload", "error_class", "field", "part"), BAD, ids=lambda value: str(value)[:40])
def test_a_bad_message_is_a_dead_letter_and_leaves_its_neighbours_alone(
    payload: bytes, error_class: str, field: str | None, part: str
) -> None:
    found = decoded(READER, [GOOD] * 70 + [payload] + [GOOD] * 70)
    assert [(fault.index, fault.error_class, fault.field) for fault in found.faults] == [(70, error_class, field)]
    assert part in found.faults[0].message
    assert found.rows.num_rows == 140
    assert found.rows.column("text").unique().to_pylist() == ["good"]
    assert found.rows.column("number").unique().to_pylist() == [7]
    with pytest.raises(NotTheType, match=rf"^{error_class}$"):
        VALIDATOR.values(payload)


NOT_BAD = [
    # payloads that only look wrong, and the columns that they have
    (b"", {"number": 0, "text": "", "branch": None, "parties": "[]", "by_number": "{}", "day": None, "iso": None}),
    (b"\x10\x01\x10\x02", {"number": 2}),  # the last one counts
    (b"\x10\x81\x00", {"number": 1}),  # a longer varint than it needs
    (b"\x90\x00\x01", {"number": 1}),  # a longer tag
    (b"\x10" + b"\xff" * 9 + b"\x7f", {"number": -1}),  # bits beyond 64
    (known(12, known(1, b"a")) + known(12, b"\x1a\x01\x05"), {"party": '{"city":"a","codes":[5]}'}),  # merged
    (b"\x80\x01\x05" + known(17, b"").replace(b"\x8a", b"\x8a\x01"), {"branch": None}),  # another of the oneof
    (b"\x80\x01\x05\x92\x01\x00\x80\x01\x06", {"branch": 6, "agent_city": None}),
    (b"\x12\x01a", {"number": 0}),  # of another wire type: not the field
    (b"\xc0\x01\x02\xc2\x01\x02\x01\x03", {"parts": '["1","-1","-2"]'}),  # packed and not
    (transfer(amount="", iso=""), {"amount": None, "iso": None}),
    (transfer(rate={}, exact={}), {"rate": 0, "exact": 0}),
    (transfer(wrapped={}), {"wrapped": 0}),
    (transfer(state=-1, signed=0, perhaps=""), {"state": "LATE", "signed": 0, "perhaps": ""}),
    (nested(100), {"number": 0}),
    (transfer(parts=[1] * 100_000), {"number": 0}),
    (transfer(nor_this=[""] * 100_000), {"number": 0}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("payload", "columns"), NOT_BAD, ids=lambda value: str(value)[:40])
def test_what_only_looks_wrong_is_a_row(payload: bytes, columns: dict[str, Any]) -> None:
    found = decoded(READER, [GOOD] * 70 + [payload])
    assert not found.faults
    row = found.rows.slice(70).to_pylist()[0]
    assert {name: row[name] for name in columns} == columns
    assert list(row.values()) == VALIDATOR.values(payload)


def test_fields_that_the_contract_does_not_know_are_counted_by_message() -> None:
    unread, unwritten = transfer(not_read=1, nor_this=["a", "b"]), GOOD + b"\xfa\x7f\x01a"
    inside = transfer(agent={"city": "a", "photo": b"x"})
    found = decoded(READER, [GOOD] * 64 + [unread, unwritten, inside, transfer(online="x")])
    assert found.unknown_fields == 4
    assert not found.faults


def framed(contract: Contract, payloads: Sequence[bytes]) -> tuple[Sequence[int | None], list[Fault]]:
    found = decoded(ProtobufReader(contract, schema(PROTO3), framed=True), payloads)
    validator = ProtobufValidator(contract, PROTO3, framed=True)
    for fault in found.faults:
        with pytest.raises(NotTheType, match=rf"^{fault.error_class}$"):
            validator.values(payloads[fault.index])
    return found.indexes.to_pylist(), found.faults


@pytest.mark.parametrize("few", [1, 100])
def test_message_indexes_say_which_message_it_is(few: int) -> None:
    usual, long, refund, party = b"\0" + GOOD, b"\x02\x00" + GOOD, b"\x02\x02\x08\x01", b"\x04\x00\x00\x0a\x01a"
    rows, faults = framed(
        CONTRACT, [usual] * few + [long, refund, party, b"\x02\x7e", b"\x06\0\0\0", b"", b"\xff", b"\1"]
    )
    assert rows == list(range(few + 1))
    assert [fault.error_class for fault in faults] == ["OtherRecord"] * 2 + ["UnknownMessageIndex"] * 5
    assert faults[0].message == "the message is bank.Refund, not bank.Transfer"
    assert faults[1].message == "the message is bank.Transfer.Party, not bank.Transfer"
    assert faults[2].message == "the message has the index 63, which means no message of its schema"


def test_an_index_that_serializers_count_differently_is_not_guessed() -> None:
    text = """syntax = "proto3"; package p;
    message Outer { map<string, int32> m = 1; message A { int32 x = 1; } message B { int32 x = 1; } message C {} }"""
    payloads = [bytes([4, 0, 2 * place]) + b"\x08\x01" for place in range(5)]
    for record, python, java in (("p.Outer.A", 1, 0), ("p.Outer.B", 2, 1), ("p.Outer.C", 3, 2)):
        found = decoded(ProtobufReader(contract_of({"x": "integer"}, record), schema(text), framed=True), payloads)
        clear = {0: "p.Outer.A", 3: "p.Outer.C"}
        assert found.indexes.to_pylist() == [place for place in (java, python) if clear.get(place) == record]
        faults = {fault.index: (fault.error_class, fault.message) for fault in found.faults}
        assert faults[1] == ("UnknownMessageIndex", "the message has the index 0.1, which means p.Outer.A or p.Outer.B")
        assert faults[4][0] == "UnknownMessageIndex"


def test_the_contract_says_which_message_is_meant() -> None:
    refund, party = b"\x02\x02\x08\x01", b"\x04\x00\x00\x0a\x01a"
    payloads = [b"\0" + GOOD, refund, party] * 40
    assert framed(contract_of({"number": "integer"}, "bank.Refund"), payloads)[0] == list(range(1, 120, 3))
    assert framed(contract_of({"city": "string"}, "bank.Transfer.Party"), payloads)[0] == list(range(2, 120, 3))
    rows, faults = framed(contract_of({"city": "string"}, "bank.Nothing"), payloads)
    assert not rows
    assert {fault.error_class for fault in faults} == {"OtherRecord"}


def test_a_schema_comes_as_text_or_as_a_descriptor() -> None:
    library = 'syntax = "proto3"; package lib; message Place { string city = 1; }'
    text = 'syntax = "proto3"; import "lib/place.proto"; message Visit { lib.Place place = 1; }'
    contract = contract_of({"place.city": "string"})
    whole = file_of(schema(text, ("lib/place.proto", library)))
    for document in (text, _base64(whole)):
        for reference in (library, _base64(whole.dependencies[0])):
            writer = schema(document, ("lib/place.proto", reference))
            found = decoded(ProtobufReader(contract, writer), [b"\x0a\x06\x0a\x04Wien"])
            assert found.rows.to_pylist() == [{"place_city": "Wien"}]
            assert ProtobufValidator(contract, document, writer.references).values(b"\x0a\x06\x0a\x04Wien") == ["Wien"]


def _base64(file: Any) -> str:
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    return base64.b64encode(proto.SerializeToString()).decode()


MESSAGE = 'syntax = "proto3"; message A { int64 number = 1; }'
NO_SCHEMAS = [
    ("", (), "defines no message"),
    ("not a schema", (), 'schema.proto:1:1: Expected top-level statement (e.g. "message")'),
    ('syntax = "proto3"; message A { int64 a = 1; int64 b = 1; }', (), "Field number 1 has already been used"),
    ('syntax = "proto3"; import "other.proto"; message A { }', (), "other.proto"),
    ('syntax = "proto3"; import "/etc/passwd"; message A { }', (), 'Import "/etc/passwd" was not found'),
    (MESSAGE, (("../../outside.proto", MESSAGE),), "is not a valid import name"),
    (MESSAGE, (("/outside.proto", MESSAGE),), "is not a valid import name"),
    (MESSAGE, (("a" * 256 + ".proto", MESSAGE),), "is not a valid import name"),
    (MESSAGE, (("a/" * 1_500 + "b.proto", MESSAGE),), "is not a valid import name"),
    (MESSAGE, (("a/" * 900 + "b.proto", MESSAGE),), "is not a valid import name"),
    (MESSAGE, (("a\0.proto", MESSAGE),), "is not a valid import name"),
    (MESSAGE, (("\ud800.proto", MESSAGE),), "is not a valid import name"),
    (MESSAGE, (("a.proto", MESSAGE), ("a.proto/b.proto", MESSAGE)), "is a folder of another reference"),
    (MESSAGE, (("a.proto/b.proto", MESSAGE), ("a.proto", MESSAGE)), "is a folder of another reference"),
    (MESSAGE + "// \ud800", (), "is not Unicode"),
    ("\0", (), "Invalid control characters"),
    ("message A {" * 10_000, (), "recursion limit"),
    (base64.b64encode(b"\x0a\x01a\x12").decode(), (), "does not compile"),
    ('syntax = "proto3"; import "schema.proto"; message A { }', (), "imports itself"),
]


@pytest.mark.parametrize("name", ["schema.proto", "writer.proto"])  # what the engine and verify call the schema
def test_a_reference_may_be_called_as_the_schema_itself_is_here(name: str) -> None:
    text = f'syntax = "proto3"; import "{name}"; message A {{ int64 number = 1; Other other = 2; }}'
    other = (name, 'syntax = "proto3"; message Other { int64 number = 1; }')
    contract = contract_of({"number": "integer"})
    ProtobufReader(contract, schema(text, other))
    assert ProtobufValidator(contract, text, (other,)).values(b"\x08\x07") == [7]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "references", "part"), NO_SCHEMAS, ids=lambda value: str(value)[:40])
def test_a_schema_that_is_none_is_refused_with_the_compilers_reason(
    text: str, references: tuple[tuple[str, str], ...], part: str, capfd
) -> None:
    contract = contract_of({"number": "integer"})
    with pytest.raises(SchemaNotCompatible) as refused:
        ProtobufReader(contract, schema(text, *references))
    assert part in str(refused.value)
    with pytest.raises(NotTheType, match=r"^SchemaNotCompatible$"):
        ProtobufValidator(contract, text, references)
    assert capfd.readouterr() == ("", "")


def test_what_the_compiler_only_warns_of_is_no_fault() -> None:
    text = MESSAGE.replace("message", 'import "google/type/date.proto"; message')  # an import that is not used
    assert decoded(ProtobufReader(contract_of({"number": "integer"}), schema(text)), [b"\x08\x01"]).rows.num_rows == 1
    assert ProtobufValidator(contract_of({"number": "integer"}), text).values(b"\x08\x01") == [1]


def test_a_compiler_that_cannot_run_is_no_fault_of_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    text, contract = f"{MESSAGE} // not compiled before", contract_of({"number": "integer"})
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(Retryable, match=r"did not run \(status 1\)"):
        ProtobufReader(contract, schema(text))
    with pytest.raises(Retryable, match="ended with status 1"):
        ProtobufValidator(contract, text)
    monkeypatch.undo()
    assert decoded(ProtobufReader(contract, schema(text)), [b"\x08\x01"]).rows.to_pylist() == [{"number": 1}]


def test_a_schema_of_a_megabyte_with_2000_fields_is_read() -> None:
    fields = "".join(f"  int64 field_{number} = {number}; // {'x' * 480}\n" for number in range(1, 2_001))
    text = f'syntax = "proto3"; message Wide {{\n{fields}}}'
    assert len(text) > 1_000_000
    message = new(text, "Wide", field_1=1, field_1000=1_000, field_2000=2_000)
    reader = ProtobufReader(contract_of({"field_1000": "integer", "field_1999": "integer"}), schema(text))
    found = decoded(reader, [message.SerializeToString()] * 100)
    assert found.rows.to_pylist() == [{"field_1000": 1_000, "field_1999": 0}] * 100
    assert found.unknown_fields == 100


def test_names_that_are_longer_than_their_numbers_do_not_make_a_message_a_flood() -> None:
    """Written out, these hundred thousand bytes would be a hundred megabytes of JSON."""
    text = f'syntax = "proto3"; enum E {{ {"A" * 1_000} = 0; }} message M {{ repeated E e = 1; }}'
    found = decoded(ProtobufReader(contract_of({"e": "json"}), schema(text)), [_long(1, b"\0" * 99_999), b""])
    assert [(fault.index, fault.error_class) for fault in found.faults] == [(0, "TooLarge")]
    assert "a json column stores at most 33,554,432" in found.faults[0].message
    short = _long(1, b"\0" * 40_000)
    with pytest.raises(NotTheType, match=r"^TooLarge$"):
        ProtobufValidator(contract_of({"e": "json"}), text).values(short)
    assert (
        decoded(ProtobufReader(contract_of({"e": "json"}), schema(text)), [short]).faults[0].error_class == "TooLarge"
    )


@pytest.mark.parametrize(
    "text",
    [
        f"message M {{ int32 {'x' * 1_001} = 1; }}",
        f"message M {{ message Inner {{ enum E {{ {'A' * 1_001} = 0; }} }} }}",
        f"message M {{ }} enum E {{ {'A' * 1_001} = 0; }}",
    ],
)
def test_a_schema_whose_names_would_flood_a_table_is_refused(text: str) -> None:
    contract, document = contract_of({"e": "json"}), f'syntax = "proto3"; {text}'
    with pytest.raises(SchemaNotCompatible, match="a name in it has 1,001 characters, and the maximum is 1,000"):
        ProtobufReader(contract, schema(document))
    with pytest.raises(NotTheType, match=r"^SchemaNotCompatible$"):
        ProtobufValidator(contract, document)
