"""A correct contract, and mistakes to make in it. docs/reference/errors.md shows the error for each."""

GOOD = """\
apiVersion: v3.1.0
kind: DataContract
id: shop_orders
version: 1.0.0
status: active
domain: shop
servers: [{server: kafka, type: kafka, host: "kafka:9092", format: json}]
slaProperties:
  - {property: freshness, value: 2, unit: hours}
  - {property: latency, value: 5, unit: s}
customProperties:
  - {property: batchMessages, value: 1000}
schema:
  - name: orders
    physicalType: topic
    physicalName: shop.orders
    properties:
      - name: order_id
        logicalType: string
        required: true
        logicalTypeOptions: {pattern: "O[0-9]+", minLength: 2, maxLength: 20}
        examples: [O1]
      - name: kind
        logicalType: string
        quality:
          - {metric: invalidValues, arguments: {validValues: [web, phone]}, mustBe: 0}
      - name: price
        physicalType: decimal(10,2)
        required: true
        logicalTypeOptions: {minimum: 0.01, maximum: 1000}
      - name: weight
        physicalType: double
      - name: ordered_at
        logicalType: timestamp
        examples: ["2026-11-01T10:00:00+01:00"]
  - name: orders
    physicalType: table
    physicalName: shop.orders
    customProperties:
      - {property: disposition, value: append}
    properties:
      - {name: order_id, logicalType: string, required: true}
      - {name: price, physicalType: "decimal(10,2)", required: true}
      - {name: weight, physicalType: double}
      - {name: kind, logicalType: string}
    quality:
      - name: some_orders
        type: custom
        engine: greatExpectations
        severity: warning
        implementation: {expectation: ExpectColumnMaxToBeBetween, arguments: {column: price, min_value: 1}}
  - name: totals
    physicalType: table
    physicalName: shop.totals
    customProperties:
      - {property: disposition, value: accumulate}
    properties:
      - {name: order_id, logicalType: string, required: true, primaryKey: true}
      - {name: total, physicalType: "decimal(20,2)", transformLogic: sum(price), transformSourceObjects: [shop.orders]}
      - {name: orders, logicalType: integer, transformLogic: count(*)}
"""

FIELD = "customProperties: [{property: "

