"""The keys that decide how messages are read: the server's format and what goes with it. See `contract_keys.py`."""

from typing import get_args

from platform_defs.contract.document.section import REQUIRED, Key, Section
from platform_defs.contract.keys.field_sources import SOURCE
from platform_defs.contract.keys.value_kinds import PATH, several, text, whole, words
from platform_defs.contract.model.contract import (
    Format,
    Framing,
    KeyFormat,
    OtherRecords,
    SubjectNameStrategy,
    Unit,
    WireFormat,
)

LEVEL: dict[Format, str] = {"avro": "FULL_TRANSITIVE", "protobuf": "BACKWARD_TRANSITIVE", "json": "NONE"}
RECORD = {"avro": "record", "protobuf": "message"}
_LEVELS = tuple(f"{level}{suffix}" for level in ("BACKWARD", "FORWARD", "FULL") for suffix in ("", "_TRANSITIVE"))


def standard_wire(kind: Format, topic: str) -> WireFormat:
    """Return the wire format of a contract that sets nothing else."""
    return WireFormat("none" if kind == "json" else "prefix", f"{topic}-value", compatibility=LEVEL[kind])


SERVER = Section(
    "Server",
    "servers[]",
    "Kafka. The addresses are settings (TIDEGATE_KAFKA_BOOTSTRAP_SERVERS, TIDEGATE_REGISTRY_URL), not part of the "
    "contract.",
    (
        Key("server", "A name for readers.", "text", "", "kafka"),
        Key("type", "The kind of server.", "kafka", REQUIRED, "kafka"),
        Key("host", "For readers.", "text", "", "kafka:9092"),
        Key("format", "The format of a message's bytes.", words(get_args(Format)), REQUIRED, "avro"),
        Key(
            "customProperties",
            "How messages identify the schema that they were written with; see Schemas of messages.",
            "a list",
            "the defaults of each",
        ),
    ),
    ("id", "description", "environment", "roles", "port"),
)

SERVER_PROPERTIES = Section(
    "Schemas of messages",
    "servers[].customProperties[property]",
    "Each entry is {property, value}. Messages are read as the contract defines; the schema that a message was "
    "written with only locates its fields. In a json contract without framing, these entries are informational.",
    (
        Key(
            "framing",
            "How a message identifies its schema: by a magic byte and the registry's id before the payload "
            "(prefix), by the header __value_schema_id (header), by either (both; the header takes precedence), or "
            "not at all (none).",
            words(get_args(Framing)),
            "prefix; none for json",
            "header",
        ),
        Key("subject", "The registry's subject.", text(), "the topic with the suffix -value", "bank.transfers-value"),
        Key(
            "subjectNameStrategy",
            "The strategy of the producers' serializers, in place of subject: TopicNameStrategy (`<topic>-value`), "
            "RecordNameStrategy (the record's full name) or TopicRecordNameStrategy (`<topic>-<record>`). The last two "
            "need record or message. The subject of keys is `<topic>-key`.",
            words(get_args(SubjectNameStrategy)),
            "TopicNameStrategy",
            "RecordNameStrategy",
        ),
        Key(
            "record",
            "The full name of the Avro record to read, if the topic has several.",
            text("a name with dots between its parts"),
            "every record",
            "bank.Transfer",
        ),
        Key(
            "message",
            "The full name of the Protobuf message to read, if the topic has several.",
            text("a name with dots between its parts"),
            "every message",
            "bank.Transfer",
            "record",
        ),
        Key(
            "otherRecords",
            "What happens to messages of other records: they become dead letters, or are only counted.",
            words(get_args(OtherRecords)),
            WireFormat.other_records,
            "skip",
        ),
        Key(
            "keyFormat",
            "How the key of an upsert is read: as UTF-8 text, or framed like the value. The key of the row is the text "
            "of a scalar, or a record as JSON with its keys in order.",
            words(get_args(KeyFormat)),
            WireFormat.key_format,
            "avro",
        ),
        Key(
            "compatibility",
            "The compatibility level to set for the subject in the registry.",
            words(
                ("NONE", *_LEVELS),
                "NONE, BACKWARD, FORWARD, FULL, or one of the last three with the suffix _TRANSITIVE",
            ),
            "FULL_TRANSITIVE; BACKWARD_TRANSITIVE for protobuf; NONE for json",
            "FULL_TRANSITIVE",
        ),
        Key(
            "schemaFile",
            "The schema of messages that do not identify one: a file next to the contract (.avsc, .proto). Files that "
            "a .proto imports are read too: an import is a path in the contract's folder.",
            text("a path in the contract's folder"),
            "",
            "transfer.avsc",
        ),
    ),
)

# https://protobuf.dev/programming-guides/proto3/#assigning
_NUMBER = whole(
    "a whole number from 1 to 536870911 (not 19000 to 19999, which Protobuf reserves)",
    2**29 - 1,
    reserved=range(19_000, 20_000),
)
FIELD_PROPERTIES = Section(
    "Custom properties of a field",
    "schema[physicalType: topic].properties[].customProperties[property]",
    "Each entry is {property, value}.",
    (
        Key(
            "aliases",
            "Avro, Protobuf: other names of the field, tried in order if a writer's schema lacks physicalName.",
            several("a list of names, such as [customer.city]", PATH, 1),
            "",
            "[customer.city]",
        ),
        Key(
            "fieldNumber",
            "Protobuf: the field's number in its message. If set, the field is found by number instead of by name.",
            _NUMBER,
            "",
            "3",
            "number",
        ),
        Key(
            "pathNumbers",
            "Protobuf, only for `tidegate contract export`: if physicalName is a path, the field numbers of the "
            "messages on the path, outermost first.",
            several("a list of numbers", _NUMBER),
            "",
            "[7]",
        ),
        Key(
            "source",
            "A source other than the message's value: see Message metadata.",
            SOURCE,
            "the message's value",
            "header:tenant",
        ),
        Key(
            "unit",
            "JSON and Avro timestamps: messages have an integer, the number of seconds (s), milliseconds (ms), "
            "microseconds (us) or nanoseconds (ns) since 1970-01-01 in UTC. In Avro an int or a long; one with a "
            "timestamp's logical type has that type's unit.",
            words(get_args(Unit)),
            "JSON: a text, with a zone; Avro: a long with a timestamp's logical type",
            "ms",
        ),
    ),
)
