"""What the row table must hold for messages that are rows: their fields, or what the transform makes of them."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from platform_defs.contract.pipeline import Pipeline
from platform_defs.errors import BadInput
from platform_defs.verification.eras import Eras
from platform_defs.verification.json_columns import canonical_columns
from platform_defs.verification.judge import Row
from platform_defs.verification.snapshot import OWN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Expected:
    """Makes table rows of judged messages."""

    def __init__(self, pipeline: Pipeline, spark: "Callable[[], SparkSession]", eras: Eras, digest: str | None) -> None:
        contract = eras.contract(digest)
        self._pipeline, self._spark = pipeline, spark
        now = dict(eras.columns)
        # The columns of the contract of this digest, by their names in it: what they are called in the table now.
        self._names = {c.name: name for c in contract.row_table.columns if (name := eras.name_now(c.name)) is not None}
        self.schema = pa.schema([*((name, now[name]) for name in self._names.values()), *OWN])
        self._message = pa.schema([*((item.name, item.type.arrow) for item in contract.fields), *OWN])
        self._json = [name for name in self._names.values() if name in eras.json]

    def rows(self, partition: int, offsets: Sequence[int], rows: Sequence[Row]) -> pa.Table:
        """The table's columns, _partition, _offset: none, one or (with a transform) several rows for each message.

        `rows` are the messages' fields in the contract's order. json columns are in canonical form.
        """
        if not rows:
            return self.schema.empty_table()
        messages = self._messages(partition, offsets, rows)
        names = [*self._names, *(name for name, _ in OWN)]
        made = messages.select(names) if self._pipeline.transform is None else self._transformed(messages, names)
        return canonical_columns(made.rename_columns(self.schema.names).cast(self.schema), self._json)

    def _messages(self, partition: int, offsets: Sequence[int], rows: Sequence[Row]) -> pa.Table:
        columns = [*zip(*rows, strict=True), [partition] * len(rows), offsets]
        arrays = [pa.array(values, kind) for values, kind in zip(columns, self._message.types, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self._message)

    def _transformed(self, messages: pa.Table, names: Sequence[str]) -> pa.Table:
        from pyspark.errors import PySparkException  # Spark's import is for pipelines with a transform only

        transform = self._pipeline.transform
        assert transform is not None  # noqa: S101  # the caller has looked
        # pyspark's stubs say pandas only; since Spark 4.0 Arrow tables are taken as well
        frame = self._spark().createDataFrame(cast("Any", messages))
        try:
            return transform(frame).select(*names).toArrow()
        except PySparkException as error:
            first, last = messages["_offset"][0], messages["_offset"][-1]
            where = f"partition {messages['_partition'][0]}, offsets {first} to {last}"
            raise BadInput(f"the transform fails on messages of {where}: {error}", field=self._pipeline.name) from error


Difference = tuple[list[Row], list[Row]]  # rows that are missing, rows that are too many


def differences(want: pa.Table, have: pa.Table) -> dict[int, Difference]:
    """By offset, for two tables of one partition with the same columns: where their rows differ, and by which rows.

    Rows of one offset are compared as a multiset: their order means nothing. Rows are tuples of the columns but
    _partition and _offset, in the order of the schema.
    """
    if want.num_rows == have.num_rows and any(
        _sorted(want, names).equals(_sorted(have, names)) for names in ([], want.schema.names)
    ):
        return {}
    left, right = _by_offset(want), _by_offset(have)
    found: dict[int, Difference] = {}
    for offset in sorted(left.keys() | right.keys()):
        wanted, there = Counter(left.get(offset, ())), Counter(right.get(offset, ()))
        if wanted != there:
            found[offset] = list((wanted - there).elements()), list((there - wanted).elements())
    return found


def _sorted(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """By offset (rows of one offset as they come) and then by `names`."""
    rows: Any = table  # sort_by is not typed in full
    return rows.sort_by([("_offset", "ascending"), *((name, "ascending") for name in names if name != "_offset")])


def _by_offset(table: pa.Table) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    columns = [_plain(table[name]) for name in table.schema.names if name not in ("_partition", "_offset")]
    for offset, *row in zip(table["_offset"].to_pylist(), *columns, strict=True):
        found.setdefault(offset, []).append(tuple(row))
    return found


def _plain(column: "pa.ChunkedArray[Any]") -> list[Any]:
    """Python values; NaN as a text, since NaN equals nothing."""
    values = column.to_pylist()
    return ["NaN" if value != value else value for value in values] if pa.types.is_floating(column.type) else values
