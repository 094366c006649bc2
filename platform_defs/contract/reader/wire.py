"""The wire format of messages: the server's `format`, and its customProperties about schemas."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from open_data_contract_standard.model import Server

from platform_defs.contract.document.node import Node
from platform_defs.contract.document.section import read_values
from platform_defs.contract.keys.wire_keys import RECORD, SERVER, SERVER_PROPERTIES, standard_wire
from platform_defs.contract.model.contract import UNFRAMED, Format, Framing, WireFormat, subject_name
from platform_defs.contract.reader.names import custom_values

_STRATEGY = "subjectNameStrategy"
_OF_REGISTRY = ("subject", _STRATEGY, "compatibility", "keyFormat")
_LONGEST = 4 << 20  # bytes of a schema file, or of one that it imports
# Imports that come with the compiler, or with Tidegate.
_NOT_BESIDE = ("google/protobuf/", "google/type/", "confluent/")
_import_or_other_text = re.compile(
    r"""//[^\n]*+|/\*(?:.*?\*/|.*)"""
    r"""|\bimport\b\s*+(?:(?:public|weak|option)\b\s*+)?(?P<quote>["'])(?P<name>[^"'\n]*+)(?P=quote)"""
    r"""|"(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?""",
    re.DOTALL,
)

Properties = dict[str, Node[Any]]


def read_wire(servers: Node[Any], topic: str) -> tuple[Format, WireFormat]:
    """Return the format of the messages and their framing. Raises BadInput for settings that exclude each other."""
    if len(servers.items()) != 1 or servers.child(0).value.type != "kafka":
        message = "a contract must have one server: {server: ..., type: kafka, host: ..., format: json}"
        raise servers.refused(message, servers, servers.child(0).child("type"))
    server: Node[Server] = servers.child(0)
    SERVER.refuse_others(server)
    kind: Format = SERVER["format"].read(server.child("format"))
    # If a JSON contract has no framing, its properties are for readers only.
    framed = any(item.value.property == "framing" for item in server.children("customProperties"))
    given = custom_values(server, SERVER_PROPERTIES) if kind != "json" or framed else {}
    standard = standard_wire(kind, topic)
    framing = SERVER_PROPERTIES["framing"].read(given["framing"]) if "framing" in given else standard.framing
    _refuse_others(kind, framing, given)
    found = read_values(SERVER_PROPERTIES.keys, given)
    if framing == "none":
        standard = UNFRAMED
    if _STRATEGY in given:
        strategy, record = found.pop("subject_name_strategy"), found.get("record")
        if strategy != "TopicNameStrategy" and not record:
            how = f"set {RECORD[kind]}" if kind in RECORD else "a JSON message has none, so use TopicNameStrategy"
            raise given[_STRATEGY].refused(f"{strategy} needs the record's full name: {how}")
        if "subject" in given:
            raise given["subject"].refused(f"subject and {_STRATEGY} are mutually exclusive. Remove one of them")
        found["subject"] = subject_name(strategy, topic, record or "")
        # Serializers of keys use TopicNameStrategy unless set otherwise, whatever the values use.
        found["keys_subject"] = f"{topic}-key"
    if "schemaFile" in given:
        text = found["schema_text"] = _content(given["schemaFile"], "schemaFile {!r}", found["schema_file"])
        if kind == "protobuf":
            what = "the import {!r} of schemaFile, a path in the contract's folder,"
            found["schema_imports"] = all_imports(text, partial(_content, given["schemaFile"], what))
    return kind, replace(standard, **found)


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


def imported_files(text: str) -> Iterator[str]:
    """Yield the names in the import statements of a .proto file, except those that need no file of the user."""
    for statement in _import_or_other_text.finditer(text):
        name = statement["name"]
        if name is not None and not name.startswith(_NOT_BESIDE):
            yield name


def all_imports(text: str, read: Callable[[str], str]) -> tuple[tuple[str, str], ...]:
    """Return the name and content of each file that a .proto file imports, and that these import; `read` returns the
    content.
    """
    found, unread = dict[str, str](), [text]
    while unread:
        for name in imported_files(unread.pop()):
            if name not in found:
                found[name] = read(name)
                unread.append(found[name])
    return tuple(found.items())


def _content(node: Node[Any], what: str, name: str) -> str:
    """Return the content of the schema file, or of a file that it imports. It is part of the contract: a batch is
    decoded with this content. `what`: describes the file in an error; {!r} is its name.
    """
    folder, beside, what = node.text.path.parent, node.text.beside, what.format(name)
    if beside is None and not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise node.refused(f"{what} is outside the contract's folder: put the file next to the contract")
    try:
        if beside:
            return beside(name)
        if (size := (folder / name).stat().st_size) > _LONGEST:
            raise ValueError(f"it has {size:,} bytes, and the maximum is {_LONGEST:,}")
        return (folder / name).read_text(encoding="utf-8")
    except OSError as error:
        raise node.refused(f"{what} cannot be read: {error.strerror}") from None
    except ValueError as error:  # too long, or not UTF-8
        raise node.refused(f"{what} cannot be read: {error}") from None
