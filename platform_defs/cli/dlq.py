"""`tidegate dlq`: the messages that are no rows."""

import base64
from typing import Any

import typer

from platform_defs.cli.output import Output, OutputOption, print_fields, print_json, print_line, print_table
from platform_defs.errors import BadInput

app = typer.Typer(help="Dead letters: messages that could not become rows.", no_args_is_help=True)


@app.command("list")
def list_(
    pipeline: str = typer.Argument(help="Such as bank_transfers."),
    reason: str | None = typer.Option(None, help="Only of this error class, such as currency_enum."),
    limit: int = typer.Option(20, min=1, help="At most so many."),
    output: OutputOption = Output.human,
) -> None:
    """List dead letters, those of the newest batch first, and count them by reason."""
    ledger = _ledger(pipeline)
    counts = ledger.rows("dead_letter_counts", pipeline=pipeline, reason=reason)
    found = ledger.rows("dead_letters_of", pipeline=pipeline, reason=reason, limit=limit)
    total = sum(row["messages"] for row in counts)
    if output is Output.json:
        print_json({"pipeline": pipeline, "dead_letters": total, "by_reason": counts, "messages": found})
        return
    print_line(f"{pipeline} has {total} dead letters" + (f" of {reason}" if reason else ""))
    if total:
        print_table(["stage", "reason", "status", "messages"], [tuple(row.values()) for row in counts])
        shown = ("partition", "offset", "error_class", "error_message", "bytes", "status")
        print_table(shown, [[row[name] for name in shown] for row in found])


@app.command()
def show(
    pipeline: str = typer.Argument(help="Such as bank_transfers."),
    partition: int = typer.Argument(min=0),
    offset: int = typer.Argument(min=0),
    output: OutputOption = Output.human,
) -> None:
    """Show one dead letter whole: reason, key, value and headers."""
    found = _ledger(pipeline).rows("dead_letter_at", pipeline=pipeline, partition=partition, offset=offset)
    if not found:
        raise BadInput(
            f"{pipeline} has no dead letter at partition {partition}, offset {offset}. To see them: "
            f"tidegate dlq list {pipeline}"
        )
    row = found[0]
    headers = list(zip(row.pop("header_names") or [], row.pop("header_values") or [], strict=True))
    key, value = row.pop("key"), row.pop("value")
    if output is Output.json:
        spelt = [{"name": name, "value": _exact(content)} for name, content in headers]
        print_json({**row, "key": _exact(key), "value": _exact(value), "headers": spelt})
        return
    print_fields({**row, "key": _readable(key), **{f"header {name}": _readable(content) for name, content in headers}})
    print_line(f"value ({len(value) if value is not None else 'no'} bytes):")
    print_line(_readable(value) or "-")


def _ledger(pipeline: str) -> Any:
    from assets import find_pipeline
    from resources.endpoints import connection
    from resources.postgres.ledger import Ledger

    find_pipeline(pipeline)
    return Ledger(connection().postgres_url)


def _exact(content: bytes | None) -> dict[str, Any] | None:
    """As base64, which is exact, and as text where it is some."""
    if content is None:
        return None
    document: dict[str, Any] = {"base64": base64.b64encode(content).decode(), "bytes": len(content)}
    try:
        return {**document, "text": content.decode()}
    except UnicodeDecodeError:
        return document


def _readable(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "backslashreplace")
