"""Readers of keys that are written with a schema, into the text that decides the row. It is the text of the value,
never of the bytes, which contain the schema's id; and it is the same for every width, scale and unit that the value is
written with.

A string is its text, another scalar its JSON (12, true, "2026-11-01" without quotes), a record or an array JSON without
whitespace, its keys sorted. A Protobuf message is as in a json column, except that integers of 64 bits are numbers too.
Numbers are formatted by their value: 1.50 and 15e-1 are 1.5.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Context, Decimal
from operator import itemgetter
from typing import Any, cast

import pyarrow as pa

from platform_defs.contract.model.column_types import INTEGER, JSON, STRING, ColumnType
from platform_defs.contract.model.contract import Contract, Fault, Field
from platform_defs.formats.avro.decode import AvroReader
from platform_defs.formats.blocks.arrow import Column, all_bytes, integers, record_batch
from platform_defs.formats.blocks.budget import Budget
from platform_defs.formats.blocks.buffer import Buffer, Integers
from platform_defs.formats.blocks.decoded import Decoded
from platform_defs.formats.blocks.reason import MISSING_KEY, Reason
from platform_defs.formats.blocks.writer_schema import SchemaNotCompatible, WriterSchema
from platform_defs.formats.json.json_text import json_text
from platform_defs.formats.json.single import parsed
from platform_defs.formats.json.values import JsonNumber, JsonObject, LongInteger
from platform_defs.formats.supported import Reader
from platform_defs.formats.wire.columns import binary_column

_KEY = "key"  # the one field of the record that a key is put into
_PLAIN: dict[Any, ColumnType] = {"string": STRING, "int": INTEGER, "long": INTEGER}
_MAX_ZEROS = 30  # written out instead of an exponent
_EXACT = Context(prec=200_000)  # digits: more than a number that json_text lets through has


def key_contract(contract: Contract) -> Contract:
    """Return the contract that keys are read with: one column of text."""
    kind = cast("Any", contract.wire.key_format)
    return replace(contract, format=kind, fields=(Field("_key", STRING, required=True, rules=()),))


def key_reader(contract: Contract, writer: WriterSchema, *, indexed: bool) -> Reader:
    """Return the reader of keys of this schema into `key_contract`'s column. Raises SchemaNotCompatible."""
    if contract.format == "avro":
        return _AvroKeys(contract, writer)
    if contract.format == "json":
        return _SingleKeys(contract, parsed)
    from platform_defs.formats.protobuf.decode import KeyMessages  # a worker loads the formats that it reads

    return _SingleKeys(contract, KeyMessages(writer, framed=indexed).read)


class _AvroKeys:
    """Reads a key as a record whose only field is the key: Avro encodes both alike."""

    def __init__(self, contract: Contract, writer: WriterSchema) -> None:
        try:
            schema: Any = json.loads(writer.document)
            wraps = isinstance(schema, dict) and list(cast("dict[str, Any]", schema)) == ["type"]
            of = cast("Any", schema["type"] if wraps else schema)  # {"type": "string"} wraps a type
            document = json.dumps({"type": "record", "name": "TidegateKey", "fields": [{"name": _KEY, "type": of}]})
        except (ValueError, RecursionError) as wrong:
            raise SchemaNotCompatible([f"the key's schema cannot be read: {wrong}"]) from wrong
        kind = _PLAIN.get(of, JSON) if isinstance(of, str) else JSON
        self._schema, self._plain = contract.arrow_schema, kind is not JSON
        one = replace(
            contract, fields=(Field(_KEY, kind, required=False, rules=()),), wire=replace(contract.wire, record="")
        )
        self._reader = AvroReader(one, replace(writer, document=document))

    def read(self, data: Any, starts: Integers, stops: Integers) -> Decoded:
        """See `formats.supported.Reader`."""
        found = self._reader.read(data, starts, stops)
        if self._plain:
            return _plain_texts(found, self._schema)
        texts = cast("list[str | None]", found.rows.column(0).to_pylist())
        made = _of_texts([key_text(None if text is None else parsed(text.encode())) for text in texts], self._schema)
        faults = [replace(fault, index=found.indexes[fault.index].as_py()) for fault in made.faults]
        every = sorted([*found.faults, *faults], key=lambda fault: fault.index)
        return Decoded(made.rows, found.indexes.take(made.indexes), every, 0)


