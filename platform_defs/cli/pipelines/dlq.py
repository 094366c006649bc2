"""`tidegate dlq`: the messages that could not become rows, and those that producers could not deliver."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from platform_defs.cli.kafka.content import content_json
from platform_defs.cli.output import Output, OutputOption, print_fields, print_json, print_line, print_table
from platform_defs.cli.pipelines.dlq_unsent import OutcomeChoice, discard, list_unsent, send
from platform_defs.errors import BadInput
from platform_defs.errors.words import plural

if TYPE_CHECKING:
    from platform_defs.contract.model.contract import Contract
    from resources.postgres.ledger.answers import DeadLetterLine, StoredDeadLetter
    from resources.postgres.ledger.ledger import Ledger

    DeadLetter = TypeVar("DeadLetter", DeadLetterLine, StoredDeadLetter)

_SHOWN = "backslashreplace"  # bytes that are not UTF-8
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
    from assets import find_contract

    ledger, contract = _ledger(pipeline), find_contract(pipeline)
    counts = ledger.dead_letter_counts(pipeline, reason)
    found = [_redacted(contract, item) for item in ledger.dead_letters(pipeline, reason, limit)]
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
    values: bool = typer.Option(
        False, "--values", help="Show key, value and headers although the contract classifies fields."
    ),
    output: OutputOption = Output.human,
) -> None:
    """Show one dead letter in full: reason, key, value and headers.

    Where the contract classifies fields, the message itself is shown only with
    --values; without it, how long its parts are.

    \b
    JSON:
      topic, topic_id, batch_id, partition, offset, timestamp_ms
      stage, error_class, error_message, field
      status, status_by, status_at
      key, value  null, or base64, bytes (the length) and, if it is UTF-8, text
      headers     name, value (as above)
      hidden      whether base64 and text are left out (see --values)
    """
    from assets import find_contract
    from platform_defs.contract.model.classified import classified

    found, contract = _ledger(pipeline).dead_letter(pipeline, partition, offset), find_contract(pipeline)
    hidden = not values and classified(contract).any
    if found is None:
        raise BadInput(
            f"{pipeline} has no dead letter at partition {partition}, offset {offset}. To see those it has: "
            f"tidegate dlq list {pipeline}"
        )
    if hidden:
        found = _redacted(contract, found)
    if output is Output.json:
        exact = partial(content_json, hidden=hidden)
        headers = [{"name": name, "value": exact(content)} for name, content in found.headers]
        content = {"key": exact(found.key), "value": exact(found.value), "headers": headers}
        print_json({**_facts(found), **content, "hidden": hidden})
        return
    readable = partial(_readable, hidden=hidden)
    headers = {f"header {name}": readable(content) for name, content in found.headers}
    print_fields({**_facts(found), "key": readable(found.key), **headers})
    print_line(f"value ({len(found.value)} bytes):" if found.value is not None else "value: none (a tombstone)")
    if found.value is not None:
        print_line(readable(found.value) or "-")


app.command()(send)
app.command()(discard)


def _redacted(contract: Contract, found: DeadLetter) -> DeadLetter:
    """Return `found` with a reason that quotes no classified value."""
    from platform_defs.engine.task.redaction import stored_reason

    message = stored_reason(contract, found.stage, found.error_class, found.error_message, found.field)
    return replace(found, error_message=message)


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


def _readable(content: bytes | None, *, hidden: bool) -> str | None:
    if content is None:
        return None
    return f"(hidden: {plural(len(content), 'byte')}; --values shows it)" if hidden else content.decode("utf-8", _SHOWN)
