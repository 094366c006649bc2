"""From `<name>.odcs.yaml` (Open Data Contract Standard v3) to a `Contract`; a mistake names file, line and field.

contract/keys/contract_keys.py lists the ODCS keys that are read, with meaning and default. The standard:
https://bitol-io.github.io/open-data-contract-standard/v3.1.0/
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from open_data_contract_standard.model import SchemaObject, Team

from platform_defs.contract.document.document import Document, read_document
from platform_defs.contract.document.node import Node, one_of
from platform_defs.contract.document.section import read_values
from platform_defs.contract.document.yaml_text import Beside
from platform_defs.contract.keys.contract_keys import (
    CONTRACT,
    LIMITS,
    PIPELINE_PROPERTIES,
    SERVICE_LEVEL_ENTRY,
    SERVICE_LEVELS,
    SETTINGS,
)
from platform_defs.contract.keys.schema_keys import MESSAGE
from platform_defs.contract.keys.topic_keys import TOPIC_PROPERTIES
from platform_defs.contract.model.contract import UNFRAMED, Contract, Limits
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.model.reserved import output_clash, pipeline_mistake
from platform_defs.contract.model.topic import NO_KEYS, TopicKeys
from platform_defs.contract.reader.fields import read_fields
from platform_defs.contract.reader.names import checked_name, custom_values
from platform_defs.contract.reader.tables import read_tables, refuse_empty_groups, refuse_over_limits
from platform_defs.contract.reader.topic import checked_topic, read_producing, read_topic_keys
from platform_defs.contract.reader.wire import read_wire
from platform_defs.errors import BadInput, Mistake
from platform_defs.producer_options.config import Producing

_EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}")  # Dagster accepts no others
_STAGED = "or leave out publication, so that batches are staged first"
_UNITS = {"s": 1, "second": 1, "m": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400}


def load(path: Path, content: str | None = None, beside: Beside | None = None, *, accepted: bool = False) -> Contract:
    """Return the contract in the file, or in `content`, which is read in its place; `beside` then reads a schema file.
    Raises BadInput with file, line and field of a mistake, or SeveralMistakes. `accepted`: an earlier version of
    Tidegate may have accepted it, so rules for new files do not apply.
    """
    document = read_document(path, content, beside, strict=not accepted)
    contract = document.read(lambda whole: _read(whole, path, accepted=accepted), None)
    document.raise_mistakes()
    assert contract is not None  # noqa: S101  # or there was a mistake
    return contract


def _read(document: Document, path: Path, *, accepted: bool) -> Contract:
    document.read(CONTRACT.refuse_others, None)
    pipeline = document.child("id").read(lambda node: checked_name(node, pipeline_mistake), "")
    domain = document.child("domain").read(checked_name, "")
    version = document.child("version").read(_version, "")
    document.child("apiVersion").read(_check_standard, None)
    message, tables = _objects(document)
    message.read(MESSAGE.refuse_others, None)
    topic = message.child("physicalName").read(checked_topic, "")
    kind, wire = document.child("servers").read(lambda servers: read_wire(servers, topic), (None, UNFRAMED))
    fields = message.read(lambda part: read_fields(part, kind), ()) if kind else ()
    topic_keys, producing = message.read(_topic_settings, (NO_KEYS, Producing()))
    written = read_tables(document.child("schema"), tables)
    custom = document.read(lambda whole: custom_values(whole, PIPELINE_PROPERTIES), {})
    limits = document.read(lambda whole: read_limits(whole, custom), Limits())
    settings = document.read(lambda _: read_values(SETTINGS, custom), {})
    document.stop_at_mistakes()
    assert kind is not None  # noqa: S101  # or there was a mistake
    description = document.value.description
    contract = Contract(
        pipeline=pipeline,
        version=version,
        domain=domain,
        description=(description and description.purpose) or "",
        topic=topic,
        format=kind,
        fields=tuple(item for item in fields if not item.source),
        tables=written,
        limits=limits,
        path=path,
        wire=wire,
        topic_keys=topic_keys,
        producing=producing,
        owners=read_owners(document),
        metadata_fields=tuple(item for item in fields if item.source),
        **settings,
    )
    _refuse_duplicates(contract, tables)
    refuse_undirect(contract, tables)
    if not accepted:
        refuse_removed(document)
        refuse_empty_groups(contract.tables, tables)
        refuse_over_limits(contract, tables)
    return contract


def check_fits_without_transform(contract: Contract) -> None:
    """Raise BadInput unless every column of the row table is a field of the message, of the same type.

    For a contract without a transform next to it: there the message's fields become the row as they are.
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
        raise refused(contract, f"{column.name} {wrong} (or write a transform)", column.name, contract.row_table.name)


def fields_without_column(pipeline: Pipeline) -> Sequence[Mistake]:
    """Return a notice for each field of the message that is validated but stored in no column; none for a pipeline with
    a transform, which may use it.
    """
    contract = pipeline.contract
    if pipeline.transform is not None:
        return ()
    columns = {column.name for column in contract.row_table.columns}
    missing = [item.name for item in contract.message_fields if item.name not in columns]
    message = f"has no column in {contract.row_table.name}: messages are checked for it, and its value is not stored"
    if not missing:
        return ()
    document = read_document(contract.path) if contract.path is not None and contract.path.exists() else None
    notices = [refused(contract, f"{name} {message}", name, contract.topic, "topic", document) for name in missing]
    return [notice for error in notices for notice in error.mistakes]


