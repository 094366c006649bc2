"""Two Protobuf schemas with all that a contract can read, contracts for them, and messages, good and damaged."""

from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any
from uuid import UUID

import numpy as np
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Contract, Field, WireFormat
from platform_defs.contract.model.message_path import parse_path
from platform_defs.formats.blocks.decoded import Decoded
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.protobuf.decode import ProtobufReader
from platform_defs.formats.protobuf.descriptors import file_of
from platform_defs.verify.decoders.protobuf import ProtobufValidator

PROTO3 = """
syntax = "proto3";
package bank;
import "confluent/type/decimal.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/type/date.proto";
import "google/type/decimal.proto";

enum State { NEW = 0; DONE = 1; LATE = -1; }

message Transfer {
  string text = 1;
  int64 number = 2;
  double real = 3;
  bool yes = 4;
  google.type.Date day = 5;
  google.protobuf.Timestamp at = 6;
  string amount = 7;
  confluent.type.Decimal exact = 8;
  google.type.Decimal rate = 9;
  State state = 10;
  google.protobuf.Int32Value wrapped = 11;
  Party party = 12;
  repeated Party parties = 13;
  map<int32, Party> by_number = 14;
  google.protobuf.Struct anything = 15;
  oneof from {
    int32 branch = 16;
    string online = 17;
    Party agent = 18;
  }
  optional sint32 signed = 19;
  google.protobuf.Duration took = 20;
  float narrow = 21;
  uint64 large = 22;
  string iso = 23;
  repeated sint64 parts = 24;
  fixed32 not_read = 25;
  repeated string nor_this = 26;
  google.protobuf.StringValue note = 27;
  string uid = 28;
  string clock = 29;
  bytes raw = 30;
  optional bytes seal = 31;
  repeated string words = 32;
  repeated google.protobuf.Timestamp times = 33;
  repeated State states = 34;
  repeated google.type.Decimal rates = 35;
  repeated confluent.type.Decimal sums = 36;
  repeated google.type.Date days = 37;
  repeated string uids = 38;
  repeated sint64 numbers = 39;
  optional string perhaps = 2000;

  message Party {
    string city = 1;
    Transfer last = 2;
    repeated int32 codes = 3;
    bytes photo = 4;
    map<string, State> states = 5;
  }
}
message Refund { int64 number = 1; }
"""
COLUMNS3 = {
    "uid": "uuid",
    "clock": "time",
    "raw": "bytes",
    "seal": "bytes",
    "text": "string",
    "number": "integer",
    "real": "double",
    "yes": "boolean",
    "day": "date",
    "at": "timestamp",
    "amount": "decimal(6,2)",
    "exact": "decimal(22,2)",
    "rate": "decimal(6,2)",
    "state": "string",
    "wrapped": "integer",
    "party.city": "string",
    "party": "json",
    "parties": "json",
    "by_number": "json",
    "anything": "json",
    "branch": "integer",
    "agent.city": "string",
    "signed": "integer",
    "took": "json",
    "narrow": "double",
    "large": "integer",
    "iso": "date",
    "parts": "json",
    "note": "string",
    "perhaps": "string",
    "not_there": "date",
    "party.last.number": "decimal(19,0)",
    "numbers": "array<integer>",
    "words": "array<string>",
    "times": "array<timestamp>",
    "states": "array<string>",
    "rates": "array<decimal(6,2)>",
    "sums": "array<decimal(22,2)>",
    "days": "array<date>",
    "uids": "array<uuid>",
    "party.codes": "array<decimal(12,1)>",
}

