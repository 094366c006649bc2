"""`tidegate dlq`: the messages that could not become rows, and those that producers could not deliver."""

from __future__ import annotations

import base64
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import typer

from platform_defs.cli.dlq_unsent import OutcomeChoice, discard, list_unsent, send
from platform_defs.cli.output import Output, OutputOption, print_fields, print_json, print_line, print_table
from platform_defs.errors import BadInput
from platform_defs.words import plural

if TYPE_CHECKING:
    from resources.postgres.answers import StoredDeadLetter
    from resources.postgres.ledger import Ledger

app = typer.Typer(help="Dead letters: messages that could not become rows, or be sent.", no_args_is_help=True)


@app.command("list")
def list_(
    pipeline: str = typer.Argument(help="A pipeline, such as bank_transfers."),
    reason: str | None = typer.Option(
        None, help="Only those of this error class, such as currency_enum.", show_default="all"
    ),
    limit: int = typer.Option(20, min=1, help="How many messages to list at most."),
    unsent: bool = typer.Option(False, "--unsent", help="List what producers could not deliver."),
    outcome: OutcomeChoice | None = typer.Option(
        None, help="With --unsent: only messages of this outcome.", show_default="all"
    ),
    output: OutputOption = Output.human,
) -> None:
    """List dead letters, newest batch first, and count them by reason.

    With --unsent: the messages that producers could not deliver; their reason is
    the name of an error, such as _MSG_TIMED_OUT.

    \b
    JSON:
      pipeline
      dead_letters  how many there are
      by_reason     stage (decode, check, transform or publish), error_class,
                    status (open, redriven or discarded), messages
      messages      batch_id, partition, offset, timestamp_ms, stage,
                    error_class, error_message, field, status, bytes
    JSON with --unsent:
      pipeline
      unsent     how many are not settled
      by_reason  topic, outcome (poison, not_written or unknown), error_name,
                 status (open, found, sent or discarded), messages
      messages   unsent_id, topic, partition, error_code, error_name, outcome,
                 tries, failed_at, bytes, status, settled_at, settled_by,
                 settled_reason, settled_partition, settled_offset
    """
    if unsent:
        list_unsent(pipeline, reason, outcome, limit, output)
        return
    if outcome is not None:
        raise typer.BadParameter("--outcome goes with --unsent")
    ledger = _ledger(pipeline)
    counts, found = ledger.dead_letter_counts(pipeline, reason), ledger.dead_letters(pipeline, reason, limit)
    total = sum(count.messages for count in counts)
    if output is Output.json:
        by_reason, messages = [asdict(count) for count in counts], [asdict(item) for item in found]
        print_json({"pipeline": pipeline, "dead_letters": total, "by_reason": by_reason, "messages": messages})
        return
    print_line(f"{pipeline} has {plural(total, 'dead letter')}" + (f" of class {reason}" if reason else ""))
    if total:
        print_table(
            ["stage", "reason", "status", "messages"],
            [(count.stage, count.error_class, count.status, count.messages) for count in counts],
        )
        print_table(
            ["partition", "offset", "reason", "explanation", "bytes", "status"],
            [(i.partition, i.offset, i.error_class, i.error_message, i.bytes, i.status) for i in found],
        )


@app.command()
def show(
    pipeline: str = typer.Argument(help="A pipeline, such as bank_transfers."),
    partition: int = typer.Argument(min=0, help="The partition that the message is in."),
    offset: int = typer.Argument(min=0, help="The message's offset."),
    output: OutputOption = Output.human,
) -> None:
    """Show one dead letter in full: reason, key, value and headers.

    \b
    JSON:
      topic, topic_id, batch_id, partition, offset, timestamp_ms
      stage, error_class, error_message, field
      status, status_by, status_at
      key, value  null, or base64, bytes (the length) and, if it is UTF-8, text
      headers     name, value (as above)
    """
    found = _ledger(pipeline).dead_letter(pipeline, partition, offset)
    if found is None:
        raise BadInput(
            f"{pipeline} has no dead letter at partition {partition}, offset {offset}. To see those it has: "
            f"tidegate dlq list {pipeline}"
        )
    if output is Output.json:
        headers = [{"name": name, "value": _exact(content)} for name, content in found.headers]
        print_json({**_facts(found), "key": _exact(found.key), "value": _exact(found.value), "headers": headers})
        return
    headers = {f"header {name}": _readable(content) for name, content in found.headers}
    print_fields({**_facts(found), "key": _readable(found.key), **headers})
    print_line(f"value ({len(found.value)} bytes):" if found.value is not None else "value: none (a tombstone)")
    if found.value is not None:
        print_line(_readable(found.value) or "-")


app.command()(send)
app.command()(discard)


def _facts(found: StoredDeadLetter) -> dict[str, Any]:
    """Everything but the message itself."""
    content = {"key", "value", "headers"}
    return {item.name: getattr(found, item.name) for item in fields(found) if item.name not in content}


def _ledger(pipeline: str) -> Ledger:
    """Raises BadInput where there is no such pipeline."""
    from assets import find_contract
    from platform_defs.cli.outside import outside

    find_contract(pipeline)
    return outside().ledger


def _exact(content: bytes | None) -> dict[str, Any] | None:
    """As base64, which is exact, and as text if it is UTF-8."""
    if content is None:
        return None
    document: dict[str, Any] = {"base64": base64.b64encode(content).decode(), "bytes": len(content)}
    try:
        return {**document, "text": content.decode()}
    except UnicodeDecodeError:
        return document


def _readable(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "backslashreplace")
