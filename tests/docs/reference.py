"""The parts of docs/reference that come from the code: `python -m tests.docs.reference` writes them into the pages.

A page is written by hand, except between `<!-- generated: name -->` and `<!-- end generated -->`: there `name` is one
of PARTS. tests/docs/test_reference.py fails if a page differs from the code.
"""

import inspect
import json
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from platform_defs import errors
from platform_defs.cli import main as tidegate
from platform_defs.cli.main import COMMANDS
from platform_defs.contract.keys.contract_keys import REQUIRED, SECTIONS, TYPES, Key, Section
from platform_defs.contract.keys.field_sources import SOURCES
from platform_defs.contract.model.column_types import FIXED, ColumnType, column_type
from platform_defs.contract.model.contract import Contract, Field
from platform_defs.contract.reader.batch_rules import EXPECTATIONS
from platform_defs.contract.reader.odcs import load
from platform_defs.errors import BadInput, TidegateError
from platform_defs.producer_options.java_names import JAVA, JavaOption
from platform_defs.producer_options.options import OPTIONS
from platform_defs.schemas.conversion.exporting import export_schema
from platform_defs.settings.settings import SETTINGS
from tests.docs.error_policies import (
    policies_of_errors,
    policies_of_kafka,
    policies_of_postgres,
    policies_of_registry,
    policies_of_spark,
    policy_kinds,
)
from tests.docs.tables import code, table
from tests.unit.contract.contract_mistakes import GOOD, MISTAKES

ROOT = Path(__file__).parent.parent.parent
REFERENCE = ROOT / "docs" / "reference"
MIGRATIONS = ROOT / "platform_defs" / "ledger" / "schema"
PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end generated -->)", re.DOTALL)


def contract_keys() -> str:
    """Return every section of a contract with its keys."""
    return "\n".join(_section(section) for section in SECTIONS)


def _section(section: Section) -> str:
    path = f"At {code(section.path)}. " if section.path else ""
    rows = ((code(key.name), key.meaning, _values(key), _default(key), code(key.example)) for key in section.keys)
    text = f"## {section.title}\n\n{textwrap.fill(path + section.meaning, 120, break_on_hyphens=False)}\n\n"
    text += table(("key", "meaning", "values", "default", "example"), rows)
    if section.shown_only:
        names = ", ".join(map(code, sorted(section.shown_only)))
        text += f"\n{textwrap.fill(f'Also accepted, for readers of the file: {names}.', 120)}\n"
    return text


def _values(key: Key) -> str:
    return key.values if isinstance(key.values, str) else key.values.text


def _default(key: Key) -> str:
    return f"**{REQUIRED}**" if key.default == REQUIRED else key.default


def contract_types() -> str:
    """Return the types: how each is written, and the row rules that it takes."""
    heads = ("type", "logicalType", "physicalType", "in the message", "in Postgres", "row rules besides `required`")
    rows = [
        (
            code(one.name),
            " or ".join(map(code, one.logical)),
            "**required**" if one.name not in one.logical else "may be left out",
            one.message,
            code(one.postgres),
            ", ".join([*map(code, one.options), *(["enum"] if one.enum else [])]) or "none",
        )
        for one in TYPES
    ]
    return table(heads, rows)


def contract_sources() -> str:
    """Return the sources of fields, with the types of each."""
    rows = ((code(name), ", ".join(map(code, one.kinds)), one.meaning) for name, one in SOURCES.items())
    return table(("source", "types", "what the field holds"), rows)


def contract_expectations() -> str:
    """Return the expectations that a batch rule may name."""
    return textwrap.fill(", ".join(map(code, EXPECTATIONS)) + ".", 120, break_on_hyphens=False) + "\n"


def exported_types() -> str:
    """Return each column type as the types in an exported schema."""
    kinds = [column_type(name) for name in (*FIXED, "decimal(18,2)", "array<string>")]
    return table(("type", "Avro", "Protobuf", "JSON Schema"), ((code(of.name), *_exported(of)) for of in kinds))


def _exported(of: ColumnType) -> Iterator[str]:
    made = Contract("p", "1", "d", "", "t", "protobuf", (Field("f", of, True, (), number=1),), tables=())
    avro = json.loads(export_schema(made, "avro"))["fields"][0]["type"]
    yield code(json.dumps(avro)) if of.kind != "json" else "a union, see below"
    (proto,) = re.findall(r"^  (.+) f = 1;", export_schema(made, "protobuf"), re.MULTILINE)
    yield code(proto)
    value = json.loads(export_schema(made, "json"))["properties"]["f"]
    yield code(json.dumps(value)) if value else "anything"


