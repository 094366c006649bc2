"""A contract as a Protobuf schema, in the language of .proto files (proto3).

    string     string
    integer    int64
    double     double
    decimal    string
    boolean    bool
    date       string (ISO 8601)
    timestamp  google.protobuf.Timestamp
    time, uuid string
    bytes      bytes
    json       google.protobuf.Value

A field that is not required is `optional`. A required one has no label, as in proto3: a message never lacks it, and if
a producer omits it, it has its default.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from platform_defs.contract.model.contract import Contract
from platform_defs.errors import BadInput
from platform_defs.schemas.conversion.field_numbers import missing_numbers, number_of
from platform_defs.schemas.conversion.tree import Member, camel_case, members_of, record_name, unique

_TYPES = {
    "string": "string",
    "integer": "int64",
    "double": "double",
    "decimal": "string",
    "boolean": "bool",
    "date": "string",
    "timestamp": "google.protobuf.Timestamp",
    "time": "string",
    "uuid": "string",
    "bytes": "bytes",
    "json": "google.protobuf.Value",
}
_IMPORTS = {
    "google.protobuf.Timestamp": "google/protobuf/timestamp.proto",
    "google.protobuf.Value": "google/protobuf/struct.proto",
}
_NOTES = {
    "decimal": "a decimal, such as 12.34",
    "date": "ISO 8601, such as 2026-11-01",
    "time": "such as 10:00:00.5",
    "uuid": "a UUID",
}


def proto_text(contract: Contract) -> str:
    """Return the text of a .proto file with one message, and the messages nested in it.

    Raises BadInput for a field without fieldNumber, or whose name Protobuf does not take.
    """
    if contract.format != "protobuf":
        raise BadInput(
            "a Protobuf schema needs field numbers, and only a contract with format: protobuf has them: set "
            "format: protobuf, then run tidegate contract export with --assign",
            file=str(contract.path) if contract.path else None,
            field="servers.kafka.format",
        )
    if lacking := missing_numbers(contract):
        raise BadInput(
            f"these fields have no fieldNumber: {', '.join(lacking)}. To add the numbers to the file: tidegate "
            f"contract export {contract.pipeline} --assign",
            file=str(contract.path) if contract.path else None,
        )
    package, _, name = record_name(contract).rpartition(".")
    body = _Body()
    lines = list(body.message(name, members_of(contract), contract.description))
    head = ['syntax = "proto3";', *([f"package {package};"] if package else [])]
    return "\n".join([*head, *(f'import "{path}";' for path in sorted(body.imports)), "", *lines, ""])


@dataclass
class _Body:
    """Writes messages, and notes what they import."""

    imports: set[str] = field(default_factory=set[str])

    def message(self, name: str, members: Sequence[Member], description: str, indent: str = "") -> Iterator[str]:
        yield from _comment(description, indent)
        yield f"{indent}message {name} {{"
        taken, names = {member.name for member in members}, dict[str, str]()
        for member in members:
            if member.members:
                names[member.name] = unique(camel_case([member.name]), taken.__contains__)
                taken.add(names[member.name])
        inner = f"{indent}  "
        for member in members:
            yield from self._field(member, names.get(member.name), inner)
        for member in members:
            if member.members:
                yield from self.message(names[member.name], member.members, "", inner)
        yield f"{indent}}}"

    def _field(self, member: Member, message: str | None, indent: str) -> Iterator[str]:
        column = member.field.type if member.field else None
        items = column and column.item
        kind = (items or column).kind if column else ""
        of = message or _TYPES[kind]
        self.imports |= {_IMPORTS[of]} if message is None and of in _IMPORTS else set()
        note = _NOTES.get(kind, "") if message is None else ""
        yield from _comment("; ".join(filter(None, [member.description, note])), indent)
        always = member.required or message or of in _IMPORTS  # messages can always be missing
        label = "repeated " if items else "" if always else "optional "
        yield f"{indent}{label}{of} {member.name} = {number_of(member)};"


def _comment(text: str, indent: str) -> Iterator[str]:
    for line in text.splitlines():
        yield f"{indent}// {line}".rstrip()
