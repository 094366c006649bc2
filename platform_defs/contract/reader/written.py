"""A contract as a document again: ODCS in YAML, which `odcs.load` reads back as the same contract, less its examples.

The ledger keeps a contract like this, with the digest of all that decides what a message becomes. A document is written
without the keys that ODCS has for readers only, without examples, and without keys at their default, so that a later
version of Tidegate, which knows more keys, computes the same digest for an unchanged contract.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from hashlib import sha256
from typing import Any

import yaml

from platform_defs.contract.document.node import as_list, as_mapping
from platform_defs.contract.document.section import written_values
from platform_defs.contract.keys.keys import LIMITS, SERVICE_LEVELS, SETTINGS
from platform_defs.contract.keys.schema_keys import OPTIONS
from platform_defs.contract.keys.wire_keys import FIELD_PROPERTIES, RECORD, SERVER_PROPERTIES, standard_wire
from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.contract import BatchRule, Column, Contract, Field, Limits, RowRule, Table
from platform_defs.contract.model.message_path import spell_path

Document = dict[str, Any]  # of what YAML and JSON can hold


def contract_digest(contract: Contract) -> str:
    """Return the digest of what decides which rows a message becomes, and of the version; not of descriptions and
    limits.

    32 hexadecimal digits. Two contracts of one digest make the same rows of every message.
    """
    judged = without_words(contract)
    return sha256(_canonical(document(judged)) + judged.wire.schema_text.encode()).hexdigest()[:32]


def same_words(one: Contract, other: Contract) -> bool:
    """Return True if the two are the same, descriptions and limits included, whatever their versions."""
    return _canonical(document(replace(one, version=""))) == _canonical(document(replace(other, version="")))


def without_words(contract: Contract) -> Contract:
    """Return the contract without what does not affect rows: descriptions, limits, evolution."""
    return replace(
        contract,
        domain="",
        description="",
        fields=tuple(_wordless_field(item) for item in contract.fields),
        metadata_fields=tuple(_wordless_field(item) for item in contract.metadata_fields),
        tables=tuple(_wordless_table(table) for table in contract.tables),
        limits=Limits(),
        path=None,
        evolution="manual",
        wire=replace(
            contract.wire, subject=context_of(contract.wire.subject), keys_subject="", compatibility="", schema_file=""
        ),
    )


def context_of(subject: str) -> str:
    """Return the registry's context in a subject (`:.bank:` of `:.bank:transfers`); empty for the default one.

    In another context an id means another schema:
    https://docs.confluent.io/platform/current/schema-registry/schema-linking-cp.html#contexts
    """
    return subject[: subject.index(":", 1) + 1] if subject.startswith(":.") and ":" in subject[1:] else ""


def text(contract: Contract) -> str:
    """Return the contract as a YAML file. Texts are in quotes: YAML 1.1 and 1.2 then read them alike."""
    return yaml.dump(document(contract), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)


def document(contract: Contract) -> Document:
    """Return the contract as ODCS has it."""
    return _given(
        apiVersion="v3.1.0",
        kind="DataContract",
        id=contract.pipeline,
        version=contract.version,
        domain=contract.domain,
        description=_given(purpose=contract.description),
        servers=[_server(contract)],
        slaProperties=_service_levels(contract.limits),
        customProperties=_settings(contract),
        schema=[_message(contract), *(_table(table) for table in contract.tables)],
    )


class _Dumper(yaml.SafeDumper):
    """Every text in double quotes, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # pyright: ignore[reportImplicitOverride]
        return True


