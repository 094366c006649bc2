"""From `<name>.odcs.yaml` (Open Data Contract Standard v3) to a `Contract`; a mistake names file, line and field.

contract/keys/keys.py lists the ODCS keys that are read, with meaning and default. The standard:
https://bitol-io.github.io/open-data-contract-standard/v3.1.0/
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from open_data_contract_standard.model import SchemaObject

from platform_defs.contract.document.document import Document, read_document
from platform_defs.contract.document.node import Node, one_of
from platform_defs.contract.document.yaml_text import Beside
from platform_defs.contract.keys.keys import CONTRACT
from platform_defs.contract.keys.schema_keys import MESSAGE
from platform_defs.contract.keys.topic_keys import TOPIC_PROPERTIES
from platform_defs.contract.model.contract import UNFRAMED, Contract, Field, Format
from platform_defs.contract.model.reserved import output_clash, pipeline_mistake
from platform_defs.contract.model.topic import checked_topic, read_topic_keys
from platform_defs.contract.reader.fields import read_fields
from platform_defs.contract.reader.limits import read_evolution, read_limits, read_publication, refuse_removed
from platform_defs.contract.reader.names import checked_name, custom_values
from platform_defs.contract.reader.owners import read_owners
from platform_defs.contract.reader.producing import read_producing
from platform_defs.contract.reader.publication import refuse_undirect
from platform_defs.contract.reader.tables import read_tables, refuse_empty_groups
from platform_defs.contract.reader.wire import read_wire
from platform_defs.errors import BadInput


def load(path: Path, content: str | None = None, beside: Beside | None = None, *, accepted: bool = False) -> Contract:
    """Return the contract in the file, or in `content`, which is read in its place; `beside` then reads a schema file.
    Raises BadInput with file, line and field of a mistake, or SeveralMistakes. `accepted`: the ledger has it from an
    earlier version of Tidegate, so rules for new files do not apply.
    """
    document = read_document(path, content, beside)
    contract: Contract | None = None
    with document.keeping_mistakes():
        contract = _read(document, path, accepted=accepted)
    document.raise_mistakes()
    assert contract is not None  # noqa: S101  # or there was a mistake
    return contract


def _read(document: Document, path: Path, *, accepted: bool) -> Contract:
    unknown_keys = bool(document.text.mistakes)

    def is_missing(key: str) -> bool:
        """Return True for a key that may be one of the unknown ones, misspelled: no mistake of its own."""
        return unknown_keys and document.child(key).value is None

    with document.keeping_mistakes():
        document.refuse_keys_outside(CONTRACT)
    pipeline, domain, topic, wire = "", "", "", UNFRAMED
    kind: Format = "json"
    fields: tuple[Field, ...] = ()
    of_topic: Mapping[str, Node[Any]] = {}
    with document.keeping_mistakes():
        if not is_missing("id"):
            pipeline = _pipeline(document.child("id"))
    with document.keeping_mistakes():
        if not is_missing("domain"):
            domain = checked_name(document.child("domain"))
    with document.keeping_mistakes():
        if not document.value.version and not is_missing("version"):
            raise document.child("version").refused("version is missing")
    with document.keeping_mistakes():
        if not (document.value.apiVersion or "").startswith("v3.") and not is_missing("apiVersion"):
            raise document.child("apiVersion").refused("apiVersion is missing, or not v3: write apiVersion: v3.1.0")
    message, tables = _objects(document)
    with document.keeping_mistakes():
        message.refuse_keys_outside(MESSAGE)
    with document.keeping_mistakes():
        topic = checked_topic(message.child("physicalName"))
    with document.keeping_mistakes():
        if not is_missing("servers"):
            kind, wire = read_wire(document, topic)
            fields = read_fields(message, kind)
    with document.keeping_mistakes():
        of_topic = custom_values(message, TOPIC_PROPERTIES)
        read_topic_keys(of_topic)
        read_producing(of_topic)
    written = read_tables(document.child("schema"), tables)
    for read in (read_limits, read_evolution, read_publication, read_owners):
        with document.keeping_mistakes():
            read(document)
    document.stop_at_mistakes()
    description = document.value.description
    contract = Contract(
        pipeline=pipeline,
        version=str(document.value.version),
        domain=domain,
        description=(description and description.purpose) or "",
        topic=topic,
        format=kind,
        fields=tuple(item for item in fields if not item.source),
        tables=written,
        limits=read_limits(document),
        path=path,
        evolution=read_evolution(document),
        wire=wire,
        publication=read_publication(document),
        topic_keys=read_topic_keys(of_topic),
        producing=read_producing(of_topic),
        owners=read_owners(document),
        metadata_fields=tuple(item for item in fields if item.source),
    )
    _refuse_duplicates(contract, tables)
    refuse_undirect(contract, tables)
    if not accepted:
        refuse_removed(document)
        refuse_empty_groups(contract.tables, tables)
    return contract


def check_fits_without_transform(contract: Contract) -> None:
    """Raise BadInput unless every column of the row table is a field of the message, of the same type.

    For a contract without a transform beside it: there the message's fields become the row as they are.
    """
    fields = {item.name: item for item in contract.message_fields}
    for column in contract.row_table.columns:
        found = fields.get(column.name)
        if found is None:
            wrong = f"is not a field of the message; {one_of(fields, column.name)}"
        elif found.type != column.type:
            wrong = f"is {found.type.name} in the message and {column.type.name} in the table; give both the same type"
        elif column.required and not found.required:
            wrong = "is required in the table, so it must be required in the message"
        else:
            continue
        raise _column_refused(contract, column.name, f"{column.name} {wrong} (or write a transform)")


def refused(contract: Contract, message: str, key: str, table: str | None = None) -> BadInput:
    """Return the error for a key of the contract, or of one of its tables: for mistakes that show only beside other
    files.
    """
    if contract.path is None:
        return BadInput(message, field=f"{table}.{key}" if table else key)
    document = read_document(contract.path)
    found = (item for item in document.children("schema") if table and item.value.physicalName == table)
    return next(found, document).child(key).refused(message)


def _column_refused(contract: Contract, column: str, message: str) -> BadInput:
    """Return the error for a column of the row table, at its line of the file if there is one."""
    table = contract.row_table.name
    for item in read_document(contract.path).children("schema") if contract.path else ():
        for one in item.children("properties") if item.value.physicalName == table else ():
            if one.value.name == column:
                return one.refused(message)
    return BadInput(message, field=f"{table}.{column}")


def _objects(document: Document) -> tuple[Node[SchemaObject], list[Node[SchemaObject]]]:
    """Return the message and the tables."""
    found: dict[str, list[Node[SchemaObject]]] = {"topic": [], "table": []}
    for item in document.children("schema"):
        kind = item.child("physicalType")
        if kind.value not in found:
            raise kind.refused(f"unknown physicalType {kind.value!r}; {one_of(found, kind.value)}")
        found[kind.value].append(item)
    if len(found["topic"]) != 1:
        message = f"a contract needs exactly one object with physicalType: topic; found {len(found['topic'])}"
        raise document.child("schema").refused(message)
    return found["topic"][0], found["table"]


def _pipeline(node: Node[str]) -> str:
    name = checked_name(node)
    if wrong := pipeline_mistake(name):
        raise node.refused(wrong)
    return name


def _refuse_duplicates(contract: Contract, tables: list[Node[SchemaObject]]) -> None:
    """Raise BadInput unless tables and rules have unique names, which identify Dagster's assets and checks."""
    names, rules = set[str](), {rule.name for rule in contract.row_rules}
    for item in tables:
        table = item.child("physicalName")
        if table.value in names:
            raise table.refused(f"table {table.value!r} is defined twice")
        names.add(table.value)
        for entry in item.children("quality"):
            rule = entry.child("name")
            if rule.value in rules:
                raise rule.refused(f"rule {rule.value!r} is defined twice")
            rules.add(rule.value)
    if wrong := output_clash(contract):
        raise tables[0].refused(wrong)
