"""Messages with metadata, and a contract that reads all of it."""

from dataclasses import dataclass, field, replace

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Column, Contract, Field, RowRule, Table

FIELDS = {
    "k": ("key", "string"),
    "sent_at": ("timestamp", "timestamp"),
    "stamp_kind": ("timestampType", "string"),
    "topic": ("topic", "string"),
    "part": ("partition", "integer"),
    "at": ("offset", "integer"),
    "all_headers": ("headers", "json"),
    "text": ("header:text", "string"),
    "raw": ("header:raw", "bytes"),
    "number": ("header:number", "integer"),
    "share": ("header:share", "double"),
    "amount": ("header:amount", "decimal(6,2)"),
    "flag": ("header:flag", "boolean"),
    "day": ("header:day", "date"),
    "moment": ("header:moment", "timestamp"),
    "clock": ("header:clock", "time"),
    "id": ("header:id", "uuid"),
}


def metadata_field(name: str, *rules: RowRule) -> Field:
    """Return the field of FIELDS of this name, with these rules."""
    source, kind = FIELDS[name]
    required = any(rule.kind == "required" for rule in rules)
    return Field(name, column_type(kind), required=required, rules=rules, source=source)


VALUE = Field("n", column_type("integer"), required=True, rules=(RowRule("n_required", "n", "required", None, ""),))
TABLE = Table("s.t", "append", (Column("n", column_type("integer"), required=True),))
CONTRACT = Contract(
    "p", "1", "d", "", "topic.of", "json", (VALUE,), (TABLE,), metadata_fields=tuple(map(metadata_field, FIELDS))
)


def reading(*fields: Field) -> Contract:
    """Return the contract with these metadata fields alone."""
    return replace(CONTRACT, metadata_fields=fields)


@dataclass(frozen=True)
class Sent:
    """A message as confluent_kafka gives it (formats.block.Message). `named`: header names are readable."""

    at: int
    headers_: tuple[tuple[str, bytes | None], ...] = ()
    key_: bytes | None = None
    stamp: tuple[int, int] = (1, 1_700_000_000_123)
    value_: bytes | None = b'{"n":1}'
    named: bool = True
    instead: list[list[tuple[str, bytes | None]]] = field(default_factory=list)

    def key(self) -> bytes | None:
        return self.key_

    def value(self) -> bytes | None:
        return self.value_

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return self.stamp

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        if self.instead:
            return self.instead[0]
        if not self.named:
            raise SystemError("returned a result with an exception set")  # as confluent_kafka does
        return list(self.headers_) or None

    def set_headers(self, value: list[tuple[str, bytes | None]]) -> None:
        self.instead.append(value)

    def leader_epoch(self) -> int | None:
        return 0