MISTAKES = [
    # (text, its replacement, part of the field's name, part of the message)
    ("version: 1.0.0", "versoin: 1.0.0", "versoin", "did you mean 'version'"),
    ("version: 1.0.0", "version: 1.0", "version", "a string: put 1.0 in quotes"),
    ("domain: shop", "domain: ''", "domain", "missing"),
    ("id: shop_orders", "id: Shop-Orders", "id", "lower-case"),
    ("v3.1.0", "v2.2.2", "apiVersion", "v3.1.0"),
    ('servers: [{server: kafka, type: kafka, host: "kafka:9092", format: json}]', "status2: x", "status2", "status"),
    ("format: json", "format: arvo", "kafka.format", "did you mean 'avro'"),
    ("format: json", "format: xml", "kafka.format", "use one of: json, avro, protobuf"),
    *(
        ("format: json}", f"format: {kind}, customProperties: [{given}]}}", f"kafka.{field}", message)
        for kind, given, field, message in (
            ("avro", "{property: framming, value: prefix}", "framming", "did you mean 'framing'"),
            ("avro", "{property: framing, value: perfix}", "framing.value", "did you mean 'prefix'"),
            ("avro", "{property: framing, value: none}", "framing.value", "requires schemaFile"),
            (
                "avro",
                "{property: framing, value: none}, {property: subject, value: s}",
                "subject",
                "do not use registry schemas",
            ),
            ("avro", "{property: schemaFile, value: a.avsc}", "schemaFile", "identify their schema themselves"),
            (
                "avro",
                "{property: framing, value: none}, {property: schemaFile, value: a.avsc}",
                "schemaFile.value",
                "'a.avsc' cannot be read: No such file",
            ),
            (
                "avro",
                "{property: framing, value: none}, {property: schemaFile, value: ../a.avsc}",
                "schemaFile.value",
                "outside the contract's folder",
            ),
            ("avro", "{property: message, value: shop.Order}", "message", "write record"),
            ("protobuf", "{property: record, value: shop.Order}", "record", "write message"),
            ("json", "{property: framing, value: prefix}, {property: record, value: R}", "record", "has no record"),
            ("avro", "{property: otherRecords, value: skip}", "otherRecords", "name the one to read with record"),
            ("avro", "{property: keyFormat, value: utf8}", "keyFormat", "use one of: text, avro, protobuf, json"),
            ("json", "{property: framing, value: none}, {property: keyFormat, value: json}", "keyFormat", "none)"),
            ("json", "{property: framing, value: none}, {property: subject, value: s}", "subject", "framing: none"),
            ("avro", "{property: compatibility, value: BACKWARDS}", "compatibility", "did you mean 'BACKWARD'"),
            ("avro", "{property: subject, value: 1}", "subject.value", "must be text, not 1"),
        )
    ),
    ("name: kind\n", f"name: kind\n        {FIELD}aliases, value: [sort]}}]\n", "aliases", "for avro and protobuf"),
    ("name: kind\n", f"name: kind\n        {FIELD}fieldNumber, value: 2}}]\n", "fieldNumber", "the format is json"),
    ("name: kind\n", f"name: kind\n        {FIELD}pathNumbers, value: [2]}}]\n", "pathNumbers", "the format is json"),
    ("name: kind\n", f"name: kind\n        {FIELD}alias, value: [sort]}}]\n", "alias", "did you mean 'aliases'"),
    ("type: kafka", "type: postgres", "servers", "one server"),
    ("physicalType: topic", "physicalType: topik", "physicalType", "did you mean 'topic'"),
    ("physicalType: topic", "physicalType: table", "schema", "physicalType: topic; found 0"),
    (
        "physicalName: shop.orders\n    properties:\n      - name: order_id",
        "properties:\n      - name: order_id",
        "",
        "topic",
    ),
    ("physicalType: decimal(10,2)\n", "physicalType: decimal(10,12)\n", "orders.price.physicalType", "not supported"),
    ("logicalType: timestamp", "logicalType: timestmap", "ordered_at.logicalType", "did you mean 'timestamp'"),
    ("logicalType: timestamp", "logicalType: number", "ordered_at.logicalType", "decimal"),
    ("logicalType: timestamp", "required: true", "ordered_at", "type is missing"),
    ("name: kind\n", "name: order_id\n", "order_id.name", "twice"),
    ("name: kind\n", "name: _kind\n", "_kind.name", "reserved for Tidegate's own columns. name is the column"),
    ("name: kind\n", "name: deviceKind\n", "deviceKind.name", "use name: device_kind and physicalName: deviceK"),
    ("name: kind\n", "name: NULL_\n", "NULL_.name", 'use name: "null" and physicalName: NULL_'),
    ("name: kind\n", "name: ctid\n", "ctid.name", "system column"),
    ("name: kind\n", "name: kind\n        physicalName: 'a..b'\n", "kind.physicalName", "not a path of keys"),
    ("name: kind\n", "name: kind\n        physicalName: order_id\n", "kind.physicalName", "read the same key"),
    ("name: kind\n", "name: kind\n        physicalName: price.kind\n", "price.name", "price is not an object"),
    ("name: kind\n", "name: kind\n        properties: [{name: a}]\n", "kind.properties", "physicalName (such as user"),
    ("name: kind\n", "name: kind\n        items: {name: a}\n", "kind.items", "items requires logicalType: array"),
    ("physicalType: double\n      -", "logicalType: array\n      -", "weight.logicalType", "needs its items"),
    ("physicalType: double\n      -", "physicalType: array<json>\n      -", "weight.physicalType", "single values"),
    ("physicalType: double\n      -", "physicalType: array<array<date>>\n      -", "weight.physical", "single values"),
    ("physicalType: double\n      -", "physicalType: array<txt>\n      -", "weight.physicalType", "'txt' is not supp"),
    *(
        (
            "physicalType: double\n      -",
            f"logicalType: array\n        items: {items}\n      -",
            f"weight{on}",
            says,
        )
        for items, on, says in (
            ("{name: a}", ".items", "a type is missing"),
            ("{logicalType: number}", ".items.logicalType", "is ambiguous"),
            ("{physicalType: json}", ".items", "its items are single values"),
            ("{logicalType: array, items: {logicalType: date}}", ".items.items", "items are single values"),
            ("{logicalType: object, properties: [{name: a}]}", ".items.properties", "physicalType: json"),
            ("{logicalType: string, examples: [a]}", ".items.examples", "have no row rules"),
        )
    ),
    ("id: shop_orders", "id: verify", "id", "serves all pipelines"),
    ("id: shop_orders", "id: config", "id", "reserved word in Dagster"),
    ("id: shop_orders", "id: drain_orders", "id", "begin with drain_"),
    ("physicalName: shop.totals", "physicalName: kafka.totals", "totals.physicalName", "kafka is reserved"),
    ("physicalName: shop.totals", "physicalName: tidegate.totals", "totals.physicalName", "the ledger"),
    ("physicalName: shop.totals", "physicalName: pg_shop.totals", "totals.physicalName", "pg_"),
    ("physicalName: shop.totals", "physicalName: shop__replay.totals", "totals.physicalName", "replays build"),
    ("name: some_orders", "name: not_halted", "not_halted.name", "the name of one of Tidegate's own checks"),
    (
        "name: weight, physical",
        "name: weight, physicalName: Weight, physical",
        "weight.physicalName",
        "only repeat the name",
    ),
    ("logicalType: timestamp", "logicalType: array", "ordered_at.logicalType", "physicalType: json"),
    (
        "physicalType: double\n",
        "physicalType: json\n        logicalType: string\n",
        "weight.logicalType",
        "object or array",
    ),
    (
        "physicalType: double\n",
        "physicalType: json\n        logicalTypeOptions: {minimum: 1}\n",
        "weight",
        "leave it out",
    ),
    ("name: kind\n", f"name: {'k' * 64}\n", "name", "63 bytes"),
    ("name: kind\n", "name: Kind\n", "Kind.name", "lower-case"),
    ("name: kind\n", "name: kind\n        unique: true\n", "kind.unique", "not supported"),
    ("name: kind\n", "name: kind\n        enum: [{value: web}]\n", "kind.enum", "invalidValues"),
    ("name: kind\n", "name: kind\n        primaryKey: true\n", "kind.primaryKey", "applies to table columns"),
    ("name: kind\n", "name: kind\n        reqired: true\n", "kind.reqired", "did you mean 'required'"),
    (
        "required: true\n        logicalTypeOptions: {pattern",
        "required: maybe\n        logicalTypeOptions: {pattern",
        "",
        "must be true or false, not 'maybe'",
    ),
    ("required: true", 'required: "yes"', "required", "must be true or false, not 'yes'"),
    ("required: true", "required: yes", "required", "must be true or false, not 'yes'"),
    ("required: true", "required: on", "required", "must be true or false, not 'on'"),
    ("required: true", "required: y", "required", "must be true or false, not 'y'"),
    ("required: true", "required: 1", "required", "must be true or false, not 1"),
    ("primaryKey: true", 'primaryKey: "true"', "totals.order_id.primaryKey", "must be true or false, not 'true'"),
    ('"O[0-9]+"', '"O[0-9+"', "order_id.logicalTypeOptions.pattern", "RE2"),
    ('"O[0-9]+"', '"(?=O).*"', "order_id.logicalTypeOptions.pattern", "RE2"),
    ('"O[0-9]+"', '"O)|(1"', "order_id.logicalTypeOptions.pattern", "RE2"),
    ('"O[0-9]+"', "5", "order_id.logicalTypeOptions.pattern", "quotes"),
    ('"O[0-9]+"', '"P[0-9]+"', "order_id.examples", "order_id_pattern"),
    ("minLength: 2", "minLenght: 2", "order_id.logicalTypeOptions.minLenght", "did you mean 'minLength'"),
    ("minLength: 2", "minLength: 21", "order_id.logicalTypeOptions.minLength", "upper limit"),
    ("minLength: 2", "minLength: -1", "order_id.logicalTypeOptions.minLength", "whole number"),
    ("minLength: 2", "minimum: 2", "order_id.logicalTypeOptions.minimum", "option"),
    ("examples: [O1]", "examples: [1]", "order_id.examples", "not a string"),
    ("minimum: 0.01", "minimum: 1000.01", "price.logicalTypeOptions.minimum", "upper limit"),
    ("minimum: 0.01", "minimum: 0.001", "price.logicalTypeOptions.minimum", "does not fit decimal(10,2)"),
    ("minimum: 0.01", "minimum: cheap", "price.logicalTypeOptions.minimum", "not a decimal"),
    ("minimum: 0.01", "minimum: 12345678.0123456789", "price.logicalTypeOptions.minimum", "quotes"),
    ("minimum: 0.01", "multipleOf: 0.01", "price.logicalTypeOptions.multipleOf", "option"),
    ("+01:00", "", "ordered_at.examples", "zone"),
    ('"2026-11-01T10:00:00+01:00"', "20261101", "ordered_at.examples", "not a timestamp"),
    ('"2026-11-01T10:00:00+01:00"', '"0001-01-01T00:00:00+01:00"', "ordered_at.examples", "does not fit timestamp"),
    ("examples: [O1]", "examples: !secret O1", "", "YAML 1.2"),
    ("examples: [O1]", "<<: {examples: [O1]}", "", "merge keys"),
    ("examples: [O1]", "? [examples]\n        : [O1]", "", "a key must be a scalar"),
    ("examples: [O1]", "examples: [O1]\n        examples: [O1]", "", "appears twice"),
    ("name: kind\n", "name: kind\n        relationships: [{to: a.b}]\n", "kind.relationships", "does not enforce it"),
    ("unit: hours", "unit: hours, schedule: x", "freshness.schedule", "does not enforce it"),
    ("mustBe: 0", "mustBe: 0, unit: percent", "kind.quality.0.unit", "does not enforce it"),
    ("severity: warning", "severity: warning\n        schedule: daily", "some_orders.schedule", "not enforce it"),
    ("metric: invalidValues", "metric: invalidValuse", "kind.quality", "invalidValues"),
    ("validValues: [web, phone]", "values: [web]", "kind.quality", "validValues: [...]"),
    ("validValues: [web, phone]", "validValues: []", "kind.quality", "at least one"),
    ("validValues: [web, phone]", "validValues: [web, web]", "kind.quality", "twice"),
    ("validValues: [web, phone]", "validValues: [web, 1]", "kind.quality", "not a string"),
    ("mustBe: 0", "mustBe: 1", "kind.quality", "mustBe: 0"),
    ("logicalType: string\n        quality", "logicalType: boolean\n        quality", "kind.quality", "enum requires"),
    (
        "logicalType: string\n        quality",
        "logicalType: string\n        logicalTypeOptions: {maxLength: 3}\n        quality",
        "kind.quality",
        "kind_max_length",
    ),
    ("value: append", "value: apend", "orders.disposition.value", "did you mean 'append'"),
    ("property: disposition, value: append", "property: dispositon, value: append", "dispositon", "did you mean"),
    ("value: append", "value: accumulate", "orders.order_id", "primaryKey: true"),
    ("value: accumulate", "value: append", "totals.order_id.primaryKey", "for accumulate"),
    ("value: append", "value: upsert", "totals", "append row table"),
    ("physicalName: shop.totals", "physicalName: totals", "totals.physicalName", "schema.table"),
    ("physicalName: shop.totals", "physicalName: shop.orders", "physicalName", "twice"),
    ("transformLogic: sum(price)", "transformLogic: sum(prize)", "totals.total.transformLogic", "did you mean 'price'"),
    ("transformLogic: sum(price)", "transformLogic: avg(price)", "totals.total.transformLogic", "sum, count, min, max"),
    ("transformLogic: sum(price)", "transformLogic: sum(weight)", "totals.total.transformLogic", "exact"),
    ("transformLogic: sum(price)", "transformLogic: sum(kind)", "totals.total.transformLogic", "only integers"),
    ("transformLogic: sum(price)", "transformLogic: max(price)", "totals.total.transformLogic", "decimal(10,2)"),
    ("transformLogic: sum(price)", "transformLogic: sum(*)", "totals.total.transformLogic", "name a column"),
    ("transformLogic: sum(price)", "transformLogic: price", "totals.total.transformLogic", "not an aggregate"),
    ("decimal(20,2)", "decimal(9,2)", "totals.total.transformLogic", "narrower"),
    ('physicalType: "decimal(20,2)"', "physicalType: double", "totals.total.transformLogic", "decimal or an integer"),
    (
        'name: total, physicalType: "decimal(20,2)", transformLogic: sum(price)',
        "name: total, physicalType: double, required: true, transformLogic: min(weight)",
        "totals.total.transformLogic",
        "exact",
    ),
    (
        'name: total, physicalType: "decimal(20,2)", transformLogic: sum(price)',
        "name: total, logicalType: string, required: true, transformLogic: min(kind)",
        "totals.total.required",
        "NULL for a group in which no row has a value",
    ),
    ("[shop.orders]", "[shop.ordres]", "totals.total.transformSourceObjects", "shop.orders"),
    (
        "logicalType: integer, transformLogic",
        "logicalType: string, transformLogic",
        "totals.orders",
        "count must be an integer",
    ),
    (", transformLogic: count(*)", "", "totals.orders", "primaryKey: true"),
    (
        "name: order_id, logicalType: string, required: true, primaryKey",
        "name: kind, logicalType: string, primaryKey",
        "totals.kind.primaryKey",
        "required",
    ),
    (
        "name: weight, physicalType: double}",
        "name: weight, physicalType: double, primaryKey: true}",
        "weight",
        "accumulate",
    ),
    (
        "name: weight, physicalType: double}",
        "name: weight, physicalType: double, customProperties: [{property: renamedFrom, value: 7}]}",
        "weight.renamedFrom",
        "7 must consist of",
    ),
    (
        "name: weight, physicalType: double}",
        "name: weight, physicalType: double, examples: [1]}",
        "weight.examples",
        "message",
    ),
    ("engine: greatExpectations", "engine: soda", "some_orders", "greatExpectations"),
    ("severity: warning", "severity: warn", "some_orders.severity", "did you mean 'warning'"),
    (
        "ExpectColumnMaxToBeBetween",
        "ExpctColumnMaxToBeBetween",
        "some_orders.implementation.expectation",
        "did you mean ExpectColumnMaxToBeBetween?",
    ),
    (
        "{expectation: ExpectColumnMaxToBeBetween, arguments: {column: price, min_value: 1}}",
        "{expectation: ExpectQueryResultsToMatchComparison, arguments: {base_query: DROP TABLE t}}",
        "some_orders.implementation.expectation",
        "run no custom SQL",
    ),
    (
        "{expectation: ExpectColumnMaxToBeBetween, arguments: {column: price, min_value: 1}}",
        "{expectation: UnexpectedRowsExpectation, arguments: {unexpected_rows_query: DROP TABLE t}}",
        "some_orders.implementation.expectation",
        "run no custom SQL",
    ),
    ("column: price, min", "column: prize, min", "implementation.arguments.column", "did you mean 'price'"),
    ("arguments: {column: price, min_value: 1}", "arguments: [price]", "implementation.arguments", "mapping"),
    ("arguments: {column: price, min_value: 1}", "args: {}", "implementation", "arguments"),
    ("name: some_orders", "name: price_minimum", "price_minimum.name", "twice"),
    ("property: batchMessages", "property: batchMesages", "batchMesages", "did you mean 'batchMessages'"),
    ("value: 1000}", "value: 0}", "batchMessages.value", "positive"),
    ("value: 1000}", "value: 1.5}", "batchMessages.value", "whole"),
    (
        "property: batchMessages, value: 1000",
        "property: deadLetterShare, value: 2",
        "deadLetterShare.value",
        "between 0",
    ),
    (
        "property: batchMessages, value: 1000",
        "property: delivery, value: at_least_once",
        "delivery.property",
        "every pipeline delivers exactly once",
    ),
    (
        "property: batchMessages, value: 1000",
        "property: publication, value: directly",
        "publication.value",
        "did you mean 'direct'",
    ),
    (
        "property: batchMessages, value: 1000",
        "property: evolution, value: additiv",
        "evolution.value",
        "did you mean 'additive'",
    ),
    (
        "{name: kind, logicalType: string}",
        "{name: kind, logicalType: string, customProperties: [{property: renamedFrom, value: kind}]}",
        "renamedFrom.value",
        "cannot be kind itself",
    ),
    (
        "{name: weight, physicalType: double}\n      - {name: kind, logicalType: string}",
        "{name: weight, logicalType: string, customProperties: [{property: renamedFrom, value: kind}]}\n"
        "      - {name: kind, physicalType: double, customProperties: [{property: renamedFrom, value: weight}]}",
        "renamedFrom.value",
        "take each other's names cannot be renamed at once (kind, weight)",
    ),
    ("property: latency", "property: latencies", "latencies", "did you mean 'latency'"),
    ("property: latency", "property: freshness", "freshness", "twice"),
    ("unit: hours", "unit: fortnights", "freshness.unit", "seconds"),
]