def refused(
    contract: Contract,
    message: str,
    key: str,
    place: str | None = None,
    kind: Literal["table", "topic"] = "table",
    document: Document | None = None,
) -> BadInput:
    """Return the error for a key of the contract, or for a key or a field of the table or topic `place`: for mistakes
    that show only together with other files. A contract in the ledger, or one that is not written yet, has no file.
    """
    if document is None and contract.path is not None and contract.path.exists():
        document = read_document(contract.path)
    if document is None:
        file = str(contract.path) if contract.path else None
        return BadInput(message, file=file, field=f"{place}.{key}" if place else key)
    objects = (
        item
        for item in document.children("schema")
        if item.value.physicalType == kind and item.value.physicalName == place
    )
    part = next(objects, document)
    fields = (item for item in part.children("properties") if place and item.value.name == key)
    return next(fields, part.child(key)).refused(message)


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


def _version(node: Node[str | None]) -> str:
    if not node.value:
        raise node.refused("version is missing")
    return node.value


def _check_standard(node: Node[str | None]) -> None:
    if not (node.value or "").startswith("v3."):
        raise node.refused("apiVersion is missing, or not v3: write apiVersion: v3.1.0")


def _topic_settings(message: Node[SchemaObject]) -> tuple[TopicKeys, Producing]:
    given = custom_values(message, TOPIC_PROPERTIES)
    return read_topic_keys(given), read_producing(given)


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


def read_limits(document: Document, custom: Mapping[str, Node[Any]]) -> Limits:
    """Return the limits, from customProperties and slaProperties. Raises BadInput for an unknown one, or one out of
    range.
    """
    found = read_values(LIMITS, custom)
    for item in document.children("slaProperties"):
        SERVICE_LEVEL_ENTRY.refuse_others(item)
        node: Node[str | None] = item.child("property")
        name = node.value or ""
        if name not in SERVICE_LEVELS.names():
            raise node.refused(f"unknown service level {name!r}; {one_of(SERVICE_LEVELS.names(), name)}")
        if SERVICE_LEVELS[name].attribute in found:
            raise node.refused(f"{name!r} is defined twice")
        number: float = SERVICE_LEVEL_ENTRY["value"].read(item.child("value"))
        unit: Node[str | None] = item.child("unit")
        factor = _UNITS.get(unit.value or "") or _UNITS.get((unit.value or "").removesuffix("s"))
        if factor is None:
            hint = one_of(("seconds", "minutes", "hours", "days"), unit.value or "")
            raise unit.refused(f"unknown unit {unit.value!r}; {hint}")
        found[SERVICE_LEVELS[name].attribute] = number * factor
    return Limits(**found)


def refuse_removed(document: Document) -> None:
    """Raise BadInput for a custom property that earlier versions of Tidegate had."""
    for item in document.children("customProperties"):
        if why := PIPELINE_PROPERTIES.removed.get(item.value.property or ""):
            raise item.child("property").refused(why)


def read_owners(document: Document) -> tuple[str, ...]:
    """Return ODCS' `team`: team:NAME if it has a name, and the members whose username is an e-mail address. Other
    members are for readers of the file.
    """
    team = document.value.team
    members = (team.members if isinstance(team, Team) else team) or []
    name = " ".join(team.name.split()) if isinstance(team, Team) and team.name else ""
    named = [f"team:{name}"] if name else []
    emails = [one.username for one in members if one.username and _EMAIL.fullmatch(one.username)]
    return tuple(dict.fromkeys([*named, *emails]))


def refuse_undirect(contract: Contract, tables: list[Node[SchemaObject]]) -> None:
    """Raise BadInput if the contract has publication: direct and anything that only a staged batch supports. A
    transform is refused in contract/reader/catalogue.py.
    """
    if contract.publication != "direct":
        return
    row_table = contract.row_table
    if row_table.disposition != "append":
        raise tables[0].refused(
            f"publication: direct writes to append tables only, and {row_table.name} is {row_table.disposition}: "
            "the newest message of a key cannot be determined among ranges that commit separately. Make the table "
            f"append, {_STAGED}"
        )
    for table in tables[1:]:
        raise table.refused(
            f"publication: direct does not support accumulate tables ({table.child('physicalName').value}): the "
            f"tasks would wait for each other's locks on groups. Remove the table, {_STAGED}"
        )
    for rule in tables[0].children("quality"):
        raise rule.refused(
            f"publication: direct does not support batch rules ({rule.child('name').value}): rows are published "
            f"before the whole batch can be checked. Remove the rule, {_STAGED}"
        )
    for column in tables[0].children("properties"):
        kind = next(item.type for item in row_table.columns if item.name == column.value.name)
        if not kind.copied:
            raise column.refused(
                f"publication: direct cannot write {kind.name} ({column.value.name}): COPY does not accept the "
                f"decoded form. Make it a string, {_STAGED}"
            )
