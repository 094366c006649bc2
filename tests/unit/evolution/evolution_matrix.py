"""Changes of a writer's schema, and what each does to a contract's rows.

Each change names the row or dead letter that a message of the new schema becomes, the changes of the table if the
contract follows, and the registry's answer. A registry may accept what is refused here, and the reverse: it compares
schemas with each other, and this compares each with the table's types. The changes are in changes_avro.py,
changes_protobuf.py and changes_json.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Column, Contract, Field, Format, RowRule, Table, WireFormat
from platform_defs.contract.model.message_path import parse_path

Said = Literal["FULL", "BACKWARD", "FORWARD", "NONE"]  # the strictest level at which a registry takes the new version
NEVER = "SchemaNotCompatible"  # found once for the schema, before a byte is decoded
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """One change of a writer's schema."""

    name: str
    format: Format
    schemas: tuple[str, str]  # before, after
    payloads: Callable[[], tuple[bytes, bytes]]  # makes a message of each; Protobuf's need the compiler
    contract: Contract
    becomes: Row | str  # the second message's row, or the class of its dead letter
    registry: Said
    ddl: tuple[str, ...] = ()  # what the table needs if the contract follows; "replay: " if rows are rebuilt
    followed: Contract | None = None  # the contract that follows; None: it may stay as it is


@dataclass(frozen=True)
class Wanted:
    """The contract's side of a change: its columns besides id."""

    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    required: tuple[str, ...] = ()
    enum: tuple[str, ...] = ()  # values of the column a
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    record: str = ""
    paths: Mapping[str, str] = field(default_factory=dict[str, str])

    def contract(self, kind: Format) -> Contract:
        fields = tuple(self._field(name, of) for name, of in {"id": "string", **self.columns}.items())
        columns = tuple(Column(item.name, item.type, item.required) for item in fields)
        wire = WireFormat(record=self.record)
        return Contract("p", "1", "d", "", "t", kind, fields, (Table("s.rows", "append", columns),), wire=wire)

    def _field(self, name: str, of: str) -> Field:
        rules = list[RowRule]()
        if name in self.required:
            rules.append(RowRule(f"{name}_required", name, "required", None, ""))
        if name == "a" and self.enum:
            rules.append(RowRule("a_enum", "a", "enum", self.enum, ""))
        aliases = (parse_path(self.aliases[name]),) if name in self.aliases else ()
        path = parse_path(self.paths.get(name, name))
        return Field(name, column_type(of), name in self.required, tuple(rules), physical_path=path, aliases=aliases)


def text(of: str = "string", *, required: bool = False) -> Wanted:
    """Return the contract's side with one column, a."""
    return Wanted({"a": of}, ("a",) if required else ())


def change(
    kind: Format,
    name: str,
    schemas: tuple[str, str],
    payloads: Callable[[], tuple[bytes, bytes]],
    wanted: Wanted,
    becomes: Any,
    registry: Said,
    *ddl: str,
    follow: Wanted | None = None,
) -> Change:
    row = {"id": "1", **becomes} if isinstance(becomes, dict) else becomes
    after = follow.contract(kind) if follow else None
    return Change(f"{kind}: {name}", kind, schemas, payloads, wanted.contract(kind), row, registry, ddl, after)
