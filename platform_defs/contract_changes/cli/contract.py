"""`tidegate contract`: its mistakes, the effect of a change on its tables, the change itself, and the gate for CI."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from platform_defs.cli.options import PipelineArgument
from platform_defs.cli.output import Output, OutputOption, print_answer, progress
from platform_defs.contract_changes.cli import validate as contract_validate
from platform_defs.schemas.conversion import cli as contract_schemas

if TYPE_CHECKING:
    from platform_defs.contract.evolution.statements import Given
    from platform_defs.contract.model.contract import Contract
    from platform_defs.contract_changes.evolve import Proposal
    from platform_defs.contract_changes.preview import Preview

app = typer.Typer(no_args_is_help=True, add_completion=False)

Fill = Annotated[
    list[str] | None,
    typer.Option("--fill", metavar="COLUMN=VALUE", help="The value of a new required column in existing rows."),
]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Drop a column that the contract no longer has.")
]


class Allowed(StrEnum):
    """The changes that have to be allowed."""

    breaking = "breaking"
    declassify = "declassify"


Allow = Annotated[
    list[Allowed] | None,
    typer.Option(
        "--allow",
        help="breaking: rename columns, which breaks their readers. declassify: show values that were classified.",
        show_default=False,
    ),
]


@app.command()
def diff(
    pipeline: PipelineArgument,
    fill: Fill = None,
    drop: Drop = None,
    allow: Allow = None,
    messages: int = typer.Option(
        0, min=0, help="Check this many of the latest messages in each partition against both contracts."
    ),
    output: OutputOption = Output.human,
) -> None:
    """Show what has changed since the contract was applied, without applying it.

    The class of each change shows its consequences; the statements are those
    that tidegate contract apply runs. With --messages, the latest messages are
    read and checked against both contracts, and schemas fetched from the
    registry are kept in the ledger.

    \b
    JSON:
      pipeline, version (null if the ledger has no contract for it yet),
      becomes (the file's version), bump
      changes       sign, what, class, sentence, table, column
      statements    table, column, sql, refused (why it cannot run in place)
      tables        created empty, to be filled by a replay
      refused       why it cannot be applied; empty if it can
      needs_replay  whether rows must be rebuilt by a replay
      loosened      by rule: open dead letters that may pass now
      writers       schemas that messages named: key, generation, fit,
                    reason, messages, first_batch
      nullable      columns that were already required, but in which
                    Postgres allows NULL
      applied       false
      preview       with --messages: messages, rows and dead letters by
                    reason, before and after
    """
    contract, given = _read(pipeline, fill, drop, allow)
    from platform_defs.contract_changes.evolve import propose
    from platform_defs.stack.open_systems import open_systems

    endpoints = open_systems().endpoints
    found = propose(endpoints.postgres_url, contract, given)
    preview: Preview | None = None
    if messages:
        from platform_defs.contract_changes.preview import decode_both

        with progress() as show:
            preview = decode_both(found.plan.old, found.plan.new, endpoints, messages, show)
    _answer(found, output, applied=False, preview=preview)


@app.command()
def apply(
    pipeline: PipelineArgument,
    fill: Fill = None,
    drop: Drop = None,
    allow: Allow = None,
    yes: bool = typer.Option(False, "--yes", help="Apply the change; without this option, only show it, as diff does."),
    not_null: bool = typer.Option(
        False, "--not-null", help="Only set NOT NULL on the columns that the applied contract requires."
    ),
    output: OutputOption = Output.human,
) -> None:
    """Change the tables to match the contract, and record the contract.

    In one transaction, the pipeline's row is locked, a running batch is fenced
    (its messages are read again), the statements run, and the contract is
    recorded with the user and the time. The command waits only briefly for
    each lock, so that no other session queues behind it, and tries five times.

    With --not-null, the command only sets NOT NULL on the required columns of
    tables that an older version created. A CHECK constraint is validated
    first, while readers and runs continue.

    \b
    JSON: as tidegate contract diff; applied is true if it was applied.
    With --not-null: pipeline, not_null, a list of schema.table.column.
    """
    contract, given = _read(pipeline, fill, drop, allow)
    from platform_defs.contract_changes import evolve
    from platform_defs.settings.current_user import current_user
    from platform_defs.stack.open_systems import open_systems

    url = open_systems().endpoints.postgres_url
    if not_null:
        altered = evolve.set_not_null(url, contract)
        done = f"Set NOT NULL: {', '.join(altered)}." if altered else "Every required column is NOT NULL already."
        print_answer({"pipeline": pipeline, "not_null": list(altered)}, done, output)
        return
    if not yes:
        _answer(evolve.propose(url, contract, given), output, applied=False)
        return
    applied = evolve.apply(url, contract, given, current_user())
    _answer(applied, output, applied=not applied.empty)


@app.command()
def check(
    pipelines: Annotated[
        list[str] | None, typer.Argument(help="Pipelines, such as bank_transfers.", show_default="all")
    ] = None,
    against: str = typer.Option(
        "git:HEAD", help="git:REF (a branch, tag or commit), ledger, registry, or the path of a contract file."
    ),
    output: Annotated[
        Literal["text", "json", "github"],
        typer.Option(
            "--output", "-o", help="Output format: text for people, one JSON document, or annotations for GitHub."
        ),
    ] = "text",
) -> None:
    """Fail if a contract's version does not fit its changes.

    The command is made for CI: with --against git:REF it needs neither Kafka
    nor Postgres. It imports no transform: tidegate contract validate does.
    With --against registry, a contract fits if it can read each version of its
    subject (the newest 100) and each schema that the ledger has seen, and if
    the registry would accept the schema that it exports. The exit code is 0 if
    all contracts fit, 1 if one does not fit or is not valid, and 2 if one
    could not be compared: the branch does not exist, the older contract or the
    file to compare with cannot be read, there is no ledger, or the registry is
    unavailable.

    \b
    JSON: against, fits, error (why nothing was compared), contracts:
      pipeline, file, line, result (fits, does not fit, not compared, new)
      version, becomes, bump, changes (as tidegate contract diff)
      problems      why it does not fit, or could not be compared
      notices       other findings, which do not affect the result
    """
    from platform_defs.contract_changes.cli.gate_answer import show
    from platform_defs.contract_changes.gate import gate

    found = gate(pipelines or [], against)
    show(found, output)
    if found.code:
        raise typer.Exit(found.code)


app.command("validate")(contract_validate.validate)
app.command("export")(contract_schemas.export)
app.command("register")(contract_schemas.register)
app.command("import")(contract_schemas.import_)


def _read(
    pipeline: str, fill: list[str] | None, drop: list[str] | None, allow: list[Allowed] | None
) -> tuple[Contract, Given]:
    """Return the contract of the file, and the person's decisions."""
    from platform_defs.contract.evolution.statements import Given, fills
    from platform_defs.formats.writer_fit import refuse_schema_file
    from platform_defs.settings.contracts import find_pipeline

    contract = find_pipeline(pipeline).contract
    refuse_schema_file(contract)
    allowed = {name: item in (allow or ()) for name, item in Allowed.__members__.items()}
    return contract, Given(fills(contract, fill or ()), frozenset(drop or ()), **allowed)


def _answer(found: Proposal, output: Output, *, applied: bool, preview: Preview | None = None) -> None:
    from platform_defs.contract_changes.cli.answer import as_json, show

    document = as_json(found, applied=applied, preview=preview)
    print_answer(document, lambda: show(found, preview, applied=applied), output)
