"""A contract as a document again: ODCS in YAML, which `odcs.load` reads back as the same contract, less its examples.

The ledger keeps a contract like this, with the digest of all that decides what a message becomes. A document is written
without the keys that ODCS has for readers only, without examples, and without keys at their default, so that a later
version of Tidegate, which knows more keys, computes the same digest for an unchanged contract.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from hashlib import sha256
from typing import Any

import yaml

from platform_defs.contract.document.node import as_list, as_mapping
from platform_defs.contract.document.section import properties
from platform_defs.contract.keys.contract_keys import LIMITS, SERVICE_LEVELS, SETTINGS
from platform_defs.contract.keys.schema_keys import COLUMN_PROPERTIES, OPTIONS, TABLE_PROPERTIES
from platform_defs.contract.keys.wire_keys import FIELD_PROPERTIES, RECORD, SERVER_PROPERTIES, standard_wire
from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.contract import Column, Contract, Field, Limits, RowRule, Table
from platform_defs.contract.model.message_path import spell_path

Document = dict[str, Any]  # of what YAML and JSON can hold


def contract_digest(contract: Contract) -> str:
    """Return the digest of what decides which rows a message becomes, of the publication, and of the version; not of
    descriptions and limits.

    32 hexadecimal digits. Two contracts of one digest make the same rows of every message. The publication changes no
    row; it stays in the digest because the ledger has digests of pipelines that publish directly.
    """
    bare = without_words(contract)
    return sha256(_canonical(document(bare)) + stored_schema(bare).encode()).hexdigest()[:32]


def stored_schema(contract: Contract) -> str:
    """Return the content of the schema file; with imports, a JSON list of [name, content], the schema file first."""
    wire = contract.wire
    return json.dumps([("", wire.schema_text), *wire.schema_imports]) if wire.schema_imports else wire.schema_text


def stored_file(stored: str, name: str) -> str:
    """Return the content of the schema file, or of an import called `name`, from the text of `stored_schema`."""
    if not stored.startswith('[["'):  # no schema file begins like this
        return stored
    files = dict[str, str](json.loads(stored))
    return files.get(name, files[""])


def same_words(one: Contract, other: Contract) -> bool:
    """Return True if the two are the same, descriptions and limits included, whatever their versions."""
    return _canonical(document(replace(one, version=""))) == _canonical(document(replace(other, version="")))


def without_words(contract: Contract) -> Contract:
    """Return the contract without what does not affect rows: descriptions, limits, evolution."""
    wire = replace(
        contract.wire, subject=context_of(contract.wire.subject), keys_subject="", compatibility="", schema_file=""
    )
    return replace(
        contract,
        domain="",
        description="",
        fields=_fields_without_words(contract.fields),
        metadata_fields=_fields_without_words(contract.metadata_fields),
        tables=tuple(
            replace(
                table,
                description="",
                columns=tuple(replace(c, description="", classification="", renamed_from="") for c in table.columns),
                batch_rules=tuple(replace(rule, description="") for rule in table.batch_rules),
            )
            for table in contract.tables
        ),
        limits=Limits(),
        path=None,
        evolution="manual",
        wire=wire,
    )


def _fields_without_words(fields: Iterable[Field]) -> tuple[Field, ...]:
    return tuple(
        replace(
            item,
            description="",
            classification="",
            rules=tuple(replace(rule, description="") for rule in item.rules),
            path_numbers=(),
        )
        for item in fields
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
    message = {
        "name": "message",
        "physicalType": "topic",
        "physicalName": contract.topic,
        "properties": [_field(item) for item in contract.message_fields],
    }
    levels = properties(SERVICE_LEVELS.keys, vars(contract.limits), vars(Limits))
    limits = properties(LIMITS, vars(contract.limits), vars(Limits))
    return _given(
        apiVersion="v3.1.0",
        kind="DataContract",
        id=contract.pipeline,
        version=contract.version,
        domain=contract.domain,
        description=_given(purpose=contract.description),
        servers=[_given(server="kafka", type="kafka", format=contract.format, customProperties=_wire(contract))],
        slaProperties=[{**level, "unit": "seconds"} for level in levels],
        customProperties=limits + properties(SETTINGS, vars(contract), vars(Contract)),
        schema=[message, *(_table(table) for table in contract.tables)],
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


def _wire(contract: Contract) -> list[Document]:
    kind, written = contract.format, dict(vars(contract.wire))
    if contract.wire.keys_subject:  # a strategy names the subject
        written |= {"subject": "", "subject_name_strategy": contract.subject_name_strategy}
    unused = {*RECORD.values()} - {RECORD.get(kind)}
    keys = [key for key in SERVER_PROPERTIES.keys if key.name not in unused]
    return properties(keys, written, vars(standard_wire(kind, contract.topic)))


def _field(item: Field) -> Document:
    rules: dict[str, RowRule] = {rule.kind: rule for rule in item.rules}
    options = {key.name: _plain(rules[key.attribute].argument) for key in OPTIONS.keys if key.attribute in rules}
    enum = rules.get("enum")
    return _given(
        name=item.name,
        physicalName=spell_path(item.physical_path) if item.path != (item.name,) and not item.source else None,
        **_type(item.type),
        required=item.required,
        customProperties=properties(FIELD_PROPERTIES.keys, vars(item), vars(Field)),
        logicalTypeOptions=options,
        quality=[_enum(enum)] if enum else None,
        description=item.description,
        classification=item.classification,
    )


def _enum(rule: RowRule) -> Document:
    arguments = {"validValues": [_plain(value) for value in rule.argument]}
    return {"metric": "invalidValues", "arguments": arguments, "mustBe": 0, **_given(description=rule.description)}


def _table(table: Table) -> Document:
    return _given(
        name=table.name,
        physicalType="table",
        physicalName=table.name,
        description=table.description,
        customProperties=properties(TABLE_PROPERTIES.keys, vars(table), {}),
        properties=[_column(column, table) for column in table.columns],
        quality=[
            _given(
                name=rule.name,
                description=rule.description,
                type="custom",
                engine="greatExpectations",
                severity=rule.severity,
                implementation={"expectation": rule.expectation, "arguments": dict(rule.arguments)},
            )
            for rule in table.batch_rules
        ],
    )


def _column(column: Column, table: Table) -> Document:
    made = next((item for item in table.aggregates if item.column == column.name), None)
    return _given(
        name=column.name,
        **_type(column.type),
        required=column.required,
        primaryKey=column.name in table.group_by,
        transformLogic=f"{made.function}({made.source or '*'})" if made else None,
        description=column.description,
        classification=column.classification,
        customProperties=properties(COLUMN_PROPERTIES.keys, vars(column), {}),
    )


def _type(of: ColumnType) -> Mapping[str, str]:
    return {"logicalType": of.logical_types[0], "physicalType": of.name}


def _plain(value: Any) -> Any:
    """Return a value of a rule as YAML has it: decimals, dates and timestamps as text."""
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if isinstance(value, date) else value
