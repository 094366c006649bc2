"""What the row table must hold for messages that are rows: their fields, or what the transform makes of them."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from platform_defs.contract.model import Contract
from platform_defs.contract.pipeline import Pipeline
from platform_defs.errors import BadInput
from platform_defs.verification.eras import Eras
from platform_defs.verification.json_columns import canonical_columns
from platform_defs.verification.snapshot import OWN
from platform_defs.verification.spans import Offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_ONE_AT_A_TIME = Lock()  # threads share the session, and a transform may name a temporary view in it


class NotMade(Exception):
    """The transform is another one now, and does not take the messages of an older contract."""


class Expected:
    """Makes table rows of messages that one contract has judged.

    The transform is that of the contract's file: it gets the fields that the file has now, NULL in those that an older
    contract did not have, and makes the file's columns. `retyped`: what is wrong with columns that cannot be compared.
    """

    def __init__(self, pipeline: Pipeline, spark: "Callable[[], SparkSession]", eras: Eras, digest: str | None) -> None:
        contract = eras.contract(digest)
        self._pipeline, self._spark, self._contract = pipeline, spark, contract
        self._names = eras.names(contract)  # of columns in what is made of a message, and in the table
        if pipeline.transform is not None:
            made = {column.name for column in pipeline.contract.row_table.columns}
            self._names = {now: now for now in self._names.values() if now in made}
        self.retyped = "; ".join(eras.retyped(contract).values())
        types = dict(eras.columns)
        self.schema = pa.schema([*((name, types[name]) for name in self._names.values()), *OWN])
        self._as_text = {name: eras.as_text[name] for name in self._names.values() if name in eras.as_text}

    def rows(self, partition: int, offsets: Offsets, messages: pa.Table) -> pa.Table:
        """The table's columns, _partition, _offset: none, one or (with a transform) several rows for each message.

        `messages` are their fields in the contract's order. json, uuid and time have one spelling each. Raises
        BadInput where the transform fails, NotMade where it fails on messages of an older contract.
        """
        if not len(offsets):
            return self.schema.empty_table()
        messages = self._messages(partition, offsets, messages)
        names = [*self._names, *(name for name, _ in OWN)]
        made = messages.select(names) if self._pipeline.transform is None else self._transformed(messages, names)
        return canonical_columns(made.rename_columns(self.schema.names), self._as_text).cast(self.schema)

    def _messages(self, partition: int, offsets: Offsets, messages: pa.Table) -> pa.Table:
        own = [pa.array(np.full(len(offsets), partition, np.int32)), pa.array(offsets, pa.int64())]
        for (name, _), column in zip(OWN, own, strict=True):
            messages = messages.append_column(name, column)
        return messages

    def _transformed(self, messages: pa.Table, names: Sequence[str]) -> pa.Table:
        from pyspark.errors import PySparkException  # Spark's import is for pipelines with a transform only

        transform = self._pipeline.transform
        assert transform is not None  # noqa: S101  # the caller has looked
        read = self._as_read_now(messages)
        try:
            with _ONE_AT_A_TIME:
                # pyspark's stubs say pandas only; since Spark 4.0 Arrow tables are taken as well
                frame = self._spark().createDataFrame(cast("Any", read))
                return transform(frame).select(*names).toArrow()
        except PySparkException as error:
            if _fields(self._contract) != _fields(self._pipeline.contract):
                raise NotMade from error
            first, last = messages["_offset"][0], messages["_offset"][-1]
            where = f"partition {messages['_partition'][0]}, offsets {first} to {last}"
            raise BadInput(f"the transform fails on messages of {where}: {error}", field=self._pipeline.name) from error

    def _as_read_now(self, messages: pa.Table) -> pa.Table:
        """The fields of the contract's file. Raises NotMade for a value that is none of the type that it has there."""
        before, now = self._contract.fields, self._pipeline.contract.fields
        found = {item.path: item.name for item in before}
        others = {item.name for item in before} - {found.get(item.path) for item in now}
        columns = list[Any]()
        for item in now:
            was = found.get(item.path) or (item.name if item.name in others else None)
            columns.append(_cast(messages, was, item.type.arrow))
        columns += [messages[name] for name, _ in OWN]
        names = [*(item.name for item in now), *(name for name, _ in OWN)]
        return pa.Table.from_arrays(columns, names=names)


def _fields(contract: Contract) -> list[Any]:
    """What a transform may rely on."""
    return [(f.name, f.type, f.required, [(rule.kind, rule.argument) for rule in f.rules]) for f in contract.fields]


def _cast(messages: pa.Table, name: str | None, of: pa.DataType) -> Any:
    """A column as this type; NULL where there is none."""
    if name is None:
        return pa.array([None] * messages.num_rows, of)
    try:
        return messages[name].cast(of)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise NotMade from error
