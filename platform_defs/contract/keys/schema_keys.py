"""The keys of a contract's `schema`: the message and its fields, the tables and their columns. See
contract/keys/contract_keys.py.
"""

from typing import get_args

from platform_defs.contract.document.section import ANY_PLACE, ELEMENT, REQUIRED, Key, Section
from platform_defs.contract.keys.value_kinds import PATH, RE2, whole, words
from platform_defs.contract.model.contract import Disposition, Severity

PROPERTY = (*ELEMENT, "semanticType", "criticalDataElement")
FLAT = (
    "list each nested field on its own, with its path as physicalName (such as user.address.city), "
    "or keep the whole value in a column of physicalType: json"
)

_TYPE = (  # of a field and of a column alike
    Key("logicalType", "The type; see Types.", "a logicalType", "the one of physicalType", "string"),
    Key("physicalType", "The type, if logicalType leaves it open; see Types.", "a type", "logicalType", "double"),
    Key(
        "items",
        "For logicalType: array, the type of its items. `physicalType: array<type>` means the same.",
        "a mapping with logicalType or physicalType",
        "",
        "{logicalType: string}",
    ),
)

MESSAGE = Section(
    "The message",
    "schema[physicalType: topic]",
    "The topic, and the fields of its messages. Keys that no field reads are counted and otherwise ignored.",
    (
        Key("name", "A name for readers, used in errors.", "text", "", "transfers"),
        Key("physicalType", "Marks the message.", "topic", REQUIRED, "topic"),
        Key(
            "physicalName",
            "The topic. Several contracts may read the same topic.",
            "letters, digits, '.', '_' and '-', at most 249",
            REQUIRED,
            "bank.transfers",
        ),
        Key("properties", "The fields; see Field.", "a list", REQUIRED),
        Key("customProperties", "The topic's settings; see The topic.", "a list", ""),
        Key("description", "For readers.", "text"),
    ),
    (*ELEMENT, "logicalType", "dataGranularityDescription", "context"),
    {"quality": "batch rules check rows: define them on the row table"},
)

FIELD = Section(
    "Field",
    "schema[physicalType: topic].properties[]",
    "A value in the message, which becomes the column of that name.",
    (
        Key(
            "name",
            "The column. Also the key in the message, if physicalName is left out.",
            "lower-case letters, digits and _, at most 63, not beginning with a digit or _",
            REQUIRED,
            "device_id",
        ),
        Key(
            "physicalName",
            "The key in the message: any JSON key, or the path of a key in nested objects. In a key, a dot is written "
            r"\. and a backslash \\; the empty key is \e.",
            PATH,
            "the name",
            "user.homeAddress.city",
        ),
        *_TYPE,
        Key("required", "A message without the value is a dead letter.", "true, false", "false", "true"),
        Key("logicalTypeOptions", "Row rules; see Options.", "a mapping", "", "{minimum: 0}"),
        Key("quality", "The values that are allowed; see Enum.", "a list of one", ""),
        Key(
            "examples",
            "Values that satisfy every rule; `tidegate produce` uses them in messages.",
            "a list",
            "",
            "[T1, T20261101]",
        ),
        Key("description", "Shown in Dagster.", "text"),
        Key(
            "classification",
            "Classified values are never shown: see What is classified. They are stored like any others.",
            "text",
            "",
            "restricted",
        ),
        Key("customProperties", "Other names and numbers; see Custom properties of a field.", "a list", ""),
    ),
    PROPERTY,
    {
        "enum": "write an enum as quality: metric invalidValues",
        "properties": FLAT,
        "map": FLAT,
        **dict.fromkeys(
            ("primaryKey", "transformLogic", "transformSourceObjects"),
            "it applies to table columns, not to message fields",
        ),
    },
)

ITEMS = Section(
    "Items of an array",
    "schema[].properties[].items",
    "The type of an array's elements. Elements must not be null; arrays of objects or arrays go into a json column.",
    (
        Key("name", "For readers.", "text"),
        Key("logicalType", "The type; see Types.", "a logicalType", "the one of physicalType", "string"),
        Key("physicalType", "The type, if logicalType leaves it open; see Types.", "a type", "logicalType", "uuid"),
        Key("description", "For readers.", "text"),
    ),
    PROPERTY,
    {
        "properties": FLAT,
        "items": "an array's items are single values; keep the whole value in a column of physicalType: json",
        **dict.fromkeys(("logicalTypeOptions", "quality", "examples"), "an array's items have no row rules"),
    },
)

_LENGTH = whole("a whole number of characters", 2**31 - 1, least=0)
OPTIONS = Section(
    "Options",
    "schema[physicalType: topic].properties[].logicalTypeOptions",
    "Row rules. A message that breaks one is a dead letter under the rule's name, <field>_<option> in snake case.",
    (
        Key("pattern", "RE2 matches the whole value: no look-arounds or back references.", RE2, "", '"A[0-9]{5}"'),
        Key("minimum", "The value is at least this.", "a value of the field's type", "", "0.01"),
        Key("maximum", "The value is at most this.", "a value of the field's type", "", "1000000"),
        Key("minLength", "The minimum number of characters (Unicode code points).", _LENGTH, "", "1"),
        Key("maxLength", "The maximum number of characters.", _LENGTH, "", "140"),
    ),
)