class _SingleKeys:
    """Reads one key at a time."""

    def __init__(self, contract: Contract, read: Callable[[bytes], Any]) -> None:
        """read: the parsed JSON of a key, or a Reason."""
        self._schema, self._read = contract.arrow_schema, read

    def read(self, data: Any, starts: Integers, stops: Integers) -> Decoded:
        """See `formats.supported.Reader`."""
        values: Any = binary_column(Buffer(data), starts, stops - starts, None, len(starts))
        texts, budget = list[str | Reason](), Budget(len(starts))
        for value in all_bytes(values):
            text = key_text(self._read(value))
            budget.spend(len(text) if isinstance(text, str) else 0)
            texts.append(text)
        return _of_texts(texts, self._schema)


def _plain_texts(found: Decoded, schema: pa.Schema) -> Decoded:
    """Return the texts of strings and integers, a column at once."""
    texts: Column = found.rows.column(0).cast(pa.string())
    if not texts.null_count:
        return Decoded(record_batch([texts], schema), found.indexes, found.faults, 0)
    missing = [Fault(index, "decode", *MISSING_KEY) for index in integers(found.indexes.filter(texts.is_null()))]
    there = texts.is_valid()
    faults = sorted([*found.faults, *missing], key=lambda fault: fault.index)
    return Decoded(record_batch([texts.filter(there)], schema), found.indexes.filter(there), faults, 0)


def _of_texts(texts: Sequence[str | Reason], schema: pa.Schema) -> Decoded:
    """Return the rows and faults for one text or reason per key."""
    rows = [text for text in texts if isinstance(text, str)]
    indexes = [index for index, text in enumerate(texts) if isinstance(text, str)]
    reasons = [(index, text) for index, text in enumerate(texts) if isinstance(text, Reason)]
    faults = [Fault(index, "decode", why.error_class, why.message) for index, why in reasons]
    batch = record_batch([pa.array(rows, pa.string())], schema)
    return Decoded(batch, pa.array(indexes, pa.int64()), faults, 0)


def key_text(document: Any) -> str | Reason:
    """Return the text of a parsed value (see json/single.py), or why it has none."""
    if document is None:
        return Reason(*MISSING_KEY)
    if isinstance(document, Reason):
        return Reason(document.error_class, f"in the key: {document.message}")
    checked = json_text(document)
    if isinstance(checked, Reason):
        return Reason(checked.error_class, f"the key {checked.message}")
    return str(document) if type(document) is str else cast("str", json_text(_normalized(document)))


def _normalized(document: Any) -> Any:
    """Return the same with the keys of each object in order, and each number in its one format."""
    if isinstance(document, JsonObject):
        return JsonObject((key, _normalized(inner)) for key, inner in sorted(document, key=itemgetter(0)))
    if isinstance(document, list):
        return [_normalized(inner) for inner in cast("list[Any]", document)]
    return _number(document) if isinstance(document, JsonNumber | LongInteger) else document


def _number(written: str) -> JsonNumber:
    """Format a number by its value: no trailing zeros in its decimals, an exponent only for very many zeros."""
    number = Decimal(written)
    if not number:
        return JsonNumber("0")
    shortest = number.normalize(_EXACT)
    exponent = cast("int", shortest.as_tuple().exponent)
    if abs(exponent) <= _MAX_ZEROS:
        return JsonNumber(f"{shortest:f}")
    return JsonNumber(f"{shortest.scaleb(-exponent, _EXACT):f}e{exponent}")
