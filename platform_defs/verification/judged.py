"""A chunk of messages, each of them a row or not and why: in blocks where that is the same, otherwise one by one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from platform_defs.contract.model import Contract
from platform_defs.verification.json_blocks import BlockReader
from platform_defs.verification.judge import Judge, NoRow, Row
from platform_defs.verification.messages import Chunk
from platform_defs.verification.spans import Offsets


@dataclass(frozen=True)
class Judged:
    """What the messages are that have a value. Both are in the order of their places in the chunk."""

    rows: pa.Table  # of the fields, in the contract's order
    places: Offsets  # of the rows, in the chunk
    others: dict[int, NoRow]  # why the messages at other places are no rows


class ChunkJudge:
    """Judges the messages of one contract, many at once."""

    def __init__(self, contract: Contract, judge: Judge) -> None:
        self._judge, self._blocks = judge, BlockReader.of(contract)
        self._schema = pa.schema([(item.name, item.type.arrow) for item in contract.fields])

    def judged(self, chunk: Chunk, among: Sequence[int] | None = None) -> Judged:
        """All messages of a chunk, or those at some of its places, ascending."""
        wanted = np.arange(len(chunk)) if among is None else np.array(among, np.int64)
        found, places = self._schema.empty_table(), np.array([], np.int64)
        if self._blocks is not None:
            values = chunk.values if among is None else [chunk.values[place] for place in among]
            found, chosen = self._blocks.read(values)
            places = wanted[chosen]
        if len(places) == len(wanted):
            return Judged(found, places, {})
        rows, others = self._one_by_one(chunk, np.setdiff1d(wanted, places, assume_unique=True).tolist())
        together = pa.concat_tables([found, row_table(self._schema, [*rows.values()])])
        places = np.concatenate([places, np.array([*rows], np.int64)])
        order = np.argsort(places)
        return Judged(together.take(order), places[order], others)

    def _one_by_one(self, chunk: Chunk, places: Sequence[int]) -> tuple[dict[int, Row], dict[int, NoRow]]:
        rows, others = dict[int, Row](), dict[int, NoRow]()
        for place in places:
            found = self._judge.at(chunk.partition, chunk.offsets[place], chunk.values[place], chunk.names[place])
            if isinstance(found, NoRow):
                others[place] = found
            else:
                rows[place] = found
        return rows, others


def row_table(schema: pa.Schema, rows: Sequence[Row]) -> pa.Table:
    """Rows, each a value for each column."""
    columns: list[Any] = [*zip(*rows, strict=True)] or [[] for _ in schema.names]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
