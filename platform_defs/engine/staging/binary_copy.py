"""Arrow rows into a table by psycopg, as binary COPY.

pgpq encodes them: https://github.com/adriangb/pgpq (docs/decisions/0033-direct-publication.md). COPY stores the bits of
a wrong type without an error, so only types of the closed mapping are written (column_types.py), to a staging table
that was made for them, or to a table whose columns were compared with the contract in the same transaction.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa
from psycopg import sql

from platform_defs.errors import RowRefused
from platform_defs.postgres.connection import Connection

_MAX_BYTES = 16 << 20  # per encoded batch; a single row may have more


def copy_rows(
    connection: Connection,
    table: sql.Identifier,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    jsonb: Collection[str] = (),
) -> int:
    """COPY `batches`, whose columns are those in `schema`, into the columns of these names; those in `jsonb` have that
    type. Return how many rows the table took, as Postgres counts them. An error from `batches` ends the COPY and is
    raised; so is RowRefused, for a value that cannot be encoded.
    """
    names = sql.SQL(", ").join(map(sql.Identifier, schema.names))
    query = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(table, names)
    try:
        with connection.cursor() as cursor:
            with cursor.copy(query) as copy:
                for part in _unless_they_fail(encoded(batches, schema, jsonb)):
                    copy.write(part)
            return cursor.rowcount
    except _StoppedError as stopped:
        raise stopped.why  # noqa: B904  # it has its own cause


class _StoppedError(Exception):
    """The COPY cannot continue. psycopg sends Postgres the text of the error that ends it, and Postgres' log would
    quote the values in `why`: this one has no text.
    """

    def __init__(self, why: Exception) -> None:
        super().__init__()
        self.why = why


def _unless_they_fail(parts: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from parts
    except Exception as error:  # noqa: BLE001  # raised again, by copy_rows
        raise _StoppedError(error) from None


def encoded(batches: Iterable[pa.RecordBatch], schema: pa.Schema, jsonb: Collection[str] = ()) -> Iterator[bytes]:
    """Yield the input of binary COPY: `batches`, with header and trailer. Raises as `copy_rows`."""
    import pgpq.encoders  # used only by tasks that write
    import pgpq.schema

    kinds: Any = pgpq.ArrowToPostgresBinaryEncoder  # its type leaves the type of Arrow's fields open
    texts: Any = pgpq.encoders.StringEncoderBuilder
    fields: Any = schema
    builders = {
        field.name: texts.new_with_output(field, pgpq.schema.Jsonb())
        if field.name in jsonb
        else kinds.infer_encoder(field)
        for field in fields
    }
    encoder = kinds.new_with_encoders(schema, builders)
    yield encoder.write_header()
    for batch in chain.from_iterable(map(_in_parts, batches)):
        try:
            part = encoder.write_batch(batch)
        except ValueError as error:  # for a value that does not fit Postgres' format
            raise RowRefused(f"a value cannot be written for COPY: {error}", error_class="NotCopied") from error
        yield part
    yield encoder.finish()


def _in_parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the batch in parts, since its encoded form is in memory twice: in pgpq and in psycopg."""
    if batch.num_rows < 2 or batch.nbytes <= _MAX_BYTES:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _in_parts(batch.slice(0, half))
    yield from _in_parts(batch.slice(half))
