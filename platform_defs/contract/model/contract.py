"""A contract as data: the message's fields and rules, the tables, the limits.

`contract.reader.odcs.load` reads it from an ODCS YAML file. Everything here is frozen, picklable (it travels to Spark's
workers) and imports neither Spark nor a connection.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.dead_letter_window import Counted
from platform_defs.contract.model.message_path import MessagePath, spell_path
from platform_defs.contract.model.topic import NO_KEYS, TopicKeys
from platform_defs.producer_options.config import Producing

if TYPE_CHECKING:  # a command that only reads contracts does not wait for Arrow's import
    import pyarrow as pa

HEADER = "header:"  # a source; the header's name follows
SUFFIX = ".odcs.yaml"  # editors know it: SchemaStore maps *.odcs.yaml to the standard's JSON schema
Disposition = Literal["append", "upsert", "accumulate"]
RuleKind = Literal["required", "enum", "pattern", "minimum", "maximum", "min_length", "max_length"]
Severity = Literal["blocking", "warning"]
CONTINUOUS_BELOW = 5.0  # seconds of latency: a run that is started for each message takes longer than that to start
Stage = Literal["decode", "check", "transform", "publish"]
Evolution = Literal["manual", "additive"]
Publishing = Literal["staged", "direct"]
Format = Literal["json", "avro", "protobuf"]
Framing = Literal["prefix", "header", "both", "none"]
KeyFormat = Literal["text", "avro", "protobuf", "json"]
SubjectNameStrategy = Literal["TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy"]
OtherRecords = Literal["dead_letter", "skip"]


def stem(path: Path) -> str:
    """Return `transfers` for `bank/transfers.odcs.yaml`."""
    return path.name.removesuffix(SUFFIX)


@dataclass(frozen=True)
class RowRule:
    """A rule for one message; a message that breaks it becomes a dead letter with `error_class = name`."""

    name: str  # <field>_<kind>: also the name of its Dagster asset check
    field: str
    kind: RuleKind
    argument: Any  # None, a tuple (enum), a regular expression, or a value of the field's Python type
    description: str


Unit = Literal["s", "ms", "us", "ns"]


@dataclass(frozen=True)
class Field:
    """A field of the message: `name` is the column, `path` the keys that lead to its value in the message."""

    name: str
    type: ColumnType
    required: bool
    rules: tuple[RowRule, ...]  # `required` first, the rest in the order of RuleKind
    description: str = ""
    classification: str = ""
    examples: tuple[Any, ...] = ()
    physical_path: MessagePath = ()  # empty: the key is the name
    aliases: tuple[MessagePath, ...] = ()  # Avro, Protobuf: its places in schemas without `path`
    number: int | None = None  # Protobuf: the field's number, which then decides instead of the name
    path_numbers: tuple[int, ...] = ()  # Protobuf export: numbers of the messages on the path, outermost first
    source: str = ""  # the metadata that it has, such as timestamp or header:tenant; empty: the value
    unit: Unit | None = None  # JSON, of a timestamp: the message has an integer in this unit since 1970, and no text

    @property
    def path(self) -> MessagePath:
        """The keys of JSON objects, or the names of nested records' fields, that lead to the value, outermost first.

        Each source has a path of its own: `header:tenant` is below `headers`.
        """
        if self.header is not None:
            return ("\0metadata", "headers", self.header)
        return ("\0metadata", self.source) if self.source else self.physical_path or (self.name,)

    @property
    def header(self) -> str | None:
        """The name of the header that the field is read from; None for any other field."""
        return self.source.removeprefix(HEADER) if self.source.startswith(HEADER) else None

    @property
    def place(self) -> str:
        """The field in a sentence: its name, and its place in the message if that is written differently."""
        spelled = spell_path(self.path)
        if self.source:
            spelled = self.source if self.header is None else f"header {self.header}"
        return self.name if spelled == self.name else f"{self.name} ({spelled})"


@dataclass(frozen=True)
class BatchRule:
    """A rule over a batch's rows, evaluated by Great Expectations before the batch is published."""

    name: str
    table: str
    expectation: str  # a Great Expectations class, such as ExpectColumnSumToBeBetween
    arguments: dict[str, Any]
    severity: Severity
    description: str


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    type: ColumnType
    required: bool
    description: str = ""
    classification: str = ""
    renamed_from: str = ""  # its former name; empty if it was not renamed


