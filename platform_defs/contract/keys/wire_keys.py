"""The keys that decide how messages are read: the server's format and what goes with it. See contract/keys/keys.py."""

from platform_defs.contract.document.section import REQUIRED, Key, Section

SERVER = Section(
    "Server",
    "servers[]",
    "Kafka. Where Tidegate connects is a setting (TIDEGATE_KAFKA_BOOTSTRAP_SERVERS, TIDEGATE_REGISTRY_URL), not the "
    "contract's business.",
    (
        Key("server", "A name for readers.", "text", "", "kafka"),
        Key("type", "The kind of server.", "kafka", REQUIRED, "kafka"),
        Key("host", "For readers.", "text", "", "kafka:9092"),
        Key("format", "How a message's bytes are read.", "json, avro, protobuf", REQUIRED, "avro"),
        Key(
            "customProperties",
            "How messages name the schema that they were written with; see Schemas of messages.",
            "a list",
            "the defaults of each",
        ),
    ),
    ("id", "description", "environment", "roles", "port"),
)

SERVER_PROPERTIES = Section(
    "Schemas of messages",
    "servers[].customProperties[property]",
    "Each entry is {property, value}. The contract is what messages are read as; the schema that a message was written "
    "with only says where its fields are. Of a json contract without framing, whatever is here is for readers only.",
    (
        Key(
            "framing",
            "How a message names its schema: by a magic byte and the registry's id before the payload (prefix), by the "
            "header __value_schema_id (header), by either (both; the header is looked at first), or not at all (none).",
            "prefix, header, both, none",
            "prefix; none for json",
            "header",
        ),
        Key("subject", "The registry's subject.", "text", "the topic with -value behind it", "bank.transfers-value"),
        Key(
            "subjectNameStrategy",
            "The strategy of the producers' serializers, in place of subject: TopicNameStrategy (`<topic>-value`), "
            "RecordNameStrategy (the record's full name) or TopicRecordNameStrategy (`<topic>-<record>`). The last two "
            "need record or message. The subject of keys is `<topic>-key`.",
            "TopicNameStrategy, RecordNameStrategy, TopicRecordNameStrategy",
            "TopicNameStrategy",
            "RecordNameStrategy",
        ),
        Key(
            "record",
            "The full name of the Avro record that is meant, where the topic carries several.",
            "a name with dots between its parts",
            "every record",
            "bank.Transfer",
        ),
        Key(
            "message",
            "The full name of the Protobuf message that is meant, where the topic carries several.",
            "a name with dots between its parts",
            "every message",
            "bank.Transfer",
        ),
        Key(
            "otherRecords",
            "What becomes of messages of another record: a dead letter, or nothing but a count.",
            "dead_letter, skip",
            "dead_letter",
            "skip",
        ),
        Key(
            "keyFormat",
            "How the key of an upsert is read: as UTF-8 text, or framed like the value. The key of the row is the text "
            "of a scalar, or a record as JSON with its keys in order.",
            "text, avro, protobuf, json",
            "text",
            "avro",
        ),
        Key(
            "compatibility",
            "What the registry is asked to hold new versions of the subject to.",
            "NONE, BACKWARD, FORWARD, FULL, or one of the last three with _TRANSITIVE behind it",
            "FULL_TRANSITIVE; BACKWARD_TRANSITIVE for protobuf; NONE for json",
            "FULL_TRANSITIVE",
        ),
        Key(
            "schemaFile",
            "The schema of messages that name none: a file beside the contract (.avsc, .proto).",
            "a path in the contract's folder",
            "",
            "transfer.avsc",
        ),
    ),
)

FIELD_PROPERTIES = Section(
    "Custom properties of a field",
    "schema[physicalType: topic].properties[].customProperties[property]",
    "Each entry is {property, value}.",
    (
        Key(
            "aliases",
            "Avro, Protobuf: other names of the field, tried in order where a writer's schema lacks physicalName.",
            "a list of keys with dots between them",
            "",
            "[customer.city]",
        ),
        Key(
            "fieldNumber",
            "Protobuf: the field's number in its message. Given, the number decides, and not the name.",
            "a whole number from 1 to 536870911, not from 19000 to 19999",
            "",
            "3",
        ),
        Key(
            "pathNumbers",
            "Protobuf, for `tidegate contract export` alone: the numbers of the messages that lead to the field, the "
            "outermost first, where physicalName is a path.",
            "a list of numbers",
            "",
            "[7]",
        ),
        Key(
            "source",
            "What the field holds in place of a part of the message's value: see Message metadata.",
            "key, timestamp, timestampType, topic, partition, offset, headers, header:NAME",
            "the message's value",
            "header:tenant",
        ),
        Key(
            "unit",
            "JSON, of a timestamp: messages have it as an integer, the number of seconds (s), milliseconds (ms), "
            "microseconds (us) or nanoseconds (ns) since 1970-01-01 in UTC.",
            "s, ms, us, ns",
            "a text, with a zone",
            "ms",
        ),
    ),
)