def contract_errors() -> str:
    """Return the reader's error for each of tests/unit/contract/contract_mistakes.py, without the file's name."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [_refused(Path(folder) / "orders.odcs.yaml", right, wrong) for right, wrong, *_ in MISTAKES]
    return table(("instead of", "the contract says", "error"), rows)


def _refused(path: Path, right: str, wrong: str) -> tuple[str, str, str]:
    path.write_text(GOOD.replace(right, wrong, 1), encoding="utf-8")
    try:
        load(path)
    except BadInput as error:
        message = str(error).replace(f"{path}:", "line ").replace("<", "&lt;").replace("\n", "<br>")
        return _one_line(right), _one_line(wrong), message
    raise AssertionError(f"{wrong!r} is accepted")


def _one_line(text: str) -> str:
    return code(re.sub(r"\s*\n\s*", " ⏎ ", text.strip())) or "(nothing)"


def settings() -> str:
    """Return the TIDEGATE_* variables."""
    heads = ("variable", "meaning", "default", "example")
    return table(heads, ((code(s.variable), s.description, s.default or "", code(s.example or "")) for s in SETTINGS))


def error_tree() -> str:
    """Return every error that Tidegate raises on purpose, indented below its parent class."""
    return "".join(_error(kind, "  " * depth) for depth, kind in _kinds())


def _error(kind: type[TidegateError], indent: str) -> str:
    text = f"{indent}- {code(kind.__name__)}: {_first_paragraph(kind)}"
    return textwrap.fill(text, 120, subsequent_indent=f"{indent}  ", break_on_hyphens=False) + "\n"


def _kinds(kind: type[TidegateError] = TidegateError, depth: int = 0) -> Iterator[tuple[int, type[TidegateError]]]:
    """Yield the errors of platform_defs/errors/ and their depths, in the order of its docstring's tree."""
    tree = errors.__doc__ or ""
    yield depth, kind
    below = [one for one in kind.__subclasses__() if one.__module__.startswith(errors.__name__)]
    for one in sorted(below, key=lambda one: tree.index(f"─ {one.__name__} ")):
        yield from _kinds(one, depth + 1)


def _first_paragraph(kind: type) -> str:
    return " ".join(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].split())


def ledger() -> dict[str, list[tuple[str, str]]]:
    """Return the tables that the migrations create in the schema tidegate, each with its columns: (name, type)."""
    script = "\n".join(path.read_text() for path in sorted(MIGRATIONS.glob("*.sql")))
    created = re.findall(r"^CREATE TABLE tidegate\.(\w+) \(\n(.*?)^\);", script, re.DOTALL | re.MULTILINE)
    found = {name: list(_columns(body)) for name, body in created}
    for name, column, kind in re.findall(
        r"^ALTER TABLE tidegate\.(\w+)\s+ADD COLUMN (\w+) ([^;]*);", script, re.MULTILINE
    ):
        found[name].append((column, _type_of(kind)))
    for name, old, new in re.findall(
        r"^ALTER TABLE tidegate\.(\w+) RENAME COLUMN (\w+) TO (\w+);", script, re.MULTILINE
    ):
        found[name] = [(new if one == old else one, kind) for one, kind in found[name]]
    for name, column in re.findall(r"^ALTER TABLE tidegate\.(\w+) DROP COLUMN (\w+);", script, re.MULTILINE):
        found[name] = [(one, kind) for one, kind in found[name] if one != column]
    for name, column, what in re.findall(
        r"^ALTER TABLE tidegate\.(\w+) ALTER COLUMN (\w+) (DROP|SET) NOT NULL;", script, re.MULTILINE
    ):
        suffix = " NOT NULL" if what == "SET" else ""
        found[name] = [
            (one, kind.removesuffix(" NOT NULL") + suffix if one == column else kind) for one, kind in found[name]
        ]
    return found


def _columns(body: str) -> Iterator[tuple[str, str]]:
    for column, kind in re.findall(r'^ {4}"?([a-z_0-9]+)"? +([a-z].*)$', body, re.MULTILINE):
        yield column, _type_of(kind.partition("--")[0])


