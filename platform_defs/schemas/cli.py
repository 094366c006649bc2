"""`tidegate schema`: the schemas that a contract's messages are written with."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from platform_defs.cli.options import PipelineArgument
from platform_defs.cli.output import (
    Output,
    OutputOption,
    print_answer,
    print_error,
    print_fields,
    print_line,
    print_table,
    print_text,
)
from platform_defs.errors.words import plural

if TYPE_CHECKING:
    from platform_defs.schemas.kept_schemas import Shown
    from platform_defs.schemas.survey import SchemaSurvey

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command("list")
def list_(pipeline: PipelineArgument, output: OutputOption = Output.human) -> None:
    """List versions of the subject, and schemas that messages named.

    For each schema, the command shows how many messages named it, in which
    batches, and whether its messages can become rows of the contract.

    \b
    JSON: pipeline, subject, subject_name_strategy (TopicNameStrategy,
    RecordNameStrategy, TopicRecordNameStrategy; null: a custom name),
    unasked (the registry or the ledger, if not configured), schemas:
      key           the registry's id, or a GUID
      version       in the subject; null if the subject does not have it
      format, fit (fits, does not fit, other record), reason
      messages, first_batch, last_batch, first_seen_at, generation
    """
    from platform_defs.schemas.survey import survey
    from platform_defs.settings.contracts import find_contract
    from platform_defs.settings.settings import settings
    from platform_defs.stack.endpoints import ledger_if_any, registry_if_any

    contract = find_contract(pipeline)
    found = survey(contract, registry_if_any(), ledger_if_any(), settings().registry_name)
    for who in found.unasked:
        print_error(f"{who} was not checked: none is running, and no TIDEGATE_* variable names one")
    document = {"pipeline": pipeline, "subject_name_strategy": contract.subject_name_strategy, **asdict(found)}
    print_answer(document, lambda: _print(found, contract.subject_name_strategy or "a name of its own"), output)


def _print(found: SchemaSurvey, naming: str) -> None:
    if not found.schemas:
        print_line(f"{found.subject} has no version yet: tidegate contract register")
        return
    rows = [
        (one.key, one.version, one.format, f"{one.messages:,}", one.first_batch, one.last_batch, one.fit)
        for one in found.schemas
    ]
    print_table(
        ["id", "version", "format", "messages", "first batch", "last batch", "fit"], rows, f"{found.subject} ({naming})"
    )
    for one in found.schemas:
        if one.reason:
            print_line(f"{one.key}: {one.reason}")


@app.command()
def show(
    pipeline: PipelineArgument,
    key: Annotated[str, typer.Argument(help="An id or a GUID from tidegate schema list.")],
    output: OutputOption = Output.human,
) -> None:
    """Show a schema from the ledger or, if it is not there, from the registry.

    \b
    JSON: pipeline, key, format, document (its text), source
      references    name and text of each schema that it refers to
      batches       the newest: batch_id, committed_at, part (value or key), messages
    """
    from platform_defs.schemas.kept_schemas import show as shown
    from platform_defs.settings.contracts import find_contract
    from platform_defs.settings.settings import settings
    from platform_defs.stack.endpoints import ledger_alone, registry_if_any

    found = shown(find_contract(pipeline), key, ledger_alone(), settings().registry_name, registry_if_any())
    schema = found.schema
    document = {
        **{"pipeline": pipeline, "key": schema.key, "format": schema.format, "document": schema.document},
        "source": found.source,
        "references": [{"name": name, "document": text} for name, text in schema.references],
        "batches": [asdict(one) for one in found.batches],
    }
    print_answer(document, lambda: _print_one(found), output)


def _print_one(found: Shown) -> None:
    names = ", ".join(name for name, _ in found.schema.references) or None
    print_fields({"id": found.schema.key, "format": found.schema.format, "source": found.source, "refers to": names})
    print_text(found.schema.document)
    if found.batches:
        rows = [
            (one.batch_id, one.committed_at.isoformat(timespec="seconds"), one.part, one.messages)
            for one in found.batches
        ]
        print_table(["batch", "committed", "part", "messages"], rows)


@app.command()
def fetch(pipeline: PipelineArgument, output: OutputOption = Output.human) -> None:
    """Fetch every version of the contract's subjects into the ledger.

    A run fetches a schema when a message names it. If all of them are fetched
    beforehand, runs need no registry.

    \b
    JSON: pipeline, subject, schemas (how many), new (ids)
    """
    from platform_defs.schemas.kept_schemas import fetch as fetched
    from platform_defs.settings.contracts import find_contract
    from platform_defs.settings.settings import settings
    from platform_defs.stack.endpoints import ledger_alone, registry_alone

    done = fetched(find_contract(pipeline), ledger_alone(), settings().registry_name, registry_alone())
    message = f"{plural(done.schemas, 'schema')} of {done.subject} ({len(done.new)} new): all are now in the ledger."
    print_answer({"pipeline": pipeline, **asdict(done)}, message, output)
