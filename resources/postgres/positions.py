"""A pipeline's positions, for the ledger's readers and for a run that holds the pipeline."""

from typing import Any

import psycopg

from platform_defs.offsets import Position
from resources.postgres.connection import queries


def positions_of(connection: psycopg.Connection[tuple[Any, ...]], pipeline: str) -> list[Position]:
    """The position in each partition, by partition. All are of one topic: the one that was read."""
    rows = connection.execute(queries()["positions"], {"pipeline": pipeline}).fetchall()
    return [Position(*row) for row in rows]