_KINDS = ["double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "uint32", "sfixed32", "sfixed64"]
_KINDS += ["sint32", "sint64"]
PROTO2 = f"""
syntax = "proto2";
enum State {{ NEW = 0; DONE = 1; LATE = -1; }}
message All {{
  {" ".join(f"optional {kind} one_{kind} = {number};" for number, kind in enumerate(_KINDS, 1))}
  {" ".join(f"repeated {kind} many_{kind} = {number};" for number, kind in enumerate(_KINDS, 21))}
  {" ".join(f"repeated {kind} packed_{kind} = {number} [packed = true];" for number, kind in enumerate(_KINDS, 41))}
  optional All inner = 61;
  repeated All inners = 62;
  optional group Box = 63 {{ optional int32 x = 1; optional All inner = 2; }}
  oneof which {{ int32 first = 64; All second = 65; bytes third = 66; State fourth = 67; }}
  optional State state = 68;
  map<int32, bytes> blobs = 69;
  map<bool, All> alls = 70;
  optional string text = 71 [default = "not invented"];
  optional double far = 3000;
}}
"""
ARRAYS2 = {
    **dict.fromkeys(("int64", "int32", "uint32", "sint32", "sint64", "fixed64", "sfixed32"), "integer"),
    **{"uint64": "decimal(20,2)", "double": "double", "float": "double", "fixed32": "double", "bool": "boolean"},
}
COLUMNS2 = {
    **{f"one_{kind}": "integer" for kind in _KINDS if "int" in kind or "fixed" in kind},
    **{f"as_decimal=one_{kind}": "decimal(20,2)" for kind in ("int64", "uint64", "sint32")},
    **{f"as_real=one_{kind}": "double" for kind in ("double", "float", "int32", "fixed32", "sfixed32")},
    "one_bool": "boolean",
    **{f"many_{kind}": "json" for kind in ("double", "int64", "bool")},
    **{f"packed_{kind}": "json" for kind in ("float", "sint32", "fixed64")},
    **{f"array={name}_{kind}": f"array<{of}>" for name in ("many", "packed") for kind, of in ARRAYS2.items()},
    "inner": "json",
    "box.x": "integer",
    "box.inner.one_int32": "integer",
    "first": "integer",
    "second.one_sint64": "integer",
    "state": "string",
    "blobs": "json",
    "alls": "json",
    "text": "string",
    "far": "double",
}


def field(column: str, of: str, **more: Any) -> Field:
    """Return a field for `path`, or for `prefix=path` if several columns read the same."""
    path = parse_path(column.rpartition("=")[2])
    name = column.replace("=", "_").replace(".", "_")
    return Field(name, column_type(of), required=False, rules=(), physical_path=path, **more)


def contract_of(columns: dict[str, str], record: str = "") -> Contract:
    """Return a contract with a column for each path."""
    fields = tuple(field(column, of) for column, of in columns.items())
    return Contract("p", "1", "d", "", "t", "protobuf", fields, tables=(), wire=WireFormat(record=record))


def schema(text: str, *references: tuple[str, str]) -> WriterSchema:
    return WriterSchema("1", "protobuf", text, references)


@cache
def type_of(text: str, name: str) -> Descriptor:
    """Return a message type of a schema, as upb has it."""
    return file_of(schema(text)).message_types_by_name[name]


def new(text: str, name: str, /, **values: Any) -> Any:
    """Return a message of that type, to be filled."""
    of: type[Message] = GetMessageClass(type_of(text, name))
    return of(**values)


def decoded(reader: ProtobufReader, payloads: Sequence[bytes]) -> Decoded:
    """Return the payloads read as one block, with a byte of something else between any two."""
    lengths = np.array([len(payload) for payload in payloads], np.int64)
    stops = np.cumsum(lengths + 1) - 1
    return reader.read(np.frombuffer(b"\xff".join(payloads), np.uint8), stops - lengths, stops)


def transfer(random: Random, depth: int = 0) -> Any:
    """Return a good Transfer."""
    message = new(PROTO3, "Transfer")
    text = random.choice(["", "a", "Zürich", "x" * 200])
    numbers = [0, 1, -1, 127, 128, 2**31, -(2**63), 2**63 - 1]
    choices = {
        "text": lambda: text,
        "number": lambda: random.choice(numbers),
        "real": lambda: random.choice([0.0, 1.5, -1e300, 5e-324]),
        "yes": lambda: True,
        "amount": lambda: random.choice(["12.5", "-0.01", "9999.99", "1e2"]),
        "state": lambda: random.choice([0, 1, -1]),
        "signed": lambda: random.choice([0, -5, 2**31 - 1]),
        "narrow": lambda: random.choice([0.1, 3e38]),
        "large": lambda: random.choice([1, 2**63 - 1]),
        "iso": lambda: random.choice(["2024-02-29", "9999-12-31", "0001-01-01"]),
        "not_read": lambda: 7,
        "uid": lambda: random.choice([str(UUID(int=random.getrandbits(128))).upper(), ""]),
        "clock": lambda: random.choice(["10:00:00", "23:59:59.120000", "00:00:00.0Z"]),
        "raw": lambda: random.randbytes(random.randrange(4)),
        "seal": lambda: random.randbytes(random.randrange(4)),
        "perhaps": lambda: text,
    }
    for name, choice in choices.items():
        if random.random() < 0.6:
            setattr(message, name, choice())
    for fill in (_fill_known_types, _fill_parties, _fill_repeated):
        fill(message, random, depth)
    return message


def _fill_known_types(message: Any, random: Random, _depth: int) -> None:
    if random.random() < 0.6:
        message.day.year, message.day.month, message.day.day = 2024, random.randint(1, 12), random.randint(1, 28)
    if random.random() < 0.6:
        message.at.seconds = random.choice([0, -62_135_596_800, 253_402_300_799, 1_790_000_000])
        message.at.nanos = random.choice([0, 1_000, 999_999_000])
    if random.random() < 0.6:
        message.exact.value = random.choice([b"", b"\0", b"\xff", b"\x01\x00", b"\x7f" * 8])
        message.exact.scale = random.randrange(3)
    if random.random() < 0.6:
        message.rate.value = random.choice(["", "1", "-.5", "12.34"])
    if random.random() < 0.4:
        message.wrapped.value = random.choice([0, -7])
    if random.random() < 0.4:
        message.took.seconds, message.took.nanos = -3, random.choice([0, -500_000_000, -1])
    if random.random() < 0.4:
        message.note.value = random.choice(["", "n"])


def _fill_parties(message: Any, random: Random, depth: int) -> None:
    if random.random() < 0.5:
        message.party.city = random.choice(["", "Wien"])
        message.party.states["x"] = random.choice([0, 1])
    if depth < 2 and random.random() < 0.3:
        message.party.last.CopyFrom(transfer(random, depth + 1))
    match random.randrange(5):
        case 0:
            message.branch = random.choice([0, 4])
        case 1:
            message.online = "x"
        case 2:
            message.agent.city = "y"
        case _:
            pass


def _fill_repeated(message: Any, random: Random, _depth: int) -> None:
    for _ in range(random.randrange(3)):
        message.parties.add(city="a", codes=[1, -2][: random.randrange(3)], photo=b"\xff\0")
        message.parts.append(random.choice([0, -1, 2**62]))
        message.nor_this.append("b")
        message.numbers.append(random.choice([0, -1, 2**62]))
        message.words.append(random.choice(["", "é", "a,b"]))
        message.times.add(seconds=random.choice([0, 1_790_000_000]), nanos=random.choice([0, 1_000]))
        message.states.append(random.choice([0, 1, -1]))
        message.rates.add(value=random.choice(["", "1", "12.34"]))
        message.sums.add(value=random.choice([b"", b"\xff", b"\x01\x00"]), scale=random.randrange(3))
        message.days.add(year=2024, month=random.randint(1, 12), day=29)
        message.uids.append(str(UUID(int=random.getrandbits(128))))
    if random.random() < 0.5:
        message.by_number[random.randrange(3)].city = "x"
    if random.random() < 0.5:
        message.anything.update({"a": [1.5, None, {"b": "c"}], "d": True})


def everything(random: Random, depth: int = 0) -> Any:
    """Return a good All."""
    message = new(PROTO2, "All")
    for kind in _KINDS:
        if random.random() < 0.4:
            setattr(message, f"one_{kind}", _number(random, kind))
        if random.random() < 0.2:
            getattr(message, f"many_{kind}").extend(_number(random, kind) for _ in range(random.randrange(3)))
            getattr(message, f"packed_{kind}").extend(_number(random, kind) for _ in range(random.randrange(3)))
    if depth < 2 and random.random() < 0.4:
        message.inner.CopyFrom(everything(random, depth + 1))
        message.inners.add().CopyFrom(everything(random, depth + 1))
    if random.random() < 0.4:
        message.box.x = random.randrange(300)
        message.box.inner.one_int32 = -1
        message.alls[True].one_int32 = 1
        message.blobs[3] = b"\xff"
        message.far, message.state, message.text = 2.0, -1, "t"
    if random.random() < 0.6:
        name = random.choice(["first", "second", "third", "fourth"])
        getattr(message, name).SetInParent() if name == "second" else setattr(
            message, name, b"x" if name == "third" else 1
        )
    return message


def _number(random: Random, kind: str) -> Any:
    if kind == "bool":
        return random.random() < 0.5
    if kind in ("double", "float"):
        return random.choice([0.0, 1.5, -2.0, 1e30])
    bits = 64 if "64" in kind else 32
    value = random.choice([0, 1, 127, 128, 2 ** (bits - 1) - 1, random.randrange(2 ** (bits - 1))])
    return value if kind.startswith(("u", "fixed")) else random.choice([value, -value])


def damaged(random: Random, payload: bytes) -> bytes:
    """Return the payload with a few bytes changed, put in, removed or repeated."""
    found = bytearray(payload)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(found) + 1)
        other = random.randrange(len(found) + 1)
        match random.randrange(6):
            case 0 if found:
                found[at % len(found)] = random.randrange(256)
            case 1:
                found[at:at] = random.choice([b"\0", b"\xff", b"\x80", bytes([random.randrange(256)])])
            case 2:
                del found[at : at + random.randint(1, 3)]
            case 3:
                del found[at:]
            case 4 if found:
                found[at % len(found)] ^= 1 << random.randrange(8)
            case _:
                found += found[min(at, other) : max(at, other)]
    return bytes(found)


def validator(text: str, contract: Contract, *, framed: bool = False) -> ProtobufValidator:
    return ProtobufValidator(contract, text, framed=framed)
