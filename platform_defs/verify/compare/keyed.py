"""Validation of an upsert's messages and keys by one contract: the newest valid message of each key in a chunk."""

from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute

from platform_defs.verify.compare.chunk_validator import ChunkValidator, ValidatedChunk
from platform_defs.verify.compare.newest import NOT_COMPARED, WHATEVER, Newest, Retyped
from platform_defs.verify.decoders.json_columns import canonical_columns, same_text
from platform_defs.verify.source.contract_versions import ContractVersions
from platform_defs.verify.source.messages import Chunk
from platform_defs.verify.source.partitions import Pinned
from platform_defs.verify.validators.key_validators import KeyValidator
from platform_defs.verify.validators.validator import NoRow, Row

pc = cast("Any", pyarrow.compute)  # in its stubs, what compares takes arrays of unknown types


@dataclass(frozen=True)
class Keyed:
    """The results of a chunk."""

    others: dict[int, NoRow]  # by place in the chunk, the reason for no row; without tombstones
    newest: list[tuple[str, Newest]]  # by key
    rows: int  # of these, that have a row


class KeyedValidator:
    """Validates messages and their keys by one contract, and converts them to table rows."""

    def __init__(
        self, versions: ContractVersions, pinned: Pinned, validator: ChunkValidator, keys: KeyValidator
    ) -> None:
        self._validator, self._keys, self._as_text = validator, keys, versions.as_text
        fields, now = [item.name for item in versions.contract(pinned.contract).message_fields], versions.now(pinned)
        self._places = {name: fields.index(column) for column, name in now.names.items()}
        self._known: dict[str, Any] = dict.fromkeys(now.left) | dict.fromkeys(now.not_compared, NOT_COMPARED)
        self._known |= {name: Retyped(what) for name, what in now.retyped.items()}
        self._schema = pa.schema(versions.columns)

    def validate(self, chunk: Chunk, dead: Container[int]) -> Keyed:
        """Validate all messages of a chunk; `dead` are offsets with dead letters, for which no row is expected."""
        keys = self._texts(chunk)
        unkeyed = {place: key for place, key in enumerate(keys) if isinstance(key, NoRow)}
        plain = not unkeyed and None not in chunk.values
        valued = (place for place, value in enumerate(chunk.values) if value is not None and place not in unkeyed)
        among = None if plain else [*valued]
        validated = self._validator.validate(chunk, among)
        others = unkeyed | validated.others
        kept: dict[Any, int] = {
            key: place
            for place, (key, offset) in enumerate(zip(keys, chunk.offsets, strict=True))
            if place not in others and offset not in dead
        }  # the last one of a key wins
        return Keyed(others, *self._newest(chunk, validated, kept))

    def _texts(self, chunk: Chunk) -> Sequence[str | NoRow]:
        """Return the chunk's keys as an upsert table stores them, or the reason why it cannot."""
        if type(self._keys) is KeyValidator and None not in chunk.keys:
            try:
                texts: Any = pa.array(chunk.keys, pa.binary()).cast(pa.string())
                if not pc.any(pc.match_substring(texts, "\0")).as_py():
                    return texts.to_pylist()
            except pa.ArrowInvalid:
                pass  # one of them is not UTF-8
        return [*map(self._keys.at, repeat(chunk.partition), chunk.offsets, chunk.keys, chunk.key_names)]

    def _newest(
        self, chunk: Chunk, validated: ValidatedChunk, kept: dict[str, int]
    ) -> tuple[list[tuple[str, Newest]], int]:
        row_of = np.full(len(chunk), -1, np.int64)
        row_of[validated.places] = np.arange(len(validated.places))
        rows = row_of[np.fromiter(kept.values(), np.int64, len(kept))]
        block = self._block(validated.rows.take(rows[rows >= 0]))
        found, at = list[tuple[str, Newest]](), 0
        for (key, place), row in zip(kept.items(), rows.tolist(), strict=True):
            if row < 0:
                found.append((key, Newest(chunk.partition, chunk.offsets[place], None)))
                continue
            if isinstance(block, list):
                found.append((key, Newest(chunk.partition, chunk.offsets[place], block[at])))
            else:
                found.append((key, Newest(chunk.partition, chunk.offsets[place], at, block)))
            at += 1
        return found, at

    def _block(self, fields: pa.Table) -> "pa.Table | list[Row]":
        """Return the table's rows for these messages: in columns, or one by one if a column was added or
        changed since.
        """
        names = self._schema.names
        if all(name in self._places for name in names):
            rows = fields.select([self._places[name] for name in names]).rename_columns(names)
            with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):  # an older contract's type may be another
                return canonical_columns(rows, self._as_text).cast(self._schema).combine_chunks()
        columns = (column.to_pylist() for column in fields.columns)
        return [tuple(map(self._value, names, repeat(row))) for row in zip(*columns, strict=True)]

    def _value(self, name: str, row: Row) -> Any:
        """Return a column of a table row: NULL if the contract no longer had it; added since, it matches any value."""
        if name not in self._places:
            return self._known.get(name, WHATEVER)
        value, kind = row[self._places[name]], self._as_text.get(name)
        return same_text(value, kind) if kind else value
