"""`tidegate migrate`: the ledger's schema, created or brought up to date."""

import typer

from platform_defs.cli.output import Output, OutputOption, print_json, print_line

app = typer.Typer(add_completion=False)


@app.command()
def migrate(output: OutputOption = Output.human) -> None:
    """Create the ledger in Postgres, or bring it up to date.

    The ledger is the schema tidegate: positions, batches, dead letters, halts.
    Every run does this when it starts; the command is for a database user with
    more rights than the runs have, or for upgrading beforehand. Where the
    ledger is up to date, nothing changes.

    \b
    JSON:
      applied  the migrations applied by this call, in order; may be empty
    """
    from platform_defs.cli.outside import outside

    applied = outside().ledger.migrate()
    if output is Output.json:
        print_json({"applied": list(applied)})
    elif applied:
        print_line(f"The ledger is now up to date. Migrations applied: {', '.join(applied)}")
    else:
        print_line("The ledger is up to date; nothing to do.")
