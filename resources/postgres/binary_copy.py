"""Arrow rows into a table by psycopg, as binary COPY, so that they share a transaction with other statements.

pgpq encodes them: https://github.com/adriangb/pgpq (docs/decisions/0033-direct-publication.md). COPY stores the bits of
a wrong type without an error, so only types of the closed mapping are written (ColumnType.copied), to a table whose
columns were compared with the contract in the same transaction.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from psycopg import sql

from platform_defs.contract.model import Table
from platform_defs.errors import RowRefused
from resources.postgres.connection import Connection
from resources.postgres.tables import identifier

if TYPE_CHECKING:
    from pgpq import ArrowToPostgresBinaryEncoder


def copy_rows(connection: Connection, table: Table, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
    """COPY `batches`, whose columns are those of `schema`, into the columns of these names; how many rows the table
    took, as Postgres counts them. What `batches` raises ends the COPY and is raised; so is RowRefused, for a value that
    cannot be encoded.
    """
    names = sql.SQL(", ").join(map(sql.Identifier, schema.names))
    query = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(identifier(table.name), names)
    with connection.cursor() as cursor:
        with cursor.copy(query) as copy:
            for part in _encoded(table, batches, schema):
                copy.write(part)
        return cursor.rowcount


def _encoded(table: Table, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[bytes]:
    encoder = _encoder(table, schema)
    yield encoder.write_header()
    for batch in batches:
        try:
            part = encoder.write_batch(batch)
        except ValueError as error:  # of a value that Postgres' format has no room for
            raise RowRefused(f"COPY into {table.name}: {error}", error_class="NotCopied") from error
        yield part
    yield encoder.finish()


def _encoder(table: Table, schema: pa.Schema) -> "ArrowToPostgresBinaryEncoder":
    import pgpq.encoders  # by the tasks that write alone
    import pgpq.schema

    json = {column.name for column in table.columns if column.type.name == "json"}
    encoder: Any = pgpq.ArrowToPostgresBinaryEncoder  # it leaves open what Arrow's fields are of
    texts: Any = pgpq.encoders.StringEncoderBuilder
    fields: Any = schema
    return encoder.new_with_encoders(
        schema,
        {
            field.name: texts.new_with_output(field, pgpq.schema.Jsonb())
            if field.name in json
            else encoder.infer_encoder(field)
            for field in fields
        },
    )
