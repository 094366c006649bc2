"""The wire format of messages: the server's `format`, and its customProperties about schemas."""

from pathlib import Path
from typing import Any, cast, get_args

from open_data_contract_standard.model import Server

from platform_defs.contract.document.node import Node, one_of
from platform_defs.contract.keys.wire_keys import SERVER, SERVER_PROPERTIES
from platform_defs.contract.model.contract import (
    UNFRAMED,
    Format,
    Framing,
    KeyFormat,
    OtherRecords,
    SubjectNameStrategy,
    WireFormat,
    subject_name,
)
from platform_defs.contract.reader.names import custom_values

LEVELS = tuple(f"{level}{behind}" for level in ("BACKWARD", "FORWARD", "FULL") for behind in ("", "_TRANSITIVE"))
LEVEL: dict[Format, str] = {"avro": "FULL_TRANSITIVE", "protobuf": "BACKWARD_TRANSITIVE", "json": "NONE"}
RECORD = {"avro": "record", "protobuf": "message"}
_STRATEGY = "subjectNameStrategy"
_OF_REGISTRY = ("subject", _STRATEGY, "compatibility", "keyFormat")
_LONGEST = 4 << 20  # bytes of a schema file

Properties = dict[str, Node[Any]]


def read_wire(servers: Node[Any], topic: str) -> tuple[Format, WireFormat]:
    """Return the format of the messages and their framing. Raises BadInput for settings that exclude each other."""
    server = _server(servers)
    written: Node[Any] = server.child("format")
    if written.value not in get_args(Format):
        raise written.refused(f"unknown format {written.value!r}; {one_of(get_args(Format), str(written.value))}")
    kind = cast("Format", written.value)
    given = _properties(server, kind)
    framing = cast("Framing", _one_of(given, "framing", get_args(Framing), "none" if kind == "json" else "prefix"))
    _refuse_others(kind, framing, given)
    if framing == "none" and kind == "json":
        return kind, UNFRAMED
    return kind, _wire(kind, framing, given, topic)


def _properties(server: Node[Server], kind: Format) -> Properties:
    """Return the properties about schemas. If a JSON contract has no framing, its properties are for readers only."""
    framed = any(item.value.property == "framing" for item in server.children("customProperties"))
    return custom_values(server, SERVER_PROPERTIES) if kind != "json" or framed else {}


def _wire(kind: Format, framing: Framing, given: Properties, topic: str) -> WireFormat:
    framed, record = framing != "none", _text(given, RECORD.get(kind, "record"), "")
    file = _text(given, "schemaFile", "")
    return WireFormat(
        framing=framing,
        subject=_subject(given, kind, topic, record) if framed else "",
        record=record,
        key_format=cast("KeyFormat", _one_of(given, "keyFormat", get_args(KeyFormat), "text")),
        other_records=cast("OtherRecords", _one_of(given, "otherRecords", get_args(OtherRecords), "dead_letter")),
        compatibility=_one_of(given, "compatibility", ("NONE", *LEVELS), LEVEL[kind]) if framed else "",
        schema_file=file,
        schema_text=_schema_text(given["schemaFile"], file) if file else "",
        # Serializers of keys use TopicNameStrategy unless set otherwise, whatever the values use.
        keys_subject=f"{topic}-key" if framed and _STRATEGY in given else "",
    )


def _subject(given: Properties, kind: Format, topic: str, record: str) -> str:
    """Return the subject as given, or by the strategy. Raises BadInput for both, or if the strategy needs a record."""
    name = _one_of(given, _STRATEGY, get_args(SubjectNameStrategy), "TopicNameStrategy")
    strategy = cast("SubjectNameStrategy", name)
    if strategy != "TopicNameStrategy" and not record:
        how = f"set {RECORD[kind]}" if kind in RECORD else "a JSON message has none, so use TopicNameStrategy"
        raise given[_STRATEGY].refused(f"{strategy} needs the record's full name: {how}")
    if _STRATEGY in given and "subject" in given:
        raise given["subject"].refused(f"subject and {_STRATEGY} are mutually exclusive. Remove one of them")
    return _text(given, "subject", subject_name(strategy, topic, record))


def _server(servers: Node[Any]) -> Node[Server]:
    if len(servers.items()) != 1 or servers.child(0).value.type != "kafka":
        message = "a contract must have one server: {server: ..., type: kafka, host: ..., format: json}"
        raise servers.refused(message)
    servers.child(0).refuse_keys_outside(SERVER)
    return servers.child(0)


def _refuse_others(kind: Format, framing: Framing, given: Properties) -> None:
    """Raise BadInput for a property that nothing would read."""
    for name in ("record", "message"):
        if name in given and RECORD.get(kind) != name:
            instead = f"write {RECORD[kind]}" if kind in RECORD else "a JSON message has no record"
            raise given[name].refused(f"{name} cannot be used with format {kind}: {instead}")
    if "otherRecords" in given and RECORD.get(kind) not in given:
        needed = f"name the one to read with {RECORD[kind]}" if kind in RECORD else "a JSON message has no record"
        raise given["otherRecords"].refused(f"otherRecords has no effect here: {needed}")
    if framing != "none":
        _refuse(given, ("schemaFile",), f"messages identify their schema themselves (framing: {framing})")
        return
    _refuse(given, _OF_REGISTRY, "messages do not use registry schemas (framing: none)")
    if kind == "json":
        _refuse(given, ("schemaFile",), "JSON messages need no schema to be read")
    elif "schemaFile" not in given:
        raise given["framing"].refused(
            f"framing: none requires schemaFile, because {kind} messages cannot be read without a schema"
        )


def _refuse(given: Properties, names: tuple[str, ...], why: str) -> None:
    for name in names:
        if name in given:
            raise given[name].refused(f"{name} has no effect here: {why}")


def _one_of(given: Properties, name: str, known: tuple[str, ...], otherwise: str) -> str:
    if name not in given:
        return otherwise
    node = given[name]
    if node.value not in known:
        raise node.refused(f"unknown {name} {node.value!r}; {one_of(known, str(node.value))}")
    return node.value


def _text(given: Properties, name: str, otherwise: str) -> str:
    if name not in given:
        return otherwise
    value = given[name].value
    if not isinstance(value, str) or not value.strip():
        raise given[name].refused(f"{name} must be text, not {value!r}")
    return value


def _schema_text(node: Node[Any], name: str) -> str:
    """Return the content of the schema file. It is part of the contract: a batch is decoded with this content."""
    folder, beside = node.text.path.parent, node.text.beside
    if beside is None and not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise node.refused(f"schemaFile {name!r} is outside the contract's folder: put the file beside the contract")
    try:
        return beside(name) if beside else _read(folder / name)
    except OSError as error:
        raise node.refused(f"schemaFile {name!r} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise node.refused(f"schemaFile {name!r} cannot be read: {error}") from None


def _read(path: Path) -> str:
    """Read a file. Raises ValueError for a file that is too long, or not UTF-8."""
    if (size := path.stat().st_size) > _LONGEST:
        raise ValueError(f"it has {size:,} bytes, and the maximum is {_LONGEST:,}")
    return path.read_text(encoding="utf-8")
