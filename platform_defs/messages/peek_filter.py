"""The filter of `tidegate peek`: it decodes and checks a block of messages by the contract, selects and masks them.

A message becomes a Python object only if it is shown.
"""

import os
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from platform_defs.contract.model.classified import HIDDEN, NOT_SHOWN, classified
from platform_defs.contract.model.contract import Fault
from platform_defs.contract.redaction import redacted
from platform_defs.engine.task.decoding import BlockDecoder
from platform_defs.formats.blocks.arrow import Column, columns_of, int64s, nulls, record_batch, repeated
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.blocks.block import TIMESTAMP_TYPES, YEARS, Block, headers_of, in_parts, timestamp_ms
from platform_defs.messages.chosen_topic import ChosenTopic
from platform_defs.messages.peeked_message import Content, PeekedMessage
from platform_defs.settings.imports import require

if TYPE_CHECKING:
    from platform_defs.messages.message_filter import Where

_OWN: Mapping[str, pa.DataType] = {
    "_key": pa.string(),
    "_partition": pa.int32(),
    "_offset": pa.int64(),
    "_timestamp": pa.timestamp("ms", "UTC"),
    "_size": pa.int64(),
}
_OF_CONTRACT: Mapping[str, pa.DataType] = {"_error": pa.string()}
_WITHOUT: Mapping[str, pa.DataType] = {"_value": pa.string()}


@dataclass(frozen=True)
class _Decoded:
    """A block's messages by index: `row_of` is each message's row, -1 if it has none."""

    rows: pa.RecordBatch
    row_of: Any  # numpy, int64
    faults: Mapping[int, Fault]
    candidates: Any  # numpy, int64: of the messages with the wanted key
    keys: Column | None = None  # as text, if a contract decodes them