ENUM = Section(
    "Enum",
    "schema[physicalType: topic].properties[].quality[]",
    "The row rule <field>_enum: the value is one of a list. For strings and integers.",
    (
        Key("metric", "ODCS' metric for an enum.", "invalidValues", REQUIRED, "invalidValues"),
        Key("arguments", "The allowed values.", "{validValues: [...]}", REQUIRED, "{validValues: [CHF, EUR]}"),
        Key("mustBe", "How many values may be invalid.", "0", REQUIRED, "0"),
        Key("description", "Shown in Dagster.", "text", "what the rule requires"),
        Key("type", "ODCS' type of a metric.", "library", "library"),
    ),
    (*ANY_PLACE, "name", "dimension", "businessImpact"),
)

TABLE = Section(
    "Table",
    "schema[physicalType: table]",
    "A table that the pipeline owns: one row table (append or upsert), and accumulates over an append one.",
    (
        Key("name", "A name for readers, used in errors.", "text", "", "postings"),
        Key("physicalType", "Marks a table.", "table", REQUIRED, "table"),
        Key("physicalName", "The table.", "schema.table, the schema not reserved", REQUIRED, "bank.postings"),
        Key("customProperties", "The disposition; see Disposition.", "a list of one", REQUIRED),
        Key("properties", "The columns; see Column.", "a list", REQUIRED),
        Key("quality", "Batch rules; see Batch rule. Only the row table has them.", "a list", "none"),
        Key("description", "Shown in Dagster.", "text", "the contract's purpose"),
    ),
    (*ELEMENT, "logicalType", "dataGranularityDescription", "context"),
)

TABLE_PROPERTIES = Section(
    "Disposition",
    "schema[physicalType: table].customProperties[property]",
    "The entry is {property: disposition, value: ...}.",
    (
        Key(
            "disposition",
            "append: a row for each message, or several through a transform. upsert: the latest state of each message "
            "key; a message without a value deletes its row. accumulate: exact sums over the row table.",
            words(get_args(Disposition)),
            REQUIRED,
            "append",
        ),
    ),
)

COLUMN = Section(
    "Column",
    "schema[physicalType: table].properties[]",
    "A column. Without a transform, each column of the row table is the message's field of that name and type.",
    (
        Key("name", "The column.", "lower-case letters, digits and _, at most 63; not reserved", REQUIRED, "amount"),
        Key(
            "physicalName",
            "Accepted because other tools write it; it must equal the name.",
            "the name",
            "the name",
            "amount",
        ),
        *_TYPE,
        Key("required", "NOT NULL.", "true, false", "false", "true"),
        Key("primaryKey", "Accumulate: group by this column of the row table.", "true, false", "false", "true"),
        Key(
            "transformLogic",
            "Accumulate: an aggregate over a column of the row table.",
            "sum(column), count(*), count(column), min(column), max(column)",
            "",
            "sum(amount)",
        ),
        Key("transformSourceObjects", "Accumulate: for readers.", "[the row table]", "", "[bank.postings]"),
        Key("description", "Shown in Dagster.", "text"),
        Key("classification", "As for a field: see What is classified.", "text", "the field's", "restricted"),
        Key("customProperties", "Its former name; see Column properties.", "a list of one", ""),
    ),
    (*PROPERTY, "transformDescription"),
    {
        "enum": "a column has no row rules; write them at the message's field",
        "properties": FLAT,
        "map": FLAT,
        **dict.fromkeys(
            ("logicalTypeOptions", "quality", "examples"),
            "a table's column has no row rules; write them at the message's field",
        ),
    },
)

COLUMN_PROPERTIES = Section(
    "Column properties",
    "schema[physicalType: table].properties[].customProperties[property]",
    "The entry is {property: renamedFrom, value: ...}.",
    (
        Key(
            "renamedFrom",
            "The column's previous name: `tidegate contract apply --allow breaking` renames it and keeps its values.",
            "a column's name",
            "",
            "iban",
        ),
    ),
)

BATCH_RULE = Section(
    "Batch rule",
    "schema[physicalType: table].quality[]",
    "A Great Expectations rule over the rows of a batch, checked before they are published.",
    (
        Key(
            "name", "The asset check in Dagster.", "lower-case letters, digits and _", REQUIRED, "postings_sum_to_zero"
        ),
        Key("type", "ODCS' type for another engine's rule.", "custom", REQUIRED, "custom"),
        Key("engine", "The engine.", "greatExpectations", REQUIRED, "greatExpectations"),
        Key(
            "severity",
            "blocking: a batch that fails is not published. warning: it is published, and the check is red.",
            words(get_args(Severity)),
            REQUIRED,
            "blocking",
        ),
        Key(
            "implementation",
            "The expectation, and its arguments.",
            "{expectation: Expect..., arguments: {...}}",
            REQUIRED,
            "{expectation: ExpectColumnSumToBeBetween, arguments: {column: amount, min_value: 0}}",
        ),
        Key("description", "Shown in Dagster.", "text"),
    ),
    (*ANY_PLACE, "dimension", "businessImpact"),
)
