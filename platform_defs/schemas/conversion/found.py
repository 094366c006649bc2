"""The fields of a schema as fields of a contract, found by the reader of each language (from_avro and so on)."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from platform_defs.contract.model.message_path import MessagePath
from platform_defs.errors import BadInput

_DEBEZIUM = "io.debezium.time."
_DEBEZIUM_UNITS = {"Timestamp": "ms", "MicroTimestamp": "us", "NanoTimestamp": "ns"}
MAX_FIELDS = 1_500  # Postgres' limit is 1,600 columns, Tidegate's own among them


@dataclass(frozen=True)
class FoundField:
    """A field of a message, at any depth."""

    path: MessagePath
    type: str  # of the contract
    required: bool = False
    numbers: tuple[int, ...] = ()  # Protobuf: of the fields on the path, and its own
    note: str = ""  # what the contract does not carry of it
    symbols: tuple[str, ...] = ()  # of an enum


@dataclass(frozen=True)
class FoundMessage:
    """A record or message of a schema."""

    record: str  # its full name; empty: it has none
    fields: tuple[FoundField, ...]
    notes: tuple[str, ...] = ()  # the parts of the whole that are not carried


def debezium_time(name: Any) -> str:
    """Return a note on a type of Debezium for a date or a time, which is a plain number or text; empty for any other.

    https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-temporal-types
    """
    if not isinstance(name, str) or not name.startswith(_DEBEZIUM):
        return ""
    unit = _DEBEZIUM_UNITS.get(name.removeprefix(_DEBEZIUM))
    if unit is None:
        return f"{name}, kept as it is written"
    return (
        f"{name}, kept as a number; for a timestamp column use logicalType: timestamp with the custom property unit: "
        f"{unit}, which reads the database's time as UTC"
    )


def within_limit(fields: Iterable[FoundField]) -> tuple[FoundField, ...]:
    """Return all fields. Raises BadInput for none, or more than a table has columns."""
    found = tuple(islice(fields, MAX_FIELDS + 1))
    if not found:
        raise BadInput("the schema has no field that can become a column")
    if len(found) > MAX_FIELDS:
        raise BadInput(
            f"the schema has more than {MAX_FIELDS:,} fields, and a Postgres table has at most 1,600 columns. "
            "Write a contract yourself with the fields that you need, or put whole records into json columns"
        )
    return found