def _quoted(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    written: Any = dumper  # PyYAML's stubs have no types here
    return written.represent_scalar("tag:yaml.org,2002:str", value, style='"')


_Dumper.add_representer(str, _quoted)


def _canonical(written: Document) -> bytes:
    return json.dumps(_text_keys(written), sort_keys=True, ensure_ascii=True, default=str).encode()


def _text_keys(value: Any) -> Any:
    """Return the value with a text for every key of a mapping: in a batch rule's arguments, YAML allows any key."""
    if (pairs := as_mapping(value)) is not None:
        return {key if isinstance(key, str) else repr(key): _text_keys(below) for key, below in pairs.items()}
    items = as_list(value)
    return value if items is None else [_text_keys(item) for item in items]


def _given(**keys: Any) -> Document:
    """Return the keys that have a value."""
    return {key: value for key, value in keys.items() if value not in (None, "", [], {}, False)}


def _server(contract: Contract) -> Document:
    kind, wire = contract.format, contract.wire
    named = {"subject": "", "subject_name_strategy": contract.subject_name_strategy} if wire.keys_subject else {}
    written = written_values(SERVER_PROPERTIES.keys, vars(wire) | named, vars(standard_wire(kind, contract.topic)))
    for name in RECORD.values():
        if name != RECORD.get(kind):
            written.pop(name, None)
    return _given(server="kafka", type="kafka", format=kind, customProperties=_properties(written))


def _properties(written: Mapping[str, Any]) -> list[Document]:
    return [{"property": name, "value": value} for name, value in written.items()]


def _service_levels(limits: Limits) -> list[Document]:
    written = written_values(SERVICE_LEVELS.keys, vars(limits), vars(Limits))
    return [{"property": name, "value": value, "unit": "seconds"} for name, value in written.items()]


def _settings(contract: Contract) -> list[Document]:
    limits = written_values(LIMITS, vars(contract.limits), vars(Limits))
    return _properties(limits | written_values(SETTINGS, vars(contract), vars(Contract)))


def _message(contract: Contract) -> Document:
    return {
        "name": "message",
        "physicalType": "topic",
        "physicalName": contract.topic,
        "properties": [_field(item) for item in contract.message_fields],
    }


def _field(item: Field) -> Document:
    rules: dict[str, RowRule] = {rule.kind: rule for rule in item.rules}
    enum = rules.get("enum")
    return _given(
        name=item.name,
        physicalName=spell_path(item.physical_path) if item.path != (item.name,) and not item.source else None,
        **_type(item.type),
        required=item.required,
        customProperties=_properties(written_values(FIELD_PROPERTIES.keys, vars(item), vars(Field))),
        logicalTypeOptions={
            key.name: _plain(rules[key.attribute].argument) for key in OPTIONS.keys if key.attribute in rules
        },
        quality=[_enum(enum)] if enum else None,
        description=item.description,
        classification=item.classification,
    )


def _enum(rule: RowRule) -> Document:
    arguments = {"validValues": [_plain(value) for value in rule.argument]}
    written = {"metric": "invalidValues", "arguments": arguments, "mustBe": 0}
    return {**written, **_given(description=rule.description)}


def _table(table: Table) -> Document:
    return _given(
        name=table.name,
        physicalType="table",
        physicalName=table.name,
        description=table.description,
        customProperties=[{"property": "disposition", "value": table.disposition}],
        properties=[_column(column, table) for column in table.columns],
        quality=[_batch_rule(rule) for rule in table.batch_rules],
    )


def _column(column: Column, table: Table) -> Document:
    made = next((item for item in table.aggregates if item.column == column.name), None)
    renamed = [{"property": "renamedFrom", "value": column.renamed_from}] if column.renamed_from else None
    return _given(
        name=column.name,
        **_type(column.type),
        required=column.required,
        primaryKey=column.name in table.group_by,
        transformLogic=f"{made.function}({made.source or '*'})" if made else None,
        description=column.description,
        classification=column.classification,
        customProperties=renamed,
    )


def _batch_rule(rule: BatchRule) -> Document:
    return _given(
        name=rule.name,
        description=rule.description,
        type="custom",
        engine="greatExpectations",
        severity=rule.severity,
        implementation={"expectation": rule.expectation, "arguments": dict(rule.arguments)},
    )


def _type(of: ColumnType) -> Mapping[str, str]:
    return {"logicalType": of.logical_types[0], "physicalType": of.name}


def _plain(value: Any) -> Any:
    """Return a value of a rule as YAML has it: decimals, dates and timestamps as text."""
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if isinstance(value, date) else value


def _wordless_field(item: Field) -> Field:
    rules = tuple(replace(rule, description="") for rule in item.rules)
    return replace(item, description="", classification="", rules=rules, path_numbers=())


def _wordless_table(table: Table) -> Table:
    columns = tuple(replace(c, description="", classification="", renamed_from="") for c in table.columns)
    rules = tuple(replace(rule, description="") for rule in table.batch_rules)
    return replace(table, description="", columns=columns, batch_rules=rules)
