"""The columns that Tidegate adds to its tables: the origin of each row, and the key of an upsert. In this one place.

Names that begin with an underscore are reserved for them, in messages and in tables (contract/model/reserved.py).
"""

from platform_defs.contract.model.column_types import ATTEMPT, INTEGER, PARTITION, STRING, ColumnType, column_type
from platform_defs.contract.model.contract import Contract, Table

OwnColumn = tuple[str, ColumnType]

# The message that a row came from, as known to a task; the batch is added at publish.
PROVENANCE: tuple[OwnColumn, ...] = (("_partition", PARTITION), ("_offset", INTEGER))
BATCH_ID: OwnColumn = ("_batch_id", INTEGER)
KEY: OwnColumn = ("_key", STRING)  # upsert: the message key as text
DELETED: OwnColumn = ("_deleted", column_type("boolean"))  # upsert, staged only: the message is a tombstone
ATTEMPT_ID: OwnColumn = ("_attempt", ATTEMPT)  # staged only: the task attempt that copied the row


def decoded_columns(contract: Contract) -> tuple[OwnColumn, ...]:
    """Return the columns that a task adds to the message's fields."""
    return (KEY, DELETED, *PROVENANCE) if contract.row_table.disposition == "upsert" else PROVENANCE


def staged_columns(contract: Contract) -> tuple[OwnColumn, ...]:
    """Return the columns of a staging table besides those of the row table."""
    return (*decoded_columns(contract), ATTEMPT_ID)


def copied_columns() -> tuple[OwnColumn, ...]:
    """Return the columns that a task which publishes directly writes besides those of the row table."""
    return (*PROVENANCE, BATCH_ID)


def target_columns(table: Table) -> tuple[OwnColumn, ...]:
    """Return the columns of a target table besides those of the contract: none for an accumulate, whose rows have no
    one origin.
    """
    if table.disposition == "accumulate":
        return ()
    return (KEY, BATCH_ID, *PROVENANCE) if table.disposition == "upsert" else (BATCH_ID, *PROVENANCE)


DESCRIPTIONS = {  # of the columns that a target table has, for readers
    "_partition": "Partition of the message that the row came from.",
    "_offset": "Offset of the message that the row came from.",
    "_batch_id": "Id of the batch that wrote the row, in tidegate.batch.",
    "_key": "Key of the message that the row came from, as text. It identifies the row.",
}
