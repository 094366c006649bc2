"""From `<name>.odcs.yaml` (Open Data Contract Standard v3) to a `Contract`; a mistake names file, line and field.

How ODCS' terms are used, from https://bitol-io.github.io/open-data-contract-standard/v3.1.0/:

    id, version, domain                  the pipeline's name, the contract's version, the folder of assets
    servers[type: kafka].format          json
    schema[physicalType: topic]          the message; physicalName is the topic
      properties                         fields: type, required, logicalTypeOptions, quality.invalidValues (enum)
    schema[physicalType: table]          a table; physicalName is schema.table
      customProperties.disposition       append, upsert or accumulate
      properties.primaryKey              accumulate: group by
      properties.transformLogic          accumulate: sum(column), min(column), max(column), count(*)
      quality[engine: greatExpectations] batch rules
    slaProperties                        freshness, and latency: how long a message may wait for a run
    customProperties                     batchMessages, lagMessages, deadLetterShare, deadLetterMinimum, delivery
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

from open_data_contract_standard.model import SchemaObject, SchemaProperty

from platform_defs.contract.column_types import JSON
from platform_defs.contract.message_path import MessagePath, parse_path, spell_path
from platform_defs.contract.model import Contract, Delivery, Field, Limits
from platform_defs.contract.names import checked_name, column_name, column_type_of, custom_values, snake_case
from platform_defs.contract.reserved import column_mistake, output_clash, pipeline_mistake
from platform_defs.contract.rules import examples_of, rules_of
from platform_defs.contract.tables import read_tables
from platform_defs.contract.text import ContractText, Place, one_of
from platform_defs.errors import BadInput

_LIMITS = {  # custom property → field of Limits, its type
    "batchMessages": ("batch_messages", int),
    "lagMessages": ("lag_messages", int),
    "deadLetterShare": ("dead_letter_share", float),
    "deadLetterMinimum": ("dead_letter_minimum", int),
}
_SLAS = {"freshness": "freshness_seconds", "latency": "lag_seconds"}
_UNITS = {"s": 1, "second": 1, "m": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400}
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")  # Kafka's org.apache.kafka.common.internals.Topic


def load(path: Path) -> Contract:
    """The contract in the file. Raises BadInput with file, line and field for the first mistake found."""
    text = ContractText(path)
    document = text.document
    for key in ("id", "version", "domain"):
        if not getattr(document, key):
            raise text.refused(f"{key} is missing", key)
    if not (document.apiVersion or "").startswith("v3."):
        raise text.refused("apiVersion is v3.1.0", "apiVersion")
    (place, message), tables = _objects(text)
    contract = Contract(
        pipeline=_pipeline(text),
        version=str(document.version),
        domain=checked_name(text, document.domain, "domain", ()),
        description=(document.description and document.description.purpose) or "",
        topic=_topic(text, message, place),
        format=_format(text),
        fields=_fields(text, message, place),
        tables=read_tables(text, tables),
        limits=_limits(text),
        path=path,
        delivery=_delivery(text),
    )
    _refuse_doubles(text, contract, tables)
    return contract


def check_fits_without_transform(contract: Contract) -> None:
    """Raises BadInput unless every column of the row table is a field of the message, of the same type.

    For a contract without a transform beside it: there the message's fields become the row as they are.
    """
    fields = {item.name: item for item in contract.fields}
    text = ContractText(contract.path) if contract.path else None
    for column in contract.row_table.columns:
        found = fields.get(column.name)
        wrong = None
        if found is None:
            wrong = f"is no field of the message; {one_of(fields, column.name)}"
        elif found.type != column.type:
            wrong = f"is {found.type.name} in the message and {column.type.name} in the table"
        elif column.required and not found.required:
            wrong = "is required in the table, so it must be required in the message"
        if wrong:
            message = f"{column.name} {wrong} (or write a transform)"
            place = _column_place(text, contract.row_table.name, column.name) if text else ()
            raise text.refused(message, *place) if text else BadInput(message, field=column.name)


def _objects(text: ContractText) -> tuple[tuple[Place, SchemaObject], list[tuple[int, SchemaObject]]]:
    """The message and the tables, each with where it stands."""
    topics, tables = list[tuple[Place, SchemaObject]](), list[tuple[int, SchemaObject]]()
    for n, item in enumerate(text.document.schema_ or ()):
        if item.physicalType == "topic":
            topics.append((("schema", n), item))
        elif item.physicalType == "table":
            tables.append((n, item))
        else:
            hint = one_of(("topic", "table"), item.physicalType)
            raise text.refused(f"unknown physicalType {item.physicalType!r}; {hint}", "schema", n, "physicalType")
    if len(topics) != 1:
        raise text.refused(f"a contract has one object with physicalType: topic, not {len(topics)}", "schema")
    return topics[0], tables


def _pipeline(text: ContractText) -> str:
    name = checked_name(text, text.document.id, "id", ())
    if wrong := pipeline_mistake(name):
        raise text.refused(wrong, "id")
    return name


def _topic(text: ContractText, message: SchemaObject, place: Place) -> str:
    topic = message.physicalName or ""
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        hint = "physicalName is the topic: letters, digits, '.', '_' and '-', at most 249"
        raise text.refused(f"{hint}; not {topic!r}", *place, "physicalName")
    return topic


def _format(text: ContractText) -> Any:
    servers = text.document.servers or []
    if len(servers) != 1 or servers[0].type != "kafka":
        raise text.refused("a contract has one server: {server: ..., type: kafka, host: ..., format: json}", "servers")
    if servers[0].format != "json":
        message = f"format {servers[0].format!r} is not supported; use json (avro and protobuf come later)"
        raise text.refused(message, "servers", 0, "format")
    return "json"


def _fields(text: ContractText, message: SchemaObject, place: Place) -> tuple[Field, ...]:
    if not message.properties:
        raise text.refused("a message has at least one field under properties", *place)
    if message.quality:
        raise text.refused("batch rules judge rows: write them at the row table", *place, "quality")
    fields = dict[str, Field]()
    for n, item in enumerate(message.properties):
        at = (*place, "properties", n)
        _refuse_key_as_name(text, item, at)
        found = _field(text, item, column_name(text, item, at, fields), at)
        if wrong := _path_mistake(found, fields.values()):
            raise text.refused(wrong, *at, "physicalName" if item.physicalName is not None else "name")
        fields[found.name] = found
    return tuple(fields.values())


def _refuse_key_as_name(text: ContractText, item: SchemaProperty, place: Place) -> None:
    """A message's `deviceId` as the name of a field: the name is the column's, the key is written beside it."""
    suggested, key = snake_case(item.name or ""), item.physicalName or item.name
    if item.name and suggested not in (None, item.name):
        why = column_mistake(item.name) or f"{item.name!r} is not a column name (lower-case letters, digits and _)"
        raise text.refused(
            f"{why}. name is the column, physicalName the key in the message: keep name: {suggested} and write "
            f"physicalName: {key}",
            *place,
            "name",
        )


def _path(text: ContractText, item: SchemaProperty, place: Place) -> MessagePath:
    if item.physicalName is None:
        return ()
    try:
        return parse_path(item.physicalName)
    except ValueError as wrong:
        raise text.refused(str(wrong), *place, "physicalName") from None


def _path_mistake(found: Field, others: Iterable[Field]) -> str | None:
    """Two fields of one path; or a path through a value that is no object, since another field reads it as such."""
    for other in others:
        if found.path == other.path:
            return f"{found.name} and {other.name} read the same key of the message, {spell_path(found.path)}"
        outer, inner = sorted((found, other), key=lambda item: len(item.path))
        if inner.path[: len(outer.path)] == outer.path and outer.type != JSON:
            return (
                f"{inner.name} reads {spell_path(inner.path)}, but {spell_path(outer.path)} is not an object: the "
                f"field {outer.name} reads it as {outer.type.name}"
            )
    return None


def _field(text: ContractText, item: SchemaProperty, name: str, place: Place) -> Field:
    for key in ("primaryKey", "transformLogic", "transformSourceObjects"):
        if getattr(item, key) is not None:
            raise text.refused(f"{key} is for columns of tables, not for the message's fields", *place, key)
    kind = column_type_of(text, item, place)
    rules = rules_of(text, item, kind, place)
    return Field(
        name=name,
        type=kind,
        required=bool(item.required),
        rules=rules,
        description=item.description or "",
        classification=item.classification or "",
        examples=examples_of(text, item, kind, rules, place),
        physical_path=_path(text, item, place),
    )


def _limits(text: ContractText) -> Limits:
    found = dict[str, Any]()
    for name, (value, place) in _custom(text).items():
        if name == "delivery":
            continue
        field, kind = _LIMITS[name]
        if isinstance(value, bool) or not isinstance(value, int if kind is int else int | float) or value <= 0:
            raise text.refused(f"{name} is a positive {'whole ' * (kind is int)}number, not {value!r}", *place)
        if name == "deadLetterShare" and value > 1:
            raise text.refused(f"{name} is a share between 0 and 1, not {value!r}", *place)
        found[field] = kind(value)
    for n, item in enumerate(text.document.slaProperties or ()):
        at, name = ("slaProperties", n), item.property or ""
        if name not in _SLAS:
            raise text.refused(f"unknown service level {name!r}; {one_of(_SLAS, name)}", *at, "property")
        if _SLAS[name] in found:
            raise text.refused(f"{name!r} is defined twice", *at, "property")
        found[_SLAS[name]] = _seconds(text, item.value, item.unit, at)
    return Limits(**found)


def _delivery(text: ContractText) -> Delivery:
    value, place = _custom(text).get("delivery", ("exactly_once", ()))
    if value not in get_args(Delivery):
        raise text.refused(f"unknown delivery {value!r}; {one_of(get_args(Delivery), str(value))}", *place)
    return value


def _custom(text: ContractText) -> dict[str, tuple[Any, Place]]:
    return custom_values(text, text.document.customProperties, (*_LIMITS, "delivery"), ())


def _seconds(text: ContractText, value: Any, unit: str | None, place: Place) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise text.refused(f"value is a positive number, not {value!r}", *place, "value")
    factor = _UNITS.get(unit or "") or _UNITS.get((unit or "").removesuffix("s"))
    if factor is None:
        hint = one_of(("seconds", "minutes", "hours", "days"), unit)
        raise text.refused(f"unknown unit {unit!r}; {hint}", *place, "unit")
    return float(value) * factor


def _refuse_doubles(text: ContractText, contract: Contract, tables: list[tuple[int, SchemaObject]]) -> None:
    """Tables and rules have names of their own: Dagster's assets and checks are told apart by them."""
    names = set[str]()
    for n, item in tables:
        if item.physicalName in names:
            raise text.refused(f"table {item.physicalName!r} is defined twice", "schema", n, "physicalName")
        names.add(item.physicalName or "")
    rules = {rule.name for rule in contract.row_rules}
    for n, item in tables:
        for position, entry in enumerate(item.quality or ()):
            if entry.name in rules:
                raise text.refused(f"rule {entry.name!r} is defined twice", "schema", n, "quality", position, "name")
            rules.add(entry.name or "")
    if wrong := output_clash(contract):
        raise text.refused(wrong, "schema")


def _column_place(text: ContractText, table: str, column: str) -> Place:
    for n, item in enumerate(text.document.schema_ or ()):
        for position, one in enumerate(item.properties or () if item.physicalName == table else ()):
            if one.name == column:
                return ("schema", n, "properties", position)
    return ()
