"""`tidegate dlq`: the messages that could not become rows."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from platform_defs.cli.content import content_json
from platform_defs.cli.options import DEFAULT_LIMIT, AnyPipelinesArgument, PipelineArgument
from platform_defs.cli.output import Output, OutputOption, print_each, print_fields, print_json, print_line, print_table
from platform_defs.errors import BadInput
from platform_defs.errors.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from platform_defs.contract.model.contract import Contract
    from platform_defs.ledger.answers import DeadLetterCount, DeadLetterLine, StoredDeadLetter
    from platform_defs.ledger.ledger import Ledger

    DeadLetter = TypeVar("DeadLetter", DeadLetterLine, StoredDeadLetter)

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command("list")
def list_(
    pipelines: AnyPipelinesArgument = None,
    reason: str | None = typer.Option(
        None,
        help="List the messages with this error class, such as currency_enum; without PIPELINE, count them.",
        show_default="count all",
    ),
    limit: int | None = typer.Option(
        None, min=1, help="List at most this many messages, newest batch first.", show_default=str(DEFAULT_LIMIT)
    ),
    output: OutputOption = Output.human,
) -> None:
    """Count dead letters by reason, with an example of each, or list them.

    With PIPELINE and --reason or --limit, messages are listed, newest batch
    first. Without PIPELINE, dead letters are only counted. Messages that
    producers could not deliver are not dead letters: see tidegate unsent.

    \b
    JSON with one PIPELINE (with several: pipelines, a list of such, and failed,
    a list: pipeline, message; without: pipelines, a list of such without
    messages, and without_contract, the pipelines without a usable contract):
      pipeline
      dead_letters  how many there are
      by_reason     stage (decode, check, transform or publish), error_class,
                    status (open, redriven or discarded), messages
      messages      batch_id, partition, offset, timestamp_ms, stage,
                    error_class, error_message, field, status, bytes
    """
    if not pipelines:
        if limit is not None:
            raise typer.BadParameter("--limit requires a pipeline: tidegate dlq list PIPELINE --limit N")
        _count_all(reason, output)
        return

    print_each(pipelines, lambda pipeline: _list(pipeline, reason, limit, output), output)


def _list(pipeline: str, reason: str | None, limit: int | None, output: Output) -> dict[str, Any]:
    """Return the pipeline's dead letters, and print them for a person."""
    from platform_defs.settings.contracts import find_contract

    contract, ledger = find_contract(pipeline), _ledger()
    counts = ledger.dead_letter_counts(pipeline, reason)
    total = sum(count.messages for count in counts)
    if output is Output.json:
        messages = _redacted(contract, ledger.dead_letters(pipeline, reason, limit or DEFAULT_LIMIT))
        return {**_counted(pipeline, counts), "messages": [asdict(item) for item in messages]}
    print_line(f"{pipeline} has {plural(total, 'dead letter')}" + (f" of class {reason}" if reason else ""))
    if total and reason is None and limit is None:
        examples = _redacted(contract, ledger.dead_letter_examples(pipeline))
        newest = {(item.stage, item.error_class, item.status): item for item in examples}
        rows = list[tuple[Any, ...]]()
        for count in counts:
            item = newest.get((count.stage, count.error_class, count.status))  # pruned ones have none
            place = (item.field, item.partition, item.offset, item.error_message) if item else (None,) * 4
            rows.append((count.stage, count.error_class, count.status, count.messages, *place))
        print_table(["stage", "reason", "status", "messages", "field", "partition", "offset", "example"], rows)
        if examples:
            print_line(f"To list messages: tidegate dlq list {pipeline} --reason {examples[0].error_class}")
    elif total:
        found = _redacted(contract, ledger.dead_letters(pipeline, reason, limit or DEFAULT_LIMIT))
        if not found:
            print_line("The messages were pruned; only their number is kept.")
            return {}
        print_table(
            ["partition", "offset", "reason", "field", "status", "bytes", "explanation"],
            [(i.partition, i.offset, i.error_class, i.field, i.status, i.bytes, i.error_message) for i in found],
        )
        if len(found) < total:
            print_line(f"Showing {len(found):,} of {total:,} (--limit). Messages that were pruned cannot be shown.")
    return {}


