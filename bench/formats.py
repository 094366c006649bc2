"""Identical transfers in topics of several formats, with each one's contract settings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient, NewTopic

from bench.transfers import (
    AVRO_SCHEMA,
    PROTOBUF_SCHEMA,
    Transfer,
    as_avro,
    as_json,
    as_protobuf,
    framed,
    send,
    transfers,
)
from platform_defs.contract.model.contract import UNFRAMED, Format, WireFormat
from platform_defs.ledger.migrations import migrate
from platform_defs.ledger.schema_ledger import SchemaLedger

REGISTRY = "bench"  # in the ledger: no other run uses the ids there
HEADER = [("__value_schema_id", b"\0" + int(AVRO_SCHEMA.key).to_bytes(4))]


@dataclass(frozen=True)
class Written:
    """A way to write the transfers."""

    name: str
    format: Format
    wire: WireFormat
    write: Callable[[Transfer], bytes]
    headers: Sequence[tuple[str, bytes]] = ()

    def topic(self, first: str) -> str:
        """Return its topic, if that of JSON is `first`."""
        return first if self is JSON else f"{first}-{self.format}-{self.wire.framing}"


JSON = Written("JSON", "json", UNFRAMED, as_json)
FRAMED = (
    Written("in Avro", "avro", WireFormat("prefix"), lambda one: framed(AVRO_SCHEMA, as_avro(one))),
    Written("in Avro, the schema named in a header", "avro", WireFormat("header"), as_avro, HEADER),
    Written("in Protobuf", "protobuf", WireFormat("prefix"), lambda one: framed(PROTOBUF_SCHEMA, as_protobuf(one))),
)
ALL = (JSON, *FRAMED)


def fill(options: dict[str, str], topic: str, messages: int, partitions: int, written: Sequence[Written] = ALL) -> None:
    """Write the same transfers, `messages` of them, all good, into each format's topic."""
    admin = AdminClient({**options})
    for made in admin.create_topics([NewTopic(one.topic(topic), partitions, 1) for one in written]).values():
        made.result(30)
    send(
        options,
        (
            {
                "topic": one.topic(topic),
                "value": one.write(transfer),
                "partition": number % partitions,
                "headers": [*one.headers],
            }
            for number, transfer in enumerate(transfers(messages))
            for one in written
        ),
    )


def know_schemas(postgres_url: str) -> None:
    """Put both schemas into the ledger, as the first batch that names them would."""
    migrate(postgres_url)
    SchemaLedger(postgres_url, REGISTRY).keep(1, [AVRO_SCHEMA, PROTOBUF_SCHEMA])
