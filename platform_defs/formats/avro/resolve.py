"""The plan that leads bytes of a writer's messages to columns of a contract: made once for each schema, before a byte
is read.

The contract is the only reader schema. A field is found by its path (physicalName), else by its aliases in their order;
a part of a path is a field of a record, nullable or not. A field that the writer does not have is null, or refused if
the contract requires it. Avro's own defaults are not used: a value that no producer wrote is not invented.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from platform_defs.contract.model.contract import Contract, Field
from platform_defs.contract.model.message_path import MessagePath, spell_path
from platform_defs.formats.avro.conversions import Conversion, conversion_to
from platform_defs.formats.avro.parse_schema import NotAvro, parse_schema
from platform_defs.formats.avro.schema import AvroType, Record, Schema, spelled
from platform_defs.formats.blocks.excerpt import excerpt
from platform_defs.formats.blocks.writer_schema import OtherRecord, SchemaNotCompatible, WriterSchema


@dataclass(frozen=True)
class Target:
    """A column that a value leads to."""

    position: int  # in contract.fields
    conversion: Conversion


@dataclass(frozen=True)
class Node:
    """A value of the message, in the order of the bytes. Without targets and fields it is only passed."""

    path: str  # for people
    type: AvroType
    targets: tuple[Target, ...] = ()
    fields: tuple["Node", ...] | None = None  # of a record that is taken apart: all of its fields


@dataclass(frozen=True)
class Plan:
    """The mapping of messages of one schema to rows of one contract."""

    contract: Contract
    schema: Schema
    root: Node  # a record that is taken apart, or a union with such a record as `branch`
    branch: int | None  # of the root, if it is a union: the others are other records
    unknown: tuple[str, ...]  # the paths of the schema's fields that the contract does not know


def resolve(contract: Contract, writer: WriterSchema) -> Plan:
    """Return the plan. Raises SchemaNotCompatible with a reason for each field that does not fit, OtherRecord if the
    schema has another record than `contract.wire.record`.
    """
    try:
        schema = parse_schema(writer.document, writer.references)
    except NotAvro as wrong:
        raise SchemaNotCompatible([f"the schema cannot be read: {wrong}"]) from None
    record, branch = message_of(schema, contract.wire.record)
    wanted, reasons = _wanted(contract.fields, schema, record)
    if reasons:
        raise SchemaNotCompatible(reasons)
    root = Node("", schema.root, (), _fields((), record, wanted, schema))
    return Plan(contract, schema, root, branch, tuple(_unknown(root)))


def message_of(schema: Schema, wanted: str) -> tuple[Record, int | None]:
    """Return the record of a message, and the number of its branch if the schema is a union."""
    records = schema.records(schema.root)
    if not records:
        root = spelled(schema.definite(schema.root))
        raise SchemaNotCompatible([f"the schema is {root}; the contract requires a record"])
    fitting = [(n, found) for n, found in records if wanted in ("", found.name)]
    if not fitting:
        raise OtherRecord(", ".join(found.name for _, found in records))
    if len(fitting) > 1:
        names = ", ".join(found.name for _, found in fitting)
        raise SchemaNotCompatible(
            [f"the schema is a union of {names}: name one of them in the contract's record property"]
        )
    branch, found = fitting[0]
    return found, branch


@dataclass
class _Wanted:
    """The columns that the contract reads at a place of the writer's record and below it, by the writer's names."""

    targets: list[Target] = field(default_factory=list)
    below: dict[str, "_Wanted"] = field(default_factory=dict)

    def at(self, path: MessagePath) -> "_Wanted":
        """Return the entry at `path` from here; create it if it is missing."""
        found = self
        for name in path:
            found = found.below.setdefault(name, _Wanted())
        return found


def _wanted(fields: Sequence[Field], schema: Schema, record: Record) -> tuple[_Wanted, list[str]]:
    """Return the contract's fields by their place in the writer's record, and a reason for each that does not fit."""
    wanted, reasons = _Wanted(), list[str]()
    for position, item in enumerate(fields):
        found = _found(item, schema, record)
        if isinstance(found, str):
            reasons.append(f"{item.place} {found}")
        elif found is None and item.required:
            reasons.append(f"{item.place} is required by the contract; the schema has no such field")
        elif found is not None:
            path, conversion = found
            wanted.at(path).targets.append(Target(position, conversion))
    return wanted, reasons


def _found(item: Field, schema: Schema, record: Record) -> tuple[MessagePath, Conversion] | str | None:
    """Return the path and the conversion; None if the writer has no such field, a text if it does not fit."""
    blocked: str | None = None
    for path in (item.path, *item.aliases):
        of = _type_at(path, schema, record)
        if isinstance(of, str):
            blocked = blocked or of
        elif of is not None:
            conversion = conversion_to(item.type, of, schema, item.unit)
            return conversion if isinstance(conversion, str) else (path, conversion)
    return blocked


def _type_at(path: MessagePath, schema: Schema, record: Record) -> AvroType | str | None:
    """Return the type of the field at `path`; None if there is none, a text if something on the way is no record."""
    within = record
    for depth, name in enumerate(path, 1):
        of = within.types.get(name)
        if of is None or depth == len(path):
            return of
        inner, _ = schema.without_null(of)
        if not isinstance(inner, Record):
            found = spelled(schema.definite(of))
            return f"cannot be reached: {excerpt(spell_path(path[:depth]))} is {found}; the contract requires a record"
        within = inner
    raise AssertionError(path)


def _fields(path: MessagePath, record: Record, wanted: _Wanted, schema: Schema) -> tuple[Node, ...]:
    """Return all fields of the record at `path`, in their order."""
    return tuple(_node((*path, item.name), item.type, wanted.below.get(item.name), schema) for item in record.fields)


def _node(path: MessagePath, of: AvroType, wanted: _Wanted | None, schema: Schema) -> Node:
    name = spell_path(path)
    if wanted is None:
        return Node(name, of)
    record, _ = schema.without_null(of)
    fields = _fields(path, record, wanted, schema) if wanted.below and isinstance(record, Record) else None
    return Node(name, of, tuple(wanted.targets), fields)


def _unknown(node: Node) -> Iterator[str]:
    """Yield the fields that lead to no column. Within a value that has a column, none is unknown."""
    if node.fields is None and not node.targets:
        yield node.path
    for item in () if node.targets else node.fields or ():
        yield from _unknown(item)


def targets_of(node: Node) -> Iterator[Target]:
    """Yield all columns that the value, and the values in it, lead to."""
    yield from node.targets
    for item in node.fields or ():
        yield from targets_of(item)
