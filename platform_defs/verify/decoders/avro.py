"""Validation of an Avro message by its contract, in plain Python: the values of its fields, or the reason for none.

Written for verify alone, from Avro's specification (https://avro.apache.org/docs/1.12.0/specification/), and
deliberately not shared with the engine. The whole message is read by its writer's schema first; then the contract's
fields are looked up in the result, in their order.
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.contract import Contract, Field, Unit
from platform_defs.verify.decoders.avro_schema import WriterTypes
from platform_defs.verify.decoders.avro_types import Array, DocumentSize, Record, Tape, Type, Union
from platform_defs.verify.decoders.avro_values import LARGEST_SCALE, day, moment, unscaled
from platform_defs.verify.decoders.documents import NotTheType, jsonb_text, stored_text
from platform_defs.verify.decoders.values import decimal_of, finite, items_of, ticks_after_1970, time_text, uuid_text

_UNITS = {"timestamp-millis": "ms", "timestamp-micros": "us", "timestamp-nanos": "ns"}


class AvroValidator:
    """Validates payloads (the message without its framing) of one writer's schema by one contract."""

    def __init__(self, contract: Contract, document: str, references: Iterable[tuple[str, str]] = ()) -> None:
        """Read the schema. document and references: its JSON text and, by name, those of the schemas that it needs, in
        order. Raises NotTheType: SchemaNotCompatible, OtherRecord.
        """
        schema = WriterTypes()
        for _, text_of_reference in references:
            schema.read(text_of_reference)
        self._type = schema.read(document)
        self._record = _record_of(self._type, contract.wire.record)
        self._fields = [_FieldValidator(item, self._record) for item in contract.fields]

    def values(self, payload: bytes) -> list[Any]:
        """Return a value for each of the contract's fields, None if missing or null. Raises NotTheType with the
        reason.
        """
        tape = Tape(payload)
        if isinstance(self._type, Union) and self._type.branch(tape) is not self._record:
            raise NotTheType("OtherRecord")
        held = self._record.read(tape)
        if tape.left:
            raise NotTheType("TrailingBytes")
        return [field.value(held, self._record) for field in self._fields]


def _record_of(of: Type, wanted: str) -> Record:
    branches = of.branches if isinstance(of, Union) else [of]
    records = [branch for branch in branches if isinstance(branch, Record)]
    named = [record for record in records if record.name == wanted or not wanted]
    if records and not named:
        raise NotTheType("OtherRecord")
    if len(named) != 1:
        raise NotTheType("SchemaNotCompatible")
    return named[0]


class _FieldValidator:
    """A field of the contract: its place in the writer's record, and the conversion of its value."""

    def __init__(self, field: Field, record: Record) -> None:
        found = [(path, _look(record, path)) for path in (field.path, *field.aliases)]
        known = [(path, of) for path, of in found if isinstance(of, Type)]
        if not known and (field.required or any(of == BLOCKED for _, of in found)):
            raise NotTheType("SchemaNotCompatible")
        self._path = known[0][0] if known else None
        self._take = _taker(field.type, known[0][1], field.unit) if known else None

    def value(self, held: Mapping[str, Any], record: Record) -> Any:
        """Return the value of the field in a message; None if it is missing or null."""
        if self._path is None or self._take is None:
            return None
        of: Type = record
        value: Any = held
        for name in self._path:
            assert isinstance(of, Record)  # noqa: S101  # _look has found the path
            of, value = of.fields[name], None if value is None else value[name]  # None: a record without a byte
            if isinstance(of, Union):
                of, value = value
            if of.kind == "null":
                return None
        return self._take(of, value)


BLOCKED = "blocked"
Take = Callable[[Type, Any], Any]


def _look(record: Record, path: Iterable[str]) -> Type | str | None:
    """Return the type at the end of the path; None if a field is missing, BLOCKED if one on the way is not a record."""
    of: Type = record
    for name in path:
        inner = _not_null(of)
        if not isinstance(inner, Record):
            return BLOCKED
        if name not in inner.fields:
            return None
        of = inner.fields[name]
    return of


def _not_null(of: Type) -> Type:
    """Return the one branch of a union that is not null; any other type unchanged."""
    others = [branch for branch in of.branches if branch.kind != "null"] if isinstance(of, Union) else []
    return others[0] if len(others) == 1 else of


def _taker(column: ColumnType, of: Type, unit: Unit | None = None) -> Take:
    """Return the function that converts a value of the type to the column's. `unit`: of a timestamp without a logical
    type.
    """
    if column.kind == "json":
        return _json
    held = _not_null(of)
    if column.item:
        return _items(column.item, held)
    if unit and held.kind in ("int", "long") and not held.logical:
        return lambda _, value: ticks_after_1970(value, unit)
    kind = held.logical or held.kind
    if column.kind == "decimal" and kind in ("decimal", "int", "long") and held.scale <= LARGEST_SCALE:
        return _decimals(column)
    found = _TAKERS.get(column.kind, {}).get(kind)
    if found is None or (column.kind == "string" and held.kind == "fixed"):  # a uuid in sixteen bytes is no text
        raise NotTheType("SchemaNotCompatible")
    return found


def _items(column: ColumnType, of: Type) -> Take:
    if not isinstance(of, Array) or of.item.takes_no_byte:
        raise NotTheType("SchemaNotCompatible")
    take, item = _taker(column, of.item), of.item

    def one(value: Any) -> Any:
        return take(*value) if isinstance(item, Union) else take(item, value)

    def values(_: Type, value: Any) -> list[Any]:
        inside = [None if isinstance(item, Union) and held[0].kind == "null" else held for held in value]
        return items_of(inside, one)

    return values


def _json(of: Type, value: Any) -> str:
    return jsonb_text(of.json(value, DocumentSize()))


def _uuid(of: Type, value: bytes) -> str:
    return str(UUID(bytes=value)) if of.kind == "fixed" else uuid_text(stored_text(value))


def _same(_: Type, value: Any) -> Any:
    return value


def _decimals(column: ColumnType) -> Take:
    def take(of: Type, value: Any) -> Decimal:
        return decimal_of(value if isinstance(value, int) else unscaled(value or b""), of.scale, column)

    return take


_TAKERS: dict[str, dict[str, Take]] = {  # by the column's type, and the schema's: logical, if it has one
    "string": {**dict.fromkeys(("string", "uuid"), lambda _, value: stored_text(value)), "enum": _same},
    "integer": dict.fromkeys(("int", "long"), _same),
    "double": dict.fromkeys(("double", "float", "int"), lambda _, value: finite(value)),
    "boolean": {"boolean": _same},
    "date": {"date": lambda _, value: day(value)},
    "uuid": dict.fromkeys(("string", "uuid"), _uuid),
    "bytes": dict.fromkeys(("bytes", "fixed"), lambda _, value: value or b""),
    "time": dict.fromkeys(("time-millis", "time-micros"), lambda of, value: time_text(moment(value, of.logical))),
    "timestamp": dict.fromkeys(_UNITS, lambda of, value: ticks_after_1970(value, _UNITS[of.logical])),
}
