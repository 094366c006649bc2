"""The answers of `tidegate peek`: a few lines for each message, or JSON."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from platform_defs.cli.content import hex_lines
from platform_defs.cli.output import Output, print_error, print_json, print_json_line, print_line
from platform_defs.contract.model.classified import HIDDEN
from platform_defs.errors.words import plural

if TYPE_CHECKING:
    from platform_defs.messages.peek import Peek
    from platform_defs.messages.peeked_message import Content, PeekedMessage

MAX_DUMPED = 64  # bytes of a value that no contract decodes
MAX_SHOWN = 400  # characters of one value on a terminal; off a terminal, all of it


def print_all(found: Peek, output: Output) -> None:
    """Print the messages up to the ends that partitions have now."""
    if output is Output.json:
        messages = [_message_json(one) for one in found.messages()]
        chosen, contract = found.selected.chosen, found.selected.contract
        print_json(
            {
                "topic": chosen.topic,
                "pipeline": contract and contract.pipeline,
                "format": contract.format if contract else "raw",
                "hidden": chosen.hides,
                "read": found.read,
                "messages": messages,
            }
        )
        return
    for one in found.messages():
        print_line("\n".join(_lines(one)))
    print_error(_summary(found))


def print_each(found: Peek, output: Output) -> None:
    """Print messages as they come, until Ctrl-C or the limit."""
    with suppress(KeyboardInterrupt):  # how a user ends it
        for one in found.follow():
            if output is Output.json:
                print_json_line(_message_json(one))
            else:
                print_line("\n".join(_lines(one)))
    print_error(_summary(found))


def _summary(found: Peek) -> str:
    shown = f"{plural(found.returned, 'message')} of {found.topic}"
    if found.returned == found.limit:
        shown += f", as many as --limit {found.limit} allows"
    return f"{shown}; {plural(found.read, 'message')} read" if found.selected.selects else shown


def _lines(one: PeekedMessage) -> Iterator[str]:
    """Yield the lines for a person: the place of the message, then fields, headers, or why it has no fields."""
    time = one.time.isoformat(timespec="milliseconds").replace("+00:00", "Z") if one.time else one.timestamp_ms
    size = plural(one.value.size, "byte") if one.value else "tombstone"
    yield f"partition {one.partition}, offset {one.offset}, {time or 'no timestamp'}, key {_text(one.key)}, {size}"
    rows = {name: _shown(value) for name, value in (one.fields or {}).items()}
    rows |= {f"header {_on_one_line(name)}": _text(value) for name, value in one.headers}
    width = max(map(len, rows), default=0)
    for name, value in rows.items():
        yield f"  {name:<{width}}  {value.replace(chr(10), chr(10) + ' ' * (width + 4))}"
    if one.fault is not None:
        yield f"  dead letter ({one.fault.stage}): {one.fault.error_class}: {one.fault.message}"
    if one.other_record:
        yield "  skipped: the contract reads another record"
    if one.value is None or one.value.data is None:
        return
    if one.fault is None and one.value.text is not None:
        yield f"  {_cut(one.value.text)}".replace("\n", "\n  ")
    else:
        yield from (f"  {line}" for line in hex_lines(one.value.data, MAX_DUMPED))


def _text(content: Content | None) -> str:
    """Return a key or a header's value on one line."""
    if content is None:
        return "-"
    if content.text is not None:
        return _on_one_line(_cut(content.text))
    return HIDDEN if content.data is None else f"\\x{content.data[:MAX_DUMPED].hex()}"


def _on_one_line(text: str) -> str:
    """Return the text with its line ends as \\n: it could look like another message."""
    return text.replace("\n", "\\n")


def _shown(value: Any) -> str:
    plain = _plain(value)
    return "-" if plain is None else _cut(plain if isinstance(plain, str) else json.dumps(plain))


def _cut(text: str) -> str:
    if len(text) <= MAX_SHOWN or not sys.stdout.isatty():
        return text
    return f"{text[:MAX_SHOWN]}... ({len(text):,} characters)"


def _plain(value: Any) -> Any:
    """Return a field's value as JSON has it: exact numbers, dates and bytes as text, as Postgres prints them."""
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return f"\\x{value.hex()}" if isinstance(value, bytes) else value


def _message_json(one: PeekedMessage) -> dict[str, Any]:
    fault = one.fault
    return {
        "partition": one.partition,
        "offset": one.offset,
        "timestamp_ms": one.timestamp_ms,
        "timestamp_type": one.timestamp_type,
        "key": _content_json(one.key),
        "headers": [{"name": name, "value": _content_json(value)} for name, value in one.headers],
        "tombstone": one.value is None,
        "fields": one.fields and {name: _plain(value) for name, value in one.fields.items()},
        "value": _content_json(one.value),
        "dead_letter": fault
        and {
            "stage": fault.stage,
            "error_class": fault.error_class,
            "error_message": fault.message,
            "field": fault.field,
        },
        "other_record": one.other_record,
    }


def _content_json(content: Content | None) -> dict[str, Any] | None:
    """Return the bytes as cli/content.py does; the text is that of a decoded key if there is one."""
    if content is None:
        return None
    if content.data is None:
        return {"bytes": content.size}
    document: dict[str, Any] = {"base64": base64.b64encode(content.data).decode(), "bytes": content.size}
    return document if content.text is None else {**document, "text": content.text}
