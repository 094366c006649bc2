"""Every key of a contract: its meaning, its values and its default.

The reader, the writer and docs/reference/contract.md share these tables. The reader refuses each key that its section
does not list (`Section.refuse_others`), and so cannot accept a key that the reference lacks. A key whose values are a
`Kind` is read and written by it; ODCS' own model types the others. To print the reference, walk `SECTIONS` for the
keys, then `TYPES` for the types and the rules that each of them takes. `Section.shown_only` are ODCS keys that are
accepted, kept for readers and read by nothing.
"""

from dataclasses import dataclass
from typing import get_args

from platform_defs.contract.document.section import REQUIRED, Key, Section
from platform_defs.contract.keys.schema_keys import (
    BATCH_RULE,
    COLUMN,
    COLUMN_PROPERTIES,
    ENUM,
    FIELD,
    ITEMS,
    MESSAGE,
    OPTIONS,
    TABLE,
    TABLE_PROPERTIES,
)
from platform_defs.contract.keys.topic_keys import TOPIC_PROPERTIES, TOPICS_FILE
from platform_defs.contract.keys.value_kinds import positive, whole, words
from platform_defs.contract.keys.wire_keys import FIELD_PROPERTIES, SERVER, SERVER_PROPERTIES
from platform_defs.contract.model.column_types import FIXED, kind_of, logical_types
from platform_defs.contract.model.contract import Contract, Evolution, Limits, Publishing

CONTRACT = Section(
    "The contract",
    "",
    "One pipeline: a topic, its message, and the tables that it fills.",
    (
        Key("apiVersion", "The version of the standard.", "v3.x", REQUIRED, "v3.1.0"),
        Key("kind", "The kind of file.", "DataContract", "the same in every contract", "DataContract"),
        Key(
            "id",
            "The pipeline's name: its tag in Dagster, and the argument of tidegate's commands. It never changes; a new "
            "id is a new pipeline.",
            "lower-case letters, digits and _, at most 63; not reserved",
            REQUIRED,
            "bank_transfers",
        ),
        Key("version", "The contract's version, recorded with every batch that used it.", "text", REQUIRED, "1.0.0"),
        Key(
            "domain", "The folder under assets/, and the asset group in Dagster.", "the folder's name", REQUIRED, "bank"
        ),
        Key("description", "purpose is shown in Dagster.", "{purpose: text}", "", "{purpose: Transfers.}"),
        Key(
            "team",
            "The owners of the tables in Dagster: the team's name, and members whose username is an e-mail address.",
            "{name: text, members: [{username: text}]}, or a list of members",
            "",
            "{name: payments, members: [{username: ada@example.org}]}",
        ),
        Key("servers", "The format of the messages; see Server.", "a list of one", REQUIRED),
        Key("schema", "One message (physicalType: topic) and its tables (physicalType: table).", "a list", REQUIRED),
        Key(
            "slaProperties",
            "When a pipeline is late, and how long its history is kept; see Service levels.",
            "a list",
            "the defaults of each",
        ),
        Key(
            "customProperties",
            "Limits, publication, evolution; see Custom properties.",
            "a list",
            "the defaults of each",
        ),
    ),
    (
        *("name", "status", "tenant", "tags", "dataProduct", "support", "price", "roles", "context"),
        *("authoritativeDefinitions", "contractCreatedTs"),
    ),
)

SERVICE_LEVELS = Section(
    "Service levels",
    "slaProperties[property]",
    "Each entry is {property, value, unit}; unit is seconds, minutes, hours or days.",
    (
        Key(
            "freshness",
            "Dagster shows the tables as stale if nothing was published for longer than this.",
            "a positive number and a unit",
            "1 hour",
            "{property: freshness, value: 1, unit: hours}",
            "freshness_seconds",
        ),
        Key(
            "latency",
            "A run starts when the oldest unread message has waited this long. Below 5 seconds, a continuous run "
            "reads the pipeline instead (docs/how-to/low-latency.md).",
            "a positive number and a unit",
            "30 seconds",
            "{property: latency, value: 30, unit: seconds}",
            "lag_seconds",
        ),
        Key(
            "retention",
            "`tidegate prune` removes ledger entries of older batches once neither verify nor replay needs them. "
            "The tables keep every row.",
            "a positive number and a unit",
            "30 days",
            "{property: retention, value: 90, unit: days}",
            "retention_seconds",
        ),
    ),
)
SERVICE_LEVEL_ENTRY = Section(
    "An entry of slaProperties",
    "slaProperties[]",
    "One service level.",
    (
        Key("property", "Which service level.", "freshness, latency, retention", REQUIRED, "freshness"),
        Key("value", "The number of units.", positive("a positive number, at most 1000000000", 1e9), REQUIRED, "1"),
        Key("unit", "The unit of value.", "seconds, minutes, hours, days (or s, m, h, d)", REQUIRED, "hours"),
    ),
    ("id", "description", "driver", "authoritativeDefinitions"),
)

