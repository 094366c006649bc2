"""Messages of an upsert and their keys, judged by one contract: the newest valid one of each key in a chunk."""

from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute

from platform_defs.verification.compare.judged import ChunkJudge, Judged
from platform_defs.verification.compare.newest import NOT_COMPARED, WHATEVER, Newest, Retyped
from platform_defs.verification.formats.json_columns import canonical_columns, same_text
from platform_defs.verification.judge.judge import NoRow, Row
from platform_defs.verification.judge.key_judges import KeyJudge
from platform_defs.verification.source.eras import Eras
from platform_defs.verification.source.messages import Chunk
from platform_defs.verification.source.pins import Pinned

pc = cast("Any", pyarrow.compute)  # in its stubs, what compares takes arrays of unknown types


@dataclass(frozen=True)
class Keyed:
    """What is known of a chunk."""

    others: dict[int, NoRow]  # by place in the chunk, why messages are no rows; a tombstone is not among them
    newest: list[tuple[str, Newest]]  # by key
    rows: int  # that these hold


class KeyedJudge:
    """Judges messages and their keys by one contract, and makes the table's rows of them."""

    def __init__(self, eras: Eras, pinned: Pinned, judge: ChunkJudge, keys: KeyJudge) -> None:
        self._judge, self._keys, self._as_text = judge, keys, eras.as_text
        fields, now = [item.name for item in eras.contract(pinned.contract).message_fields], eras.now(pinned)
        self._places = {name: fields.index(column) for column, name in now.names.items()}
        self._known: dict[str, Any] = dict.fromkeys(now.left) | dict.fromkeys(now.not_compared, NOT_COMPARED)
        self._known |= {name: Retyped(what) for name, what in now.retyped.items()}
        self._schema = pa.schema(eras.columns)

    def judged(self, chunk: Chunk, dead: Container[int]) -> Keyed:
        """All messages of a chunk; `dead` are offsets that have dead letters, of which no row is due."""
        keys = self._texts(chunk)
        unkeyed = {place: key for place, key in enumerate(keys) if isinstance(key, NoRow)}
        plain = not unkeyed and None not in chunk.values
        valued = (place for place, value in enumerate(chunk.values) if value is not None and place not in unkeyed)
        among = None if plain else [*valued]
        judged = self._judge.judged(chunk, among)
        others = unkeyed | judged.others
        kept: dict[Any, int] = {
            key: place
            for place, (key, offset) in enumerate(zip(keys, chunk.offsets, strict=True))
            if place not in others and offset not in dead
        }  # the last one of a key is the one that stays
        return Keyed(others, *self._newest(chunk, judged, kept))

    def _texts(self, chunk: Chunk) -> Sequence[str | NoRow]:
        """The chunk's keys as an upsert table stores them, or why it cannot."""
        if type(self._keys) is KeyJudge and None not in chunk.keys:
            try:
                texts: Any = pa.array(chunk.keys, pa.binary()).cast(pa.string())
                if not pc.any(pc.match_substring(texts, "\0")).as_py():
                    return texts.to_pylist()
            except pa.ArrowInvalid:
                pass  # one of them is not UTF-8
        return [*map(self._keys.at, repeat(chunk.partition), chunk.offsets, chunk.keys, chunk.key_names)]

    def _newest(self, chunk: Chunk, judged: Judged, kept: dict[str, int]) -> tuple[list[tuple[str, Newest]], int]:
        row_of = np.full(len(chunk), -1, np.int64)
        row_of[judged.places] = np.arange(len(judged.places))
        rows = row_of[np.fromiter(kept.values(), np.int64, len(kept))]
        block = self._block(judged.rows.take(rows[rows >= 0]))
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
        """The table's rows of these messages: in columns, or one by one where a column has come since, or changed."""
        names = self._schema.names
        if all(name in self._places for name in names):
            rows = fields.select([self._places[name] for name in names]).rename_columns(names)
            with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):  # an older contract's type may be another
                return canonical_columns(rows, self._as_text).cast(self._schema).combine_chunks()
        columns = (column.to_pylist() for column in fields.columns)
        return [self._table_row(row) for row in zip(*columns, strict=True)]

    def _table_row(self, row: Row) -> Row:
        """The table's columns. One that an older contract left is NULL; of one that has come since, whatever the table
        holds is right.
        """
        return tuple(map(self._value, self._schema.names, repeat(row)))

    def _value(self, name: str, row: Row) -> Any:
        if name not in self._places:
            return self._known.get(name, WHATEVER)
        value, kind = row[self._places[name]], self._as_text.get(name)
        return same_text(value, kind) if kind else value
