"""`tidegate migrate`: the ledger's schema, created or brought up to date."""

import typer

from platform_defs.cli.output import Output, OutputOption, print_error, print_json, print_line


def migrate(
    tables: bool = typer.Option(False, "--tables", help="Also create missing tables of every contract, and Dagster's."),
    output: OutputOption = Output.human,
) -> None:
    """Create the ledger in Postgres, or bring it up to date.

    The ledger is the schema tidegate: positions, batches, dead letters, halts.
    Every run creates or migrates the ledger when it starts. Use the command if
    another database user owns the ledger, or to upgrade beforehand. With
    --tables it also creates the tables, so that runs have nothing left to
    create. If everything exists and is up to date, nothing changes.

    \b
    JSON:
      applied  the migrations that this call applied, in order; may be empty
      created  the tables that it created, and the schema dagster; may be empty
    """
    from platform_defs.ledger.ledger import Ledger
    from platform_defs.stack.endpoints import ledger_alone

    applied = Ledger(ledger_alone()).migrate()
    created = _created() if tables else []
    if output is Output.json:
        print_json({"applied": list(applied), "created": created})
        return
    if applied:
        print_line(f"The ledger is now up to date. Migrations applied: {', '.join(applied)}")
    else:
        print_line("The ledger is up to date; nothing to do.")
    if tables:
        print_line(f"Created: {', '.join(created)}" if created else "Every table already exists.")


def _created() -> list[str]:
    from platform_defs.dagster.storage import SCHEMA, create_missing_tables
    from platform_defs.engine.lease.table_claims import create_unclaimed
    from platform_defs.settings.contracts import read_contracts
    from platform_defs.stack.endpoints import ledger_alone

    found = read_contracts()
    for broken in found.broken:
        print_error(f"no table was created for {broken.name}, whose contract cannot be used: {broken.error}")
    created = create_unclaimed(ledger_alone(), found.good)
    return [*created, *([SCHEMA] if create_missing_tables() else [])]
