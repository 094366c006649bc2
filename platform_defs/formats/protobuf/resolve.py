"""The plan by which messages of a type become rows of a contract: made once, before a byte is read.

    contract        Protobuf
    string          string; an enum's name
    integer         any integer; one of uint64 or fixed64 if it fits
    double          double, float; an integer of 32 bits
    decimal(p,s)    string; google.type.Decimal; confluent.type.Decimal; any integer
    boolean         bool
    date            string (ISO 8601); google.type.Date
    timestamp       google.protobuf.Timestamp
    uuid, time      string
    bytes           bytes
    array<type>     repeated, of a type that its items are read from, except wrappers
    json            any field

A wrapper (google.protobuf.Int64Value and the like) is read as the type that it wraps. A decimal, date, uuid or time in
a string without presence (proto3 without `optional`) is null if the string is empty: that is how such a field is
missing. A field of the contract that the type does not have is null if that is allowed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.contract import Contract, Field
from platform_defs.contract.model.message_path import MessagePath, spell_path
from platform_defs.formats.blocks.writer_schema import SchemaNotCompatible
from platform_defs.formats.protobuf.shapes import KINDS, FieldShape, MessageShape, field_shape

Path = tuple[int, ...]  # the numbers of the fields that lead to a value, outermost first

_INTEGERS_32 = ("int32", "uint32", "sint32", "fixed32", "sfixed32")
_INTEGERS = (*_INTEGERS_32, "int64", "uint64", "sint64", "fixed64", "sfixed64")
_SCALARS: dict[str, dict[str, str]] = {  # by the contract's type: the recipe for each kind
    "string": {"string": "text", "enum": "enum_name"},
    "integer": dict.fromkeys(_INTEGERS, "integer"),
    "double": dict.fromkeys(("double", "float", *_INTEGERS_32), "double"),
    "decimal": {"string": "decimal_text", **dict.fromkeys(_INTEGERS, "decimal_integer")},
    "boolean": {"bool": "boolean"},
    "date": {"string": "date_text"},
    "uuid": {"string": "spelled_text"},
    "time": {"string": "spelled_text"},
    "bytes": {"bytes": "bytes"},
}
_MESSAGES: dict[str, dict[str, str]] = {
    "decimal": {"google.type.Decimal": "decimal_message", "confluent.type.Decimal": "decimal_bytes"},
    "date": {"google.type.Date": "date_parts"},
    "timestamp": {"google.protobuf.Timestamp": "timestamp"},
}
_PARTS = {  # the kinds of the fields 1, 2, ... that a message must have to be what its name says
    "google.type.Decimal": ("string",),
    "confluent.type.Decimal": ("bytes", "uint32", "int32"),
    "google.type.Date": ("int32", "int32", "int32"),
    "google.protobuf.Timestamp": ("int64", "int32"),
}
WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


@dataclass(frozen=True)
class ColumnPlan:
    """The plan of a column: `recipe`, applied to the values at the ends of `parts`. Recipe `missing`: always null."""

    item: Field
    recipe: str
    parts: tuple[Path, ...] = ()
    shape: FieldShape | None = None  # of the value at the end of the first part
    items: "ColumnPlan | None" = None  # of an array: the plan of each item; its parts begin within the item

    @property
    def is_whole(self) -> bool:
        """True if the column takes all that the message has of a field."""
        return self.recipe in ("json", "array")

    @property
    def is_message(self) -> bool:
        """True if the value is a message of its own, whose parts have defaults."""
        return self.recipe in ("decimal_message", "decimal_bytes", "date_parts", "timestamp")

    @property
    def empty_is_null(self) -> bool:
        """True if an empty text is null: the field cannot be missing, and its type has no empty value."""
        implicit = self.shape is not None and not self.shape.explicit
        return implicit and self.recipe in ("decimal_text", "date_text", "spelled_text")


@dataclass(frozen=True)
class Program:
    """The plan by which messages of one type become rows."""

    shape: MessageShape  # the fields that are read
    columns: tuple[ColumnPlan, ...]  # in the order of the contract


def resolve(of: Descriptor, contract: Contract) -> Program:
    """Return the program for messages of the type `of` and rows of `contract`. Raises SchemaNotCompatible, with a
    reason for each field that cannot be read.
    """
    picked, columns, reasons = _Picked(of), list[ColumnPlan](), list[str]()
    for item in contract.fields:
        try:
            columns.append(_column(of, item, picked))
        except _DoesNotFitError as why:
            reasons.append(f"{item.place} {why}")
    if reasons:
        raise SchemaNotCompatible(reasons)
    return Program(picked.shape(), tuple(columns))


class _DoesNotFitError(Exception):
    """The reason why a field cannot be read."""


def _column(of: Descriptor, item: Field, picked: "_Picked") -> ColumnPlan:
    fields = next(filter(None, (_along(of, path, item.number) for path in (item.path, *item.aliases))), None)
    if fields is None:
        if item.required:
            raise _DoesNotFitError(f"is required, but {of.full_name} does not have it")
        return ColumnPlan(item, "missing")
    if item.type.kind == "json":
        return _planned(item, "json", picked, [fields], whole=True)
    if item.type.item:
        items = _items(of, item, item.type.item, fields[-1])
        return replace(_planned(item, "array", picked, [fields], whole=True), items=items)
    _refuse_repeated(fields[-1], item)
    message = fields[-1].message_type
    if message is not None and message.full_name in WRAPPERS and (wrapped := message.fields_by_number.get(1)):
        fields, message = [*fields, wrapped], wrapped.message_type
        _refuse_repeated(wrapped, item)
    if found := _recipe(item.type, fields[-1]):
        recipe, parts = found
        return _planned(item, recipe, picked, [[*fields, part] for part in parts] if parts else [fields])
    raise _DoesNotFitError(f"is {type_name(fields[-1])} in {of.full_name}, which cannot be read as {item.type.name}")


def _recipe(of: ColumnType, found: FieldDescriptor) -> tuple[str, list[FieldDescriptor]] | None:
    """Return the recipe of a value, and the parts of its message, if it is one; None if the types do not match."""
    message = found.message_type
    if message is None:
        recipe = _SCALARS.get(of.kind, {}).get(KINDS[found.type])
        return (recipe, []) if recipe else None
    recipe = _MESSAGES.get(of.kind, {}).get(message.full_name)
    if recipe is None or not is_genuine(message):
        return None
    return recipe, [message.fields_by_number[n + 1] for n in range(len(_PARTS[message.full_name]))]


def _items(of: Descriptor, item: Field, type_of_items: ColumnType, found: FieldDescriptor) -> ColumnPlan:
    read = _recipe(type_of_items, found) if found.is_repeated else None
    if read is None:
        raise _DoesNotFitError(f"is {type_name(found)} in {of.full_name}, which cannot be read as {item.type.name}")
    recipe, parts = read
    shape = field_shape(parts[0]) if parts else field_shape(found)
    return ColumnPlan(replace(item, type=type_of_items), recipe, tuple((part.number,) for part in parts), shape)


def _planned(
    item: Field, recipe: str, picked: "_Picked", parts: Sequence[Sequence[FieldDescriptor]], *, whole: bool = False
) -> ColumnPlan:
    for fields in parts:
        picked.add(fields, whole=whole)
    paths = tuple(tuple(part.number for part in fields) for fields in parts)
    return ColumnPlan(item, recipe, paths, field_shape(parts[0][-1]))


def _along(of: Descriptor, path: MessagePath, number: int | None) -> list[FieldDescriptor] | None:
    """Return the fields on the path, the last one by its number if given; None if the type has no such field."""
    fields = list[FieldDescriptor]()
    for depth, name in enumerate(path, 1):
        found = field_at(of, name, number if depth == len(path) else None)
        if found is None:
            return None
        fields.append(found)
        if depth < len(path):
            if found.message_type is None or found.is_repeated:
                where = spell_path(path[:depth])
                raise _DoesNotFitError(f"cannot be reached: {where} is {type_name(found)}, not one message")
            of = found.message_type
    return fields


def field_at(of: Descriptor, name: str, number: int | None) -> FieldDescriptor | None:
    """Return the field of this number, if given; else of this name, in the schema or in JSON. None if there is none."""
    if number:
        return of.fields_by_number.get(number)
    return of.fields_by_name.get(name) or next((found for found in of.fields if found.json_name == name), None)


def _refuse_repeated(found: FieldDescriptor, item: Field) -> None:
    if found.is_repeated:
        raise _DoesNotFitError(f"is {type_name(found)}, but the contract requires a single {item.type.name}")


def is_genuine(message: Descriptor) -> bool:
    """Return True if the message has the fields that its name promises, if it promises any."""
    wanted = _PARTS.get(message.full_name, ())
    parts = (message.fields_by_number.get(n) for n in range(1, len(wanted) + 1))
    return wanted == tuple(KINDS[part.type] if part is not None and not part.is_repeated else "" for part in parts)


def type_name(found: FieldDescriptor) -> str:
    of = found.message_type or found.enum_type
    if found.message_type is not None and found.message_type.GetOptions().map_entry:
        return "a map"
    return f"{'repeated ' if found.is_repeated else ''}{of.full_name if of else KINDS[found.type]}"


@dataclass
class _Picked:
    """The fields of a message type that are read; `shape` makes its shape from them."""

    of: Descriptor
    below: dict[int, "_Picked | None"] = field(default_factory=dict[int, "_Picked | None"])
    whole: set[int] = field(default_factory=set[int])

    def add(self, fields: Sequence[FieldDescriptor], *, whole: bool) -> None:
        number, message = fields[0].number, fields[0].message_type
        below = self.below.setdefault(number, None if message is None else _Picked(message))
        if len(fields) == 1:
            self.whole |= {number} if whole else set()
        elif below is not None:
            below.add(fields[1:], whole=whole)

    def shape(self) -> MessageShape:
        chosen = dict[int, FieldShape]()
        for number, below in sorted(self.below.items()):
            message = None if below is None or number in self.whole else below.shape()
            chosen[number] = field_shape(self.of.fields_by_number[number], message)
        oneofs = {found.oneof for found in chosen.values()} - {""}
        rivals = [field_shape(other, wanted=False) for other in self.of.fields if other.number not in chosen]
        chosen.update({one.number: one for one in rivals if one.oneof in oneofs})  # only the last member counts
        return MessageShape(self.of, chosen)