@dataclass(frozen=True)
class Aggregate:
    """A column of an accumulate table: exact, and the same however batches are cut."""

    column: str
    function: Literal["sum", "count", "min", "max"]
    source: str | None  # a column of the row table; None: count(*)


@dataclass(frozen=True)
class Table:
    """A table that a pipeline owns, without the engine's own columns (`_batch_id`, `_partition`, `_offset`, `_key`)."""

    name: str  # schema.table
    disposition: Disposition
    columns: tuple[Column, ...]
    batch_rules: tuple[BatchRule, ...] = ()
    group_by: tuple[str, ...] = ()  # accumulate only: columns of the row table, and the key of this one
    aggregates: tuple[Aggregate, ...] = ()  # accumulate only
    description: str = ""

    @property
    def arrow_schema(self) -> pa.Schema:
        """The contract's columns, in order, as Arrow."""
        import pyarrow as pa

        return pa.schema([(column.name, column.type.arrow) for column in self.columns])

    @property
    def staged_schema(self) -> pa.Schema:
        """The same as COPY writes them to staging. Its first use imports pyarrow."""
        import pyarrow as pa

        return pa.schema([(column.name, column.type.staged_arrow) for column in self.columns])

    @property
    def definition(self) -> str:
        """A text for the way the table is filled: if this changes, its contents no longer fit. It does not depend on
        the order of the contract's columns.
        """
        if self.disposition != "accumulate":
            return self.disposition
        made = sorted(f"{item.column} = {item.function}({item.source or '*'})" for item in self.aggregates)
        return f"{', '.join(made)} by {', '.join(sorted(self.group_by))}"


@dataclass(frozen=True)
class Limits:
    """The thresholds at which a pipeline acts, waits or stops."""

    batch_messages: int = 1_000_000  # the most offsets that one batch reads
    lag_messages: int = 10_000  # the sensor starts a run once this many messages are unread ...
    lag_seconds: float = 30.0  # ... or when the oldest of them has waited this long
    dead_letter_share: float = 0.5  # of the latest messages: above it, and from the minimum on, the pipeline halts
    dead_letter_minimum: int = 1_000
    freshness_seconds: float = 3600.0
    retention_seconds: float = 30 * 86_400.0  # of the ledger's history (prune/prune.py)

    @property
    def window_messages(self) -> float:
        """The number of latest messages that the limit applies to: of so many, the minimum is just the share."""
        return self.dead_letter_minimum / self.dead_letter_share

    @property
    def continuous(self) -> bool:
        """True if a run stays for the pipeline, since starting one would take longer than its messages may wait."""
        return self.lag_seconds < CONTINUOUS_BELOW

    def exceeded_by(self, counted: Counted) -> bool:
        """Return True if these are more dead letters than the contract allows."""
        enough = counted.dead_letters >= self.dead_letter_minimum
        return enough and counted.dead_letters > self.dead_letter_share * counted.messages


@dataclass(frozen=True)
class WireFormat:
    """The way a message names the schema that it was written with, and the messages of the topic that are read."""

    framing: Framing = "prefix"  # formats/framing.py
    subject: str = ""  # of the registry
    record: str = ""  # the full name of the Avro record or Protobuf message; empty: whichever it is
    key_format: KeyFormat = "text"
    other_records: OtherRecords = "dead_letter"
    compatibility: str = ""  # the compatibility that the registry must enforce for new versions
    schema_file: str = ""  # beside the contract: the one schema of messages that name none
    schema_text: str = ""  # its content
    schema_imports: tuple[tuple[str, str], ...] = ()  # the .proto files that it imports: name in the import, content
    keys_subject: str = ""  # if a strategy names the subject after the record; else it follows from `subject`

    @property
    def framed(self) -> bool:
        """True if messages name their schema, so that a registry is needed."""
        return self.framing != "none"


UNFRAMED = WireFormat("none")


def subject_name(strategy: SubjectNameStrategy, topic: str, record: str) -> str:
    """Return the subject that Confluent's serializers register a value's schema under. `record`: its full name.

    https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html
    """
    return {
        "TopicNameStrategy": f"{topic}-value",
        "RecordNameStrategy": record,
        "TopicRecordNameStrategy": f"{topic}-{record}",
    }[strategy]


