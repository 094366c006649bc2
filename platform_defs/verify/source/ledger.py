"""The point up to which a pipeline's tables were compared with its topic: the checkpoint of `tidegate verify --new`."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from platform_defs.postgres.connection import connect, database_errors, queries

Basis = Mapping[str, str | None]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint: all batches up to `batch_id` were compared and found exact, under the ledger state `basis`."""

    moves: int = 0  # how often it was moved; 0 if there is none yet
    batch_id: int = 0
    offsets: Mapping[int, int] = field(default_factory=dict[int, int])  # by partition, the first that was not compared
    sums: Mapping[str, str] = field(default_factory=dict[str, str])  # sums of the accumulates as of that batch
    basis: Basis = field(default_factory=dict[str, str | None])


def read_checkpoint(connection: psycopg.Connection[Any], pipeline: str) -> Checkpoint:
    """Return the checkpoint in an open transaction's snapshot; the beginning if there is none."""
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(queries()["verified"], {"pipeline": pipeline}).fetchone()
    if row is None:
        return Checkpoint()
    given: dict[str, Any] = {**row, "offsets": {int(number): at for number, at in row["offsets"].items()}}
    return Checkpoint(**given)


def read_basis(connection: psycopg.Connection[Any], pipeline: str) -> Basis:
    """Return the ledger state that a checkpoint made now would depend on."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(queries()["verify_basis"], {"pipeline": pipeline}).fetchone() or {}


def move_checkpoint(url: str, pipeline: str, found: Checkpoint) -> bool:
    """Replace the checkpoint whose `moves` were read with `found`. Return False if another check was first.

    Raises LedgerAway.
    """
    parameters = {
        "pipeline": pipeline,
        "moves": found.moves,
        "batch_id": found.batch_id,
        "offsets": Jsonb(dict(found.offsets)),
        "sums": Jsonb(dict(found.sums)),
        "basis": Jsonb(dict(found.basis)),
    }
    with database_errors(), closing(connect(url, "tidegate verify")) as connection:
        return connection.execute(queries()["move_verified"], parameters).rowcount == 1


def record_check(url: str, pipeline: str, *, passed: bool, explanation: str) -> None:
    """Record the result of a check of new batches. Raises LedgerAway."""
    with database_errors(), closing(connect(url, "tidegate verify")) as connection:
        parameters = {"pipeline": pipeline, "passed": passed, "explanation": explanation}
        connection.execute(queries()["record_check"], parameters)
