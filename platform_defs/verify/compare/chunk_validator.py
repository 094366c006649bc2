"""Validation of a chunk of messages: each is a row, or a reason. In blocks if the result is the same, else one
by one.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.offered_columns import OFFERED
from platform_defs.verify.compare.metadata import MetadataValidator, offered_value
from platform_defs.verify.source.messages import Chunk
from platform_defs.verify.source.spans import Offsets
from platform_defs.verify.validators.json_blocks import BlockReader
from platform_defs.verify.validators.validator import NoRow, Row, Validator


@dataclass(frozen=True)
class ValidatedChunk:
    """The results for messages with a value. Both are in the order of their places in the chunk."""

    rows: pa.Table  # of the fields, in the contract's order
    places: Offsets  # of the rows, in the chunk
    others: dict[int, NoRow]  # the reason at each place without a row


class ChunkValidator:
    """Validates the messages of one contract, many at once."""

    def __init__(
        self,
        contract: Contract,
        validator: Validator,
        metadata: MetadataValidator | None = None,
        offered: Collection[str] = (),
    ) -> None:
        """Set up validation. `metadata`: for a contract with fields of the message's metadata. `offered`: further
        columns of the rows, for a transform.
        """
        self._validator, self._metadata, self._offered = validator, metadata, offered
        self._blocks = BlockReader.of(contract)
        self._schema = pa.schema([(item.name, item.type.arrow) for item in contract.fields])
        self._metadata_schema = pa.schema([(item.name, item.type.arrow) for item in contract.metadata_fields])

    def validate(self, chunk: Chunk, among: Sequence[int] | None = None) -> ValidatedChunk:
        """Validate all messages of a chunk, or those at some of its places, ascending."""
        found = self._of_values(chunk, among)
        if self._metadata is not None:
            found = self._with_metadata(chunk, found, self._metadata)
        rows = found.rows
        for name in self._offered:
            values = [offered_value(name, chunk, place) for place in found.places.tolist()]
            rows = rows.append_column(name, pa.array(values, OFFERED[name]))
        return replace(found, rows=rows)

    def _with_metadata(self, chunk: Chunk, found: ValidatedChunk, metadata: MetadataValidator) -> ValidatedChunk:
        validated = [metadata.at(chunk, place) for place in found.places.tolist()]
        others = {
            place: row for place, row in zip(found.places.tolist(), validated, strict=True) if isinstance(row, NoRow)
        }
        kept = np.array([not isinstance(row, NoRow) for row in validated], np.bool_)
        table = found.rows.filter(pa.array(kept)) if others else found.rows
        metadata_rows = row_table(self._metadata_schema, [row for row in validated if not isinstance(row, NoRow)])
        for name, column in zip(self._metadata_schema.names, metadata_rows.columns, strict=True):
            table = table.append_column(name, column)
        return ValidatedChunk(table, found.places[kept], found.others | others)

    def _of_values(self, chunk: Chunk, among: Sequence[int] | None) -> ValidatedChunk:
        wanted = np.arange(len(chunk)) if among is None else np.array(among, np.int64)
        found, places = self._schema.empty_table(), np.array([], np.int64)
        if self._blocks is not None:
            values = chunk.values if among is None else [chunk.values[place] for place in among]
            found, chosen = self._blocks.read(values)
            places = wanted[chosen]
        if len(places) == len(wanted):
            return ValidatedChunk(found, places, {})
        rows, others = dict[int, Row](), dict[int, NoRow]()
        left: list[int] = np.setdiff1d(wanted, places, assume_unique=True).tolist()
        for place in left:
            row = self._validator.at(chunk.partition, chunk.offsets[place], chunk.values[place], chunk.names[place])
            if isinstance(row, NoRow):
                others[place] = row
            else:
                rows[place] = row
        together = pa.concat_tables([found, row_table(self._schema, [*rows.values()])])
        places = np.concatenate([places, np.array([*rows], np.int64)])
        order = np.argsort(places)
        return ValidatedChunk(together.take(order), places[order], others)


def row_table(schema: pa.Schema, rows: Sequence[Row]) -> pa.Table:
    """Return a table of rows, each with a value for each column."""
    columns: list[Any] = [*zip(*rows, strict=True)] or [[] for _ in schema.names]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