@dataclass(frozen=True)
class Contract:
    """One pipeline: a topic, the message it carries, and the tables it fills."""

    pipeline: str
    version: str
    domain: str
    description: str
    topic: str
    format: Format
    fields: tuple[Field, ...]  # of the message's value
    tables: tuple[Table, ...]  # the row table (append or upsert) first, then its accumulates
    limits: Limits = field(default_factory=Limits)
    path: Path | None = None
    evolution: Evolution = "manual"  # additive: a run may apply a free change by itself (contract/evolution/)
    wire: WireFormat = UNFRAMED
    publication: Publishing = "staged"  # what commits together: a batch, or each range of it (engine/direct.py)
    # How the topic is kept: it does not affect rows, so it is no part of the contract's identity.
    topic_keys: TopicKeys = field(default=NO_KEYS, compare=False, repr=False)
    producing: Producing = field(default_factory=Producing, compare=False, repr=False)  # how it is written; the same
    owners: tuple[str, ...] = field(default=(), compare=False)  # e-mail addresses and team:NAME, as Dagster has them
    metadata_fields: tuple[Field, ...] = ()  # with a `source`
    asset_prefix: tuple[str, ...] = field(default=(), compare=False)  # of its assets in Dagster; not in the file

    @property
    def transform_path(self) -> Path | None:
        """The path of the transform, if the contract has one: next to its file. None for a contract without a file."""
        return self.path and self.path.with_name(f"{stem(self.path)}.py")

    @property
    def row_table(self) -> Table:
        """The one table that gets a row for each message (or several, through a transform)."""
        return self.tables[0]

    @property
    def accumulates(self) -> tuple[Table, ...]:
        return self.tables[1:]

    @property
    def reads_keys(self) -> bool:
        """True if rows depend on the text of the key."""
        of_rows = any(item.source == "key" and item.type.kind == "string" for item in self.metadata_fields)
        return of_rows or self.row_table.disposition == "upsert"

    @property
    def subject_name_strategy(self) -> SubjectNameStrategy | None:
        """The strategy that yields the subject of the values; None for a subject with a name of its own, and without a
        registry.
        """
        named = ((one, subject_name(one, self.topic, self.wire.record)) for one in get_args(SubjectNameStrategy))
        return next((one for one, subject in named if self.wire.framed and subject == self.wire.subject), None)

    @property
    def key_subject(self) -> str | None:
        """The subject of the keys; None if they have no schema."""
        if self.wire.key_format == "text":
            return None
        return self.wire.keys_subject or f"{self.wire.subject.removesuffix('-value')}-key"

    @cached_property
    def message_fields(self) -> tuple[Field, ...]:
        """The fields of the message's value, then those of its metadata."""
        return (*self.fields, *self.metadata_fields)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The fields of the message's value, in order, as Arrow."""
        import pyarrow as pa

        return pa.schema([(item.name, item.type.arrow) for item in self.fields])

    @cached_property
    def message_schema(self) -> pa.Schema:
        """All `message_fields`, in order, as Arrow."""
        import pyarrow as pa

        return pa.schema([(item.name, item.type.arrow) for item in self.message_fields])

    @cached_property
    def row_rules(self) -> tuple[RowRule, ...]:
        return tuple(rule for item in self.message_fields for rule in item.rules)

    @cached_property
    def batch_rules(self) -> tuple[BatchRule, ...]:
        return tuple(rule for table in self.tables for rule in table.batch_rules)


@dataclass(frozen=True)
class Fault:
    """The reason why one message of a block is not a row."""

    index: int  # of the message in its block
    stage: Stage
    error_class: str  # a decode error (InvalidJson, ...) or the name of the row rule that it breaks
    message: str  # a sentence for people; no NUL
    field: str | None = None


@dataclass(frozen=True)
class CheckResult:
    """The result of a check for one batch. Stored with the batch, shown in Dagster."""

    name: str
    table: str
    severity: Severity
    passed: bool
    observed: dict[str, Any]  # JSON: counts, and under "samples" up to 10 of {partition, offset, ...}
