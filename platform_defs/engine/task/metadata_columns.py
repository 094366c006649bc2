"""Columns of what a message has besides its value: its key, timestamp and headers, its place in the topic.

For contracts with fields that have a `source`; nothing here runs for others.
"""

import base64
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from platform_defs.contract.model.column_types import STRING
from platform_defs.contract.model.contract import Contract, Fault, Field
from platform_defs.contract.model.offered_columns import OFFERED
from platform_defs.engine.task.message_keys import KeyColumn
from platform_defs.formats.blocks.arrow import ArrowField, Column, columns_of, integers, record_batch, schema_of
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.blocks.block import (
    MAX_BYTES,
    TIMESTAMP_TYPES,
    YEARS,
    Block,
    Headers,
    last_header,
    timestamp_ms,
)
from platform_defs.formats.blocks.budget import BlockTooLarge
from platform_defs.formats.blocks.decoded import Decoded
from platform_defs.formats.blocks.reason import MISSING_KEY, Reason
from platform_defs.formats.json.json_text import json_text
from platform_defs.formats.json.values import JsonInteger, JsonNumber, JsonObject, reader_of, wrong_type
from platform_defs.times import EPOCH

Value = Any  # of the field's Python type, None, or a Reason

_number = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?").fullmatch  # as JSON writes one


def with_metadata(
    contract: Contract, partition: int, block: Block, keys: KeyColumn | None, at: pa.Int64Array, decoded: Decoded
) -> Decoded:
    """Return `decoded`, whose rows have the fields of the value, with the columns of `contract.metadata_fields` after
    them. A message whose metadata does not have a field's type becomes a fault of stage `decode`.

    `at`: the index of each row's message in the block. `keys`: needed if a field has the key as text. Raises
    BlockTooLarge for several messages whose columns Arrow could not hold.
    """
    places = integers(at)
    messages = _Messages(contract.topic, partition, block, keys, places)
    columns, faults = columns_of(decoded.rows), dict[int, Fault]()
    for item in contract.metadata_fields:
        values = messages.values(item)
        for row, value in enumerate(values):
            if isinstance(value, Reason):
                index = integers(decoded.indexes.slice(row, 1))[0]
                wrong = Fault(index, "decode", value.error_class, f"{item.place} {value.message}", item.name)
                faults.setdefault(row, wrong)
                values[row] = None
        _refuse_too_large([len(value) for value in values if isinstance(value, str | bytes)])
        columns.append(pa.array(values, item.type.arrow))
    own: list[ArrowField] = [pa.field(item.name, item.type.arrow) for item in contract.metadata_fields]
    found = replace(decoded, rows=record_batch(columns, schema_of(decoded.rows.schema, own)))
    if not faults:
        return found
    kept = np.ones(len(places), np.bool_)
    kept[list(faults)] = False
    mask = pa.array(kept)
    return replace(
        found,
        rows=found.rows.filter(mask),
        indexes=pc.filter(found.indexes, mask),
        faults=sorted([*found.faults, *faults.values()], key=lambda fault: fault.index),
    )


def with_offered(rows: pa.RecordBatch, block: Block, at: pa.Int64Array, names: Sequence[str]) -> pa.RecordBatch:
    """Return `rows` with these columns of OFFERED after them. `at`: as `with_metadata`.

    A time outside the years 1 to 9999, and headers that the client cannot read, are NULL. Raises BlockTooLarge for
    several messages whose headers Arrow could not hold.
    """
    columns = [*columns_of(rows), *(_offered(name, block, at) for name in names)]
    own: list[ArrowField] = [pa.field(name, OFFERED[name]) for name in names]
    return record_batch(columns, schema_of(rows.schema, own))


def _offered(name: str, block: Block, at: pa.Int64Array) -> Column:
    if name == "_key":
        return block.keys.take(at)
    places = integers(at)
    if name == "_timestamp":
        stamps = block.timestamps()
        times = (_timestamp(*stamps[place]) for place in places)
        return pa.array([None if isinstance(time, Reason) else time for time in times], OFFERED[name])
    headers = block.all_headers()
    chosen = [headers[place] for place in places]
    _refuse_too_large([sum(len(key) + len(value or b"") for key, value in one or ()) for one in chosen])
    lists = [None if one is None else [{"key": key, "value": value} for key, value in one] for one in chosen]
    return pa.array(lists, OFFERED[name])


