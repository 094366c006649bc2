"""Writes messages, given as JSON documents, in Avro, by any schema that fits their contract.

https://avro.apache.org/docs/1.12.0/specification/#data-serialization-and-deserialization
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from typing_extensions import override

from platform_defs.contract.model.message_path import MessagePath
from platform_defs.formats.avro.schema import AvroType, Fixed, Primitive, Record, RecordField, Union, spelled
from platform_defs.formats.encoding.avro import AvroEncoder
from platform_defs.formats.encoding.avro_scalars import long_bytes, scalar
from platform_defs.formats.encoding.documents import CannotEncode, shown
from platform_defs.samples.values_at import MISSING, ValuesAt

_EMPTY: tuple[Any, ...] = (None, [], {}, "", 0, False)


class AvroWriter(AvroEncoder):
    """Writes messages of one schema. Less strict than its base about values within a json column: the first branch of a
    union that takes one has it, and a record takes any members.
    """

    def payload(self, values: ValuesAt) -> bytes:
        """Return the message. Raises CannotEncode if a value does not fit the schema."""
        try:
            body = b"".join(self._fields(self.root, (), values))
        except RecursionError:
            raise CannotEncode("a record of the schema requires itself") from None
        return body if self.branch is None else long_bytes(self.branch) + body

    def _fields(self, record: Record, path: MessagePath, values: ValuesAt) -> Iterator[bytes]:
        for item in record.fields:
            yield self._field(item, (*path, item.name), values)

    def _field(self, item: RecordField, path: MessagePath, values: ValuesAt) -> bytes:
        found = values.at(path)
        if found is not MISSING:
            return self._value_or_empty(item.type, found, values.is_json(path))
        branch, record = next(iter(self.schema.records(item.type)), (None, None))
        if record is None or (branch is not None and not values.has_below(path)):
            return self._unread(item)
        body = b"".join(self._fields(record, path, values))
        return body if branch is None else long_bytes(branch) + body

    def _unread(self, item: RecordField) -> bytes:
        """Return a field that the contract does not read: its default, null, or the empty value of its type."""
        try:
            return self.missing(item)
        except CannotEncode:
            return self._empty(item.type)

    def _empty(self, of: AvroType) -> bytes:
        found = self.schema.definite(of)
        match found:
            case Union():
                return long_bytes(0) + self._empty(found.branches[0])
            case Record():
                return b"".join(map(self._unread, found.fields))
            case Primitive() | Fixed():
                return scalar(found, _empty_value(found))
            case _:  # no items; the first symbol
                return b"\0"

    def _value_or_empty(self, of: AvroType, value: Any, is_json: bool) -> bytes:
        """Return a value; for a json column, an empty one if the schema does not take it. Raises CannotEncode."""
        try:
            return self.value(of, value)
        except CannotEncode:
            if not is_json or value is None:
                raise
        for empty in _EMPTY:
            try:
                return self.value(of, empty)
            except CannotEncode:
                continue
        raise CannotEncode(f"{shown(value)} is not {spelled(self.schema.definite(of))}")

    @override
    def scalar(self, of: Primitive | Fixed, value: Any) -> bytes:
        return scalar(of, value, exact=False)

    @override
    def of_record(self, of: Record, members: Mapping[str, Any]) -> bytes:
        return b"".join(self.value(item.type, members.get(item.name)) for item in of.fields)

    @override
    def of_union(self, of: Union, value: Any) -> bytes:
        for number, branch in enumerate(of.branches):
            try:
                return long_bytes(number) + self.value(branch, value)
            except CannotEncode:
                continue
        raise CannotEncode(f"{shown(value)} does not fit {spelled(of)}")


def _empty_value(of: Primitive | Fixed) -> Any:
    """Return the empty value of a type, as `scalar` takes it."""
    logical = of.logical.name if of.logical else ""
    if logical == "uuid":
        return str(UUID(int=0))
    if isinstance(of, Fixed) and logical != "decimal":
        return base64.b64encode(bytes(of.size)).decode()
    if logical:
        return 0
    return {"null": None, "boolean": False, "string": "", "bytes": ""}.get(of.name, 0)