def _count_all(reason: str | None, output: Output) -> None:
    from platform_defs.settings.contracts import read_contracts

    contracts = read_contracts()
    counts = _ledger().dead_letter_totals(reason)
    unusable = sorted(counts.keys() - {contract.pipeline for contract in contracts.good})
    if output is Output.json:
        print_json(
            {"pipelines": [_counted(name, found) for name, found in counts.items()], "without_contract": unusable}
        )
        return
    rows = [(name, c.stage, c.error_class, c.status, c.messages) for name, found in counts.items() for c in found]
    if not rows:
        print_line("No pipeline has dead letters" + (f" of class {reason}." if reason else "."))
        return
    print_table(["pipeline", "stage", "reason", "status", "messages"], rows)
    for name in unusable:
        print_line(f"{name} has no contract that can be used; its dead letters can be counted, but not listed.")
    print_line("To see an example of each reason: tidegate dlq list PIPELINE")


def _counted(pipeline: str, counts: Sequence[DeadLetterCount]) -> dict[str, Any]:
    total = sum(count.messages for count in counts)
    return {"pipeline": pipeline, "dead_letters": total, "by_reason": [asdict(count) for count in counts]}


@app.command()
def show(
    pipeline: PipelineArgument,
    partition: int = typer.Argument(min=0, help="The partition that the message is in."),
    offset: int = typer.Argument(min=0, help="The message's offset."),
    values: bool = typer.Option(
        False, "--values", help="Show key, value and headers even if the contract classifies fields."
    ),
    output: OutputOption = Output.human,
) -> None:
    """Show one dead letter in full: reason, key, value and headers.

    If the contract classifies fields, the message itself is shown only with
    --values. Without --values, only the lengths of its parts are shown.

    \b
    JSON:
      topic, topic_id, batch_id, partition, offset, timestamp_ms
      stage, error_class, error_message, field
      status, status_by, status_at
      key, value  null, or base64, bytes (the length) and, if it is UTF-8, text
      headers     name, value (as above)
      hidden      whether base64 and text are omitted (see --values)
    """
    from platform_defs.contract.model.classified import classified
    from platform_defs.settings.contracts import find_contract

    contract = find_contract(pipeline)
    found = _ledger().dead_letter(pipeline, partition, offset)
    hidden = not values and classified(contract).any
    if found is None:
        raise BadInput(
            f"{pipeline} has no dead letter at partition {partition}, offset {offset}. To see those it has: "
            f"tidegate dlq list {pipeline}"
        )
    if hidden:
        (found,) = _redacted(contract, [found])
    if output is Output.json:
        exact = partial(content_json, hidden=hidden)
        headers = [{"name": name, "value": exact(content)} for name, content in found.headers]
        content = {"key": exact(found.key), "value": exact(found.value), "headers": headers}
        print_json({**_facts(found), **content, "hidden": hidden})
        return
    readable = partial(_readable, hidden=hidden)
    headers = {f"header {name}": readable(content) for name, content in found.headers}
    print_fields({**_facts(found), "key": readable(found.key), **headers})
    print_line(
        f"value ({plural(len(found.value), 'byte')}):" if found.value is not None else "value: none (a tombstone)"
    )
    if found.value is not None:
        print_line(readable(found.value) or "-")


def _redacted(contract: Contract, found: Iterable[DeadLetter]) -> list[DeadLetter]:
    """Return them with reasons that quote no classified value."""
    from platform_defs.contract.redaction import stored_reason

    return [
        replace(
            item, error_message=stored_reason(contract, item.stage, item.error_class, item.error_message, item.field)
        )
        for item in found
    ]


def _facts(found: StoredDeadLetter) -> dict[str, Any]:
    """Return everything but the message itself."""
    content = {"key", "value", "headers"}
    return {item.name: getattr(found, item.name) for item in fields(found) if item.name not in content}


def _ledger() -> Ledger:
    from platform_defs.ledger.ledger import Ledger
    from platform_defs.stack.endpoints import ledger_alone

    return Ledger(ledger_alone())


def _readable(content: bytes | None, *, hidden: bool) -> str | None:
    if content is None:
        return None
    return (
        f"(hidden: {plural(len(content), 'byte')}; --values shows it)"
        if hidden
        else content.decode("utf-8", "backslashreplace")
    )