def _refuse_too_large(sizes: Sequence[int]) -> None:
    """Raise BlockTooLarge for several messages with more bytes than a column of a block may have."""
    if len(sizes) > 1 and sum(sizes) > MAX_BYTES:
        raise BlockTooLarge


@dataclass(frozen=True)
class _Messages:
    """The messages of a block that are rows; `places` are their indexes in the block."""

    topic: str
    partition: int
    block: Block
    keys: KeyColumn | None
    places: Sequence[int]

    def values(self, item: Field) -> list[Value]:
        """Return the field's value for each message, or a Reason."""
        if item.header is not None:
            read = _header_reader(item)
            return [
                _NOT_READABLE if headers is None else read(last_header(headers, item.header))
                for headers in self._headers
            ]
        match item.source:
            case "key":
                if item.type.kind == "bytes":
                    return self.block.keys.take(pa.array(self.places, pa.int64())).to_pylist()
                return self._key_texts()
            case "timestamp":
                return [_timestamp(*stamp) for stamp in self._timestamps()]
            case "timestampType":
                return [TIMESTAMP_TYPES.get(kind) for kind, _ in self._timestamps()]
            case "headers":
                return [
                    _NOT_READABLE
                    if headers is None
                    else json_text([JsonObject([("name", name), *_header_value(value)]) for name, value in headers])
                    for headers in self._headers
                ]
            case "topic":
                return [self.topic] * len(self.places)
            case "partition":
                return [self.partition] * len(self.places)
            case _:  # offset
                offsets = self.block.offsets
                known = offsets if isinstance(offsets, range) else integers(offsets)
                return [known[place] for place in self.places]

    def _key_texts(self) -> list[Value]:
        assert self.keys is not None  # noqa: S101  # the caller has read them
        wrong = {
            fault.index: Reason(fault.error_class, f"cannot be read: {fault.message}")
            for fault in self.keys.faults
            if fault.error_class != MISSING_KEY[0]
        }
        texts = self.keys.texts.take(pa.array(self.places, pa.int64())).to_pylist()
        return [wrong.get(place, text) for place, text in zip(self.places, texts, strict=True)]

    def _timestamps(self) -> Iterable[tuple[int, int]]:
        stamps = self.block.timestamps()
        return (stamps[place] for place in self.places)

    @cached_property
    def _headers(self) -> list[Headers | None]:
        headers = self.block.all_headers()
        return [headers[place] for place in self.places]


_NOT_READABLE = Reason("InvalidUtf8", "cannot be read: the name of a message header is not UTF-8")


def _timestamp(kind: int, milliseconds: int) -> Value:
    if timestamp_ms(kind, milliseconds) is None:
        return None
    if not YEARS[0] <= milliseconds <= YEARS[1]:
        return Reason("OutOfRange", f"is {milliseconds} ms since the epoch, outside the years 1 to 9999")
    return EPOCH + timedelta(milliseconds=milliseconds)


def _header_value(value: bytes | None) -> list[tuple[str, Any]]:
    """Return the members of a header's JSON object next to its name; a value that is not text is base64, with an
    `encoding`.
    """
    if value is None:
        return [("value", None)]
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" not in text:
        return [("value", text)]
    return [("value", base64.b64encode(value).decode()), ("encoding", "base64")]


def _header_reader(item: Field) -> Callable[[bytes | None], Value]:
    """Return a function that reads the value of a header as the field's type: numbers and `true`, `false` as JSON
    writes them, the other types as in a JSON string.
    """
    kind = item.type.kind
    if kind == "bytes":
        return lambda value: value
    read = reader_of(STRING if kind == "string" else item.type)

    def of_text(value: bytes | None) -> Value:
        if value is None:
            return None
        try:
            text = value.decode()
        except UnicodeDecodeError as error:
            return Reason("InvalidUtf8", f"is not UTF-8: {error.reason} at byte {error.start}")
        if kind == "boolean":
            return {"true": True, "false": False}.get(text, wrong_type(text, "true or false"))
        if kind in ("integer", "double") and (found := _number(text)):
            return read(JsonNumber(text) if found[1] or found[2] else JsonInteger(text))
        return read(text)

    return of_text
