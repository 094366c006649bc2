"""The expected rows of messages: their fields, or the result of the transform."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from platform_defs.contract.model.classified import NOT_SHOWN
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.offered_columns import named_columns
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import BadInput, SparkAway
from platform_defs.verify.compare.differences import offsets_of
from platform_defs.verify.decoders.json_columns import canonical_columns
from platform_defs.verify.source.contract_versions import ContractVersions
from platform_defs.verify.source.partitions import Pinned
from platform_defs.verify.source.snapshot import OWN
from platform_defs.verify.source.spans import Offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MAX_TRIES = 64  # jobs that find the messages of a chunk on which the transform fails ...
MAX_IN_VAIN = 8  # ... and jobs if all of them fail


class NotMade(Exception):
    """The transform fails on these messages, or a value does not fit the current type."""


class Expected:
    """Converts messages that are valid by one contract to expected table rows.

    The transform is that of the contract's file: it gets the file's current fields, NULL in those that an older
    contract did not have, and makes the file's columns. `retyped`: the reason why columns cannot be compared.
    `offered`: columns of OFFERED that `rows` takes besides the fields. `not_compared`: columns of the contract in force
    in which the rows are not compared. `other_transform`: it is not, or may not be, the one that made the rows.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        spark: "Callable[[], SparkSession]",
        versions: ContractVersions,
        pinned: Pinned,
        *,
        other_transform: bool,
        hides: bool,
    ) -> None:
        contract, now = versions.contract(pinned.contract), versions.now(pinned)
        self._pipeline, self._spark, self._contract = pipeline, spark, contract
        self.offered = named_columns(pipeline)
        self._hides = hides
        self._is_other = other_transform or _fields(contract) != _fields(pipeline.contract)
        self._names = now.names  # from the columns of an expected row to those of the table
        self.not_compared = now.not_compared
        if pipeline.transform is not None:
            made = {column.name for column in pipeline.contract.row_table.columns}
            self._names = {name: name for name in now.names.values() if name in made}
            in_force = {column.name for column in versions.in_force.row_table.columns}
            self.not_compared = now.not_compared | (in_force.intersection(now.names.values()) - made)
        self.retyped = "; ".join(now.retyped.values())
        types = dict(versions.columns)
        self.schema = pa.schema([*((name, types[name]) for name in self._names.values()), *OWN])
        self._as_text = {name: versions.as_text[name] for name in self._names.values() if name in versions.as_text}

    def rows(self, partition: int, offsets: Offsets, messages: pa.Table) -> tuple[pa.Table, Offsets]:
        """Return the rows of messages: none, one or (with a transform) several for each, with the table's columns,
        _partition and _offset. Also the offsets, ascending, of messages whose rows can no longer be made; some may only
        be neighbours of those on which the transform fails.

        `messages` are their fields in the contract's order, with json, uuid and time in canonical form. Raises BadInput
        if the transform cannot run, or fails on messages twice although it made their rows; SparkAway if the session is
        gone.
        """
        if not len(offsets):
            return self.schema.empty_table(), offsets
        own = [pa.array(np.full(len(offsets), partition, np.int32)), pa.array(offsets, pa.int64())]
        for (name, _), column in zip(OWN, own, strict=True):
            messages = messages.append_column(name, column)
        names = [*self._names, *(name for name, _ in OWN)]
        if self._pipeline.transform is None:
            return self._typed(messages.select(names)), offsets[:0]
        made, failed = self._transformed(messages, names)
        table = pa.concat_tables([self._typed(piece) for piece in made]) if made else self.schema.empty_table()
        return table, np.sort(failed)

    def _typed(self, made: pa.Table) -> pa.Table:
        return canonical_columns(made.rename_columns(self.schema.names), self._as_text).cast(self.schema)

    def _transformed(self, messages: pa.Table, names: Sequence[str]) -> tuple[list[pa.Table], Offsets]:
        """Return the rows, and the offsets on which the transform fails, found by bisection in up to MAX_TRIES jobs.

        A transform that made these rows is tried once more on each remaining piece. Raises BadInput if one fails.
        """
        pieces, made, failed, tries = deque([messages]), list[pa.Table](), list[pa.Table](), 0
        while pieces:
            piece, tries = pieces.popleft(), tries + 1
            try:
                made.append(self._transformed_at_once(piece, names))
            except NotMade:
                if piece.num_rows > 1 and tries < (MAX_TRIES if made else MAX_IN_VAIN):
                    half = piece.num_rows // 2
                    pieces += [piece.slice(0, half), piece.slice(half)]
                else:
                    failed.append(piece)
        if self._is_other:
            return made, np.concatenate([offsets_of(messages)[:0], *map(offsets_of, failed)])
        for piece in failed:
            try:
                made.append(self._transformed_at_once(piece, names))
            except NotMade as error:
                first, last = piece["_offset"][0], piece["_offset"][-1]
                raise BadInput(
                    f"the transform fails on partition {piece['_partition'][0]}, offsets {first} to {last}, even "
                    f"on a retry ({error}). It produced these rows before, so a system that it calls may be "
                    "unavailable: verify again once that is available",
                    field=self._pipeline.name,
                ) from error
        return made, offsets_of(messages)[:0]

    def _transformed_at_once(self, messages: pa.Table, names: Sequence[str]) -> pa.Table:
        """Return the transform's rows. Raises NotMade if it fails on these messages."""
        from py4j.protocol import Py4JError  # Spark's imports are for pipelines with a transform only
        from pyspark.errors import PySparkException

        from platform_defs.spark.own_session import own_session

        transform = self._pipeline.transform
        assert transform is not None  # noqa: S101  # the caller checked it
        read = self._as_read_now(messages)
        spark = self._spark()
        try:
            with own_session(spark) as session:  # threads share Spark, and a transform may name a view in it
                # pyspark's stubs name pandas only; since Spark 4.0 Arrow tables are accepted too
                frame = session.createDataFrame(cast("Any", read))
                try:
                    made = transform(frame).select(*names)
                except Exception as error:  # a user's code may raise anything
                    _require_session(spark, error)
                    text = f"the transform raises {type(error).__name__}: {self._said(error)}"
                    raise BadInput(text, field=self._pipeline.name) from error
                return made.toArrow()
        except (PySparkException, Py4JError, OSError) as error:
            _require_session(spark, error)
            raise NotMade(self._said(error)) from error

    def _said(self, error: Exception) -> str:
        """Return the first line of Spark's message, unless it may quote a classified value."""
        if self._hides:
            return f"the message {NOT_SHOWN}"
        lines = [line.strip() for line in str(error).partition("\n\nJVM stacktrace:")[0].splitlines() if line.strip()]
        return lines[0] if lines else type(error).__name__

    def _as_read_now(self, messages: pa.Table) -> pa.Table:
        """Return the fields of the contract's file. Raises NotMade if a value does not fit its type there."""
        before, now = self._contract.message_fields, self._pipeline.contract.message_fields
        found = {item.path: item.name for item in before}
        others = {item.name for item in before} - {found.get(item.path) for item in now}
        columns = list[Any]()
        for item in now:
            was = found.get(item.path) or (item.name if item.name in others else None)
            columns.append(_cast(messages, was, item.type.arrow))
        own = [*self.offered, *(name for name, _ in OWN)]
        columns += [messages[name] for name in own]
        names = [*(item.name for item in now), *own]
        return pa.Table.from_arrays(columns, names=names)


def _require_session(spark: "SparkSession", error: Exception) -> None:
    """Raise SparkAway unless the session runs a job without any transform."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        spark.range(1).count()
    except (PySparkException, Py4JError, OSError):
        message = (
            f"the Spark session ended ({type(error).__name__}), so nothing more could be compared; run the command "
            "again"
        )
        raise SparkAway(message) from error


def _fields(contract: Contract) -> list[Any]:
    """Return the properties of the fields that a transform may rely on."""
    return [
        (f.name, f.type, f.required, f.source, [(rule.kind, rule.argument) for rule in f.rules])
        for f in contract.message_fields
    ]


def _cast(messages: pa.Table, name: str | None, of: pa.DataType) -> Any:
    """Return a column as this type; NULL if there is none."""
    if name is None:
        return pa.array([None] * messages.num_rows, of)
    try:
        return messages[name].cast(of)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise NotMade from error
