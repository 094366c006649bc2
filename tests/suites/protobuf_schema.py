"""A message with a field of every kind in every position, for each syntax, and a contract that reads all of it."""

from collections.abc import Iterator
from functools import cache

from platform_defs.contract.model.contract import Contract
from tests.unit.formats.protobuf.protobuf_messages import contract_of

INTEGERS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64")
PACKABLE = (*INTEGERS, "float", "double", "bool", "enum")
KINDS = (*PACKABLE, "string", "bytes", "message")
MAPS = (
    *((kind, kind) for kind in INTEGERS),
    *(("int32", kind) for kind in ("float", "double")),
    ("bool", "bool"),
    *(("string", kind) for kind in ("string", "bytes", "enum", "message")),
)
POSITIONS = ("single", "optional", "many", "packed", "unpacked", "one")
UNKNOWN = 1_500  # no field has this number
GROUP = 700
_TYPES = {"enum": "State", "message": "Inner"}
_COLUMNS = {
    **dict.fromkeys(INTEGERS, "integer"),
    **{"float": "double", "double": "double", "bool": "boolean", "enum": "string"},
    **{"string": "string", "bytes": "bytes", "message": "json"},
}


def number(position: str, kind: str) -> int:
    """Return the number of a field; for maps, see map_number."""
    return 100 * POSITIONS.index(position) + KINDS.index(kind) + 1


def map_number(key: str, value: str) -> int:
    return 600 + MAPS.index((key, value)) + 1


@cache
def proto(syntax: str) -> str:
    """Return the schema's text: proto2 has a group, extensions and a closed enum, proto3 fields without presence."""
    is_old = syntax == "proto2"
    zero, label = ("NEW = 0; DONE = 1; LATE = -1; LAST = 2;", "optional " if is_old else "")
    fields = "\n".join(_fields(label))
    more = f"optional group Box = {GROUP} {{ {label}int32 a = 1; {label}Inner inner = 2; }}" if is_old else ""
    extensions = "extensions 2000 to 2010;" if is_old else ""
    extend = "extend M { optional string extra = 2000; }" if is_old else ""
    inner = f"{label}int32 a = 1; optional string b = 2; {label}M m = 3; repeated int32 c = 4; {label}Inner inner = 5;"
    return f"""syntax = "{syntax}"; package suite;
enum State {{ {zero} }}
message M {{
{fields}
{more} {extensions}
}}
message Inner {{ {inner} }}
{extend}
"""


def _fields(label: str) -> Iterator[str]:
    labels = {
        "single": label,
        "optional": "optional ",
        "many": "repeated ",
        "packed": "repeated ",
        "unpacked": "repeated ",
    }
    ends = {"packed": " [packed = true]", "unpacked": " [packed = false]"}
    for position, start in labels.items():
        for kind in KINDS if position not in ends else PACKABLE:
            of = _TYPES.get(kind, kind)
            yield f"{start}{of} {position}_{kind} = {number(position, kind)}{ends.get(position, '')};"
    members = " ".join(f"{_TYPES.get(kind, kind)} one_{kind} = {number('one', kind)};" for kind in KINDS)
    yield f"oneof one {{ {members} }}"
    for key, value in MAPS:
        yield f"map<{key}, {_TYPES.get(value, value)}> {key}_{value} = {map_number(key, value)};"


@cache
def contract(syntax: str) -> Contract:
    """Return a contract of all fields: arrays if possible, json for messages, maps and the group; some within these."""
    found = {f"{position}_{kind}": _COLUMNS[kind] for position in ("single", "optional", "one") for kind in KINDS}
    found |= {f"many_{kind}": f"array<{_COLUMNS[kind]}>" for kind in KINDS if kind != "message"}
    found |= {
        f"{position}_{kind}": f"array<{_COLUMNS[kind]}>" for position in ("packed", "unpacked") for kind in PACKABLE
    }
    found |= {f"{key}_{value}": "json" for key, value in MAPS} | {"many_message": "json"}
    found |= {"single_message.a": "integer", "one_message.b": "string"}
    if syntax == "proto2":
        found |= {"box": "json", "box.a": "integer"}
    return contract_of(found, "suite.M")