@dataclass
class PeekFilter:
    """The selection of one topic's messages. Raises BadInput for a `where` that is no expression over the topic's
    columns.
    """

    chosen: ChosenTopic
    decoder: BlockDecoder | None  # None: there is no contract
    key: str | None = None  # only messages with this key
    where: str | None = None  # only messages for which this SQL expression is true

    def __post_init__(self) -> None:
        contract = self.contract = self.chosen.contract
        self._is_upsert = contract is not None and contract.row_table.disposition == "upsert"
        self._fields = contract.message_schema if contract else pa.schema([])
        self._classified = self.chosen.classified | (classified(contract).fields if contract else frozenset[str]())
        self._open = [name for name in self._fields.names if name not in self._classified]
        self._own = {**_OWN, **(_OF_CONTRACT if contract else _WITHOUT)}
        hidden = self._classified
        if self.chosen.hides:
            hidden |= {"_key"}
            del self._own["_key"]
        kinds = zip(self._fields.names, self._fields.types, strict=True)
        self._columns = pa.schema([*((n, kind) for n, kind in kinds if n not in hidden), *self._own.items()])
        why = "may hold classified values, which --where cannot filter by"
        self._where = None if self.where is None else _where(self.where, self._columns, hidden, why)

    @property
    def selects(self) -> bool:
        """True if some messages are left out."""
        return self.key is not None or self.where is not None

    def matching(self, partition: int, block: Block, most: int | None) -> list[PeekedMessage]:
        """Return the first `most` messages of a block that match, all if None, by offset."""
        found = list[PeekedMessage]()
        for part, decoded in in_parts(block, partial(self._decode, partition)):
            indexes = decoded.candidates
            if self._where is not None:
                places = self._where.places(self._frame(self._where, partition, part, decoded))
                indexes = np.intersect1d(indexes, np.asarray(places), assume_unique=True)  # both ascend
            left = None if most is None else most - len(found)
            found += self._shown(partition, part, decoded, [int(index) for index in indexes[:left]])
        return found

    def _decode(self, partition: int, block: Block) -> _Decoded:
        """Decode and check the messages that have the wanted key, as a run does."""
        count = len(block.values)
        keys = None  # bytes, unless rows depend on them or a schema encodes them
        if self.decoder and self.contract and (self._is_upsert or self.contract.wire.key_format != "text"):
            keys = self.decoder.keys(partition, block)
        wanted = np.ones(count, np.bool_)
        if self.key is not None:
            known = keys.texts.cast(pa.binary()) if keys else block.keys
            wanted = np.asarray(pc.fill_null(pc.equal(known, os.fsencode(self.key)), False))
        candidates = np.flatnonzero(wanted)
        if self.contract is None or self.decoder is None:
            return _Decoded(_NOTHING, np.full(count, -1), {}, candidates)
        faults = {fault.index: fault for fault in keys.faults} if keys and self._is_upsert else {}
        if self._is_upsert:  # a tombstone has no fields, and a message without a usable key no row
            wanted = wanted & np.asarray(block.values.is_valid())
            wanted[list(faults)] = False
        places = np.flatnonzero(wanted)
        whole = len(places) == count
        checked = self.decoder.rows(partition, block, None if whole else int64s(places), keys).decoded
        faults |= {int(places[one.index]): replace(one, index=int(places[one.index])) for one in checked.faults}
        row_of = np.full(count, -1)
        row_of[places[np.asarray(checked.indexes)]] = np.arange(checked.rows.num_rows)
        return _Decoded(checked.rows, row_of, faults, candidates, keys and keys.texts)

    def _frame(self, where: "Where", partition: int, block: Block, decoded: _Decoded) -> pa.RecordBatch:
        """Return the columns that the expression may name, with a row for each message of the block. Tidegate's own
        columns are null if it does not name them: making them takes a fifth of the time.
        """
        row_of = np.asarray(decoded.row_of, np.int64)
        at: Any = pa.array(row_of, mask=row_of < 0)
        whole = decoded.rows.num_rows == len(block.values)
        columns = [column if whole else column.take(at) for column in columns_of(decoded.rows.select(self._open))]
        for name, kind in self._own.items():
            used = where.uses(name)
            columns.append(self._own_column(name, partition, block, decoded) if used else nulls(kind, len(row_of)))
        return record_batch(columns, self._columns)

    def _own_column(self, name: str, partition: int, block: Block, decoded: _Decoded) -> Column:
        count = len(block.values)
        match name:
            case "_key":
                return _texts(block.keys) if decoded.keys is None else decoded.keys
            case "_partition":
                return repeated(partition, pa.int32(), count)
            case "_offset":
                offsets = block.offsets
                return int64s(np.arange(offsets.start, offsets.stop)) if isinstance(offsets, range) else offsets
            case "_timestamp":
                times = (timestamp_ms(kind, at) for kind, at in block.timestamps())
                in_years = [None if at is None or not YEARS[0] <= at <= YEARS[1] else at for at in times]
                return pa.array(in_years, pa.int64()).cast(pa.timestamp("ms", "UTC"))
            case "_size":
                return pc.binary_length(block.values).cast(pa.int64())
            case "_error":
                classes = {index: fault.error_class for index, fault in decoded.faults.items()}
                if not classes:
                    return nulls(pa.string(), count)
                return pa.array([classes.get(index) for index in range(count)], pa.string())
            case _:
                return _texts(block.values)

    def _shown(self, partition: int, block: Block, decoded: _Decoded, indexes: Sequence[int]) -> list[PeekedMessage]:
        """Return the messages of these indexes as they may be shown."""
        with_rows = [index for index in indexes if decoded.row_of[index] >= 0]
        if not with_rows:
            return [self._message(partition, block, index, decoded, None) for index in indexes]
        rows = decoded.rows.take(pa.array([int(decoded.row_of[index]) for index in with_rows], pa.int64()))
        masked = dict.fromkeys(self._fields.names, HIDDEN)
        nothing: list[dict[str, Any]] = [{}] * len(with_rows)
        open_values = rows.select(self._open).to_pylist() if self._open else nothing
        fields = {index: masked | values for index, values in zip(with_rows, open_values, strict=True)}
        return [self._message(partition, block, index, decoded, fields.get(index)) for index in indexes]

    def _message(
        self, partition: int, block: Block, index: int, decoded: _Decoded, fields: Mapping[str, Any] | None
    ) -> PeekedMessage:
        message, hides = block.message(index), self.chosen.hides
        kind, time = message.timestamp()
        key = Content.of(message.key(), hides=hides)
        if key is not None and decoded.keys is not None and not hides:
            key = replace(key, text=decoded.keys[index].as_py())
        fault = decoded.faults.get(index)
        value = message.value()
        is_decoded = self.contract is not None and fault is None
        deletes = value is None and self._is_upsert
        return PeekedMessage(
            partition=partition,
            offset=message.offset(),
            timestamp_ms=timestamp_ms(kind, time),
            timestamp_type=TIMESTAMP_TYPES.get(kind),
            key=key,
            headers=tuple((name, Content.of(content, hides=hides)) for name, content in headers_of(message)),
            value=Content.of(value, hides=hides or is_decoded),
            fields=fields,
            fault=fault and self._masked(fault),
            other_record=is_decoded and fields is None and not deletes,
        )

    def _masked(self, fault: Fault) -> Fault:
        """Return the fault without values that must not be shown."""
        if self.contract is None:
            return fault
        (found,) = redacted(self.contract, [fault])
        own = classified(self.contract)
        if self.chosen.hides and (not own.any or self._classified - own.fields):  # by another contract of the topic
            return replace(found, message=f"the reason {NOT_SHOWN}")
        return found


def _where(expression: str, schema: pa.Schema, hidden: Set[str], why: str) -> "Where":
    require("duckdb", "peek", "leave out --where")
    from platform_defs.messages.message_filter import Where  # DuckDB takes its time to load

    return Where(expression, schema, hidden, why)


_NOTHING = pa.RecordBatch.from_pylist([], schema=pa.schema([]))


def _texts(values: pa.BinaryArray) -> Column:
    """Return the values as text, null if not UTF-8."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        contents = (Content.of(value) for value in values.to_pylist())
        return pa.array([content and content.text for content in contents], pa.string())
