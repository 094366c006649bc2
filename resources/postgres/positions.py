"""A pipeline's positions, for the ledger's readers and for a run that holds the pipeline."""

from typing import Any

import psycopg

from platform_defs.offsets import Position
from resources.postgres.connection import queries


def positions_of(connection: psycopg.Connection[tuple[Any, ...]], pipeline: str, topic: str) -> list[Position]:
    """The position in each partition of the topic, by partition."""
    rows = connection.execute(queries()["positions"], {"pipeline": pipeline, "topic": topic}).fetchall()
    return [Position(*row) for row in rows]