def _type_of(kind: str) -> str:
    """Return a type, such as `bigint NOT NULL`, from everything behind a column's name."""
    name = kind.split()[0].rstrip(",")
    return f"{name} NOT NULL" if re.search(r"NOT NULL|PRIMARY KEY|IDENTITY", kind) else name


def commands() -> str:
    """Return every command with its arguments and options, as typer knows them."""
    found = [each for name in COMMANDS for each in _commands(f"tidegate {name}", tidegate.load(name))]
    return "\n".join(_command(name, command) for name, command in found)


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield a command, or a group's own and those below it, with full names. (Any: typer keeps its click private.)"""
    if not hasattr(command, "list_commands"):
        yield name, command
        return
    if command.invoke_without_command:
        yield name, command
    for below in command.list_commands(None):
        yield from _commands(f"{name} {below}", command.get_command(None, below))


def _command(name: str, command: Any) -> str:
    parameters = [item for item in command.params if item.expose_value]
    arguments = [item.name if item.required else f"[{item.name}]" for item in parameters if not _is_option(item)]
    usage = " ".join([name, *arguments, "[OPTIONS]"])
    rows = [(code(_written(item)), _meaning(item), code(_default_of(item))) for item in parameters]
    options = table(("", "meaning", "default"), rows)
    return f"## {name}\n\n```text\n{usage}\n```\n\n{_help(command.help or '')}\n{options}"


def _help(text: str) -> str:
    """Return a command's docstring as Markdown; text that `\\b` keeps as it is becomes a block."""
    first, kept, rest = inspect.cleandoc(text).partition("\b\n")
    message = "\n".join(textwrap.fill(part, 120, break_on_hyphens=False) + "\n" for part in first.strip().split("\n\n"))
    return message + (f"\n```text\n{rest.rstrip()}\n```\n" if kept else "")


def _is_option(item: Any) -> bool:
    return item.opts[0].startswith("-")


def _written(item: Any) -> str:
    return ", ".join(item.opts)


def _meaning(item: Any) -> str:
    kind = item.type_descriptor.annotation
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    if isinstance(kind, type) and issubclass(kind, Enum):
        choices = [one.value for one in kind]
    return " ".join((item.help or "").split()) + (f" One of {', '.join(map(code, choices))}." if choices else "")


def _default_of(item: Any) -> str:
    if item.required:
        return REQUIRED
    if isinstance(item.show_default, str):
        return item.show_default
    return "" if item.default in (None, False) else str(getattr(item.default, "value", item.default))


def producer_options() -> str:
    """Return the options of producers, as they may be written."""
    heads = ("option", "values", "librdkafka's default", "other names")
    rows = (
        (code(one.name), one.values, code(str(one.default).lower()) or "none", ", ".join(map(code, one.aliases)))
        for one in OPTIONS.values()
    )
    return table(heads, rows)


def java_options() -> str:
    """Return the options of Java's producer with their names here."""
    return table(("in Java", "here", "unit", "note"), map(_java_option, JAVA.values()))


def _java_option(option: JavaOption) -> tuple[str, str, str, str]:
    here = code(option.variable) if option.is_setting else code(option.name) or "none"
    unit = option.here if option.here == option.unit else f"{option.here}, in Java {option.unit}"
    return code(option.java), here, unit, option.note


PARTS: dict[str, Callable[[], str]] = {
    part.__name__: part
    for part in (
        contract_keys,
        contract_types,
        contract_sources,
        contract_expectations,
        contract_errors,
        exported_types,
        settings,
        producer_options,
        java_options,
        error_tree,
        commands,
        policy_kinds,
        policies_of_postgres,
        policies_of_kafka,
        policies_of_registry,
        policies_of_spark,
        policies_of_errors,
    )
}


def written(page: str) -> str:
    """Return the page with every generated part as the code has it now."""
    return PART.sub(lambda match: f"{match[1]}\n{PARTS[match[2]]()}\n{match[3]}", page)


def pages() -> list[Path]:
    return sorted(REFERENCE.glob("*.md"))


def main() -> int:
    """Rewrite the pages, and print which of them changed."""
    for path in pages():
        before = path.read_text()
        if (after := written(before)) != before:
            path.write_text(after)
            sys.stdout.write(f"{path.relative_to(ROOT)} is up to date again\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