_COUNT = whole("a positive whole number, at most 2^63 - 1", 2**63 - 1)
LIMITS = (
    Key("batchMessages", "The maximum number of offsets in a batch.", _COUNT, f"{Limits.batch_messages}", "50000"),
    Key("lagMessages", "A run starts once this many messages are unread.", _COUNT, f"{Limits.lag_messages}", "100"),
    Key(
        "deadLetterShare",
        "The pipeline halts when more than this share of a batch, or of the latest messages across batches, "
        "are dead letters. The number of latest messages is deadLetterMinimum divided by this share.",
        positive("a share between 0 (excluded) and 1", 1),
        f"{Limits.dead_letter_share}",
        "0.1",
    ),
    Key(
        "deadLetterMinimum",
        "Fewer dead letters than this never halt the pipeline.",
        _COUNT,
        f"{Limits.dead_letter_minimum}",
        "10",
    ),
)
SETTINGS = (
    Key(
        "publication",
        "What commits together. staged: a whole batch, after its rules have passed. direct: each partition's "
        "range by itself, written straight to the table by the task that reads it; only for an append table "
        "without batch rules or a transform.",
        words(get_args(Publishing)),
        Contract.publication,
        "direct",
    ),
    Key(
        "evolution",
        "How tables change when the contract changes. manual: with `tidegate contract apply`. additive: a run "
        "applies changes of class free, such as a new optional column, before its first batch.",
        words(get_args(Evolution)),
        Contract.evolution,
        "additive",
    ),
)
PIPELINE_PROPERTIES = Section(
    "Custom properties",
    "customProperties[property]",
    "Each entry is {property, value}.",
    (*LIMITS, *SETTINGS),
    removed={
        "delivery": "delivery was removed: every pipeline delivers exactly once. Remove this entry. See "
        "docs/explanation/delivery.md, and tidegate demo delivery"
    },
)
CUSTOM_ENTRY = Section(
    "An entry of customProperties",
    "customProperties[]",
    "One setting.",
    (
        Key("property", "Its name.", "as listed", REQUIRED, "batchMessages"),
        Key("value", "Its value.", "as listed", REQUIRED, "50000"),
    ),
    ("id", "description", "vendor"),
)

SECTIONS = (
    *(CONTRACT, SERVER, SERVER_PROPERTIES, SERVICE_LEVELS, SERVICE_LEVEL_ENTRY, PIPELINE_PROPERTIES, CUSTOM_ENTRY),
    *(MESSAGE, TOPIC_PROPERTIES, FIELD, FIELD_PROPERTIES, ITEMS, OPTIONS, ENUM),
    *(TABLE, TABLE_PROPERTIES, COLUMN, COLUMN_PROPERTIES, BATCH_RULE, TOPICS_FILE),
)


@dataclass(frozen=True)
class TypeEntry:
    """One type: how it is written in a contract and in a message, and the row rules it takes."""

    name: str  # the physicalType
    message: str  # the JSON that it is read from
    options: tuple[str, ...] = ()  # of OPTIONS
    enum: bool = False  # True if it may have one

    @property
    def logical(self) -> tuple[str, ...]:
        """The logicalTypes that it goes with."""
        return logical_types(kind_of(self.name))

    @property
    def postgres(self) -> str:
        """The column's type."""
        parameters = {"decimal(precision,scale)": "numeric(precision,scale)", "array<type>": "type[]"}
        return parameters.get(self.name) or FIXED[self.name].postgres


_LIMITS = ("minimum", "maximum")
_DECIMAL = '12.34 or "12.34", never rounded: more digits than the scale are rejected'
_TIMESTAMP = '"2026-11-01T10:00:00.123Z", with a zone; or a number, with the unit of the field'
_ARRAY = 'a list of values of that type, none of them null: ["a", "b"]; type is any of the above but json'
TYPES = (
    TypeEntry("string", '"text"', ("pattern", "minLength", "maxLength"), enum=True),
    TypeEntry("integer", "12, within 64 bits", _LIMITS, enum=True),
    TypeEntry("double", "1.5", _LIMITS),
    TypeEntry("decimal(precision,scale)", _DECIMAL, _LIMITS),
    TypeEntry("boolean", "true, false"),
    TypeEntry("date", '"2026-11-01"', _LIMITS),
    TypeEntry("timestamp", _TIMESTAMP, _LIMITS),
    TypeEntry("time", '"10:00:00.123456", without a zone or with Z', _LIMITS),
    TypeEntry("uuid", '"6f1c0b9e-8d3a-4c55-9f0e-2b7a1d4e5f60"'),
    TypeEntry("bytes", "a string: base64, padded"),
    TypeEntry("json", "any value; logicalType is informational and is not checked"),
    TypeEntry("array<type>", _ARRAY),
)
