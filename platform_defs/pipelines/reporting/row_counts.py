"""The number of rows in a table, if it can be counted exactly and quickly."""

import psycopg
from psycopg import sql

from platform_defs.contract.model.contract import Contract, Table
from platform_defs.ledger.ledger import Ledger
from platform_defs.postgres.connection import connect, database_errors
from platform_defs.postgres.tables import identifier

LIMIT = "200ms"  # for counting; a batch must not wait for a large table


def row_count(ledger: Ledger, contract: Contract, table: Table, batch_id: int) -> int | None:
    """Return the rows of `table` after the batch: an append's from the ledger, else counted; None if that is slow."""
    if table.disposition == "append":
        return ledger.rows_so_far(contract.pipeline, batch_id)
    with connect(ledger.url) as connection, database_errors("table"):
        connection.execute(sql.SQL("SET statement_timeout = {}").format(sql.Literal(LIMIT)))
        try:
            row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(identifier(table.name))).fetchone()
        except psycopg.errors.QueryCanceled:
            return None
    return row[0] if row else None
