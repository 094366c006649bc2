"""`tidegate rights`: the privileges that three database roles need."""

import typer

from platform_defs.cli.output import Output, OutputOption, print_error, print_json, print_line

app = typer.Typer(add_completion=False)


@app.command()
def rights(
    owner: str = typer.Option("tidegate_owner", help="Who owns the ledger and creates tables."),
    publisher: str = typer.Option("tidegate_publisher", help="Who runs pipelines, sensors and commands."),
    reader: str = typer.Option("tidegate_reader", help="Who only reads: tables, ledger, and what shows them."),
    output: OutputOption = Output.human,
) -> None:
    """Print the GRANT statements that three roles need, and no others.

    Nothing is executed, and no database is asked. The owner executes them,
    after tidegate migrate --tables, and again when a contract has a new table:

      tidegate rights | psql --set ON_ERROR_STOP=1 "$TIDEGATE_POSTGRES_URL"

    What later migrations create is granted by default privileges.

    \b
    JSON:
      statements  in their order; each may be several, with a comment before
    """
    from assets import read_contracts
    from resources.postgres.tables.rights import Roles
    from resources.process.settings import settings

    found = read_contracts()
    for broken in found.broken:
        print_error(f"nothing is granted for {broken.name}, whose contract cannot be used: {broken.error}")
    beside = settings().dagster_url is None
    statements = Roles(owner, publisher, reader).grants(found.good, dagster=beside)
    if output is Output.json:
        print_json({"statements": statements})
    else:
        print_line("\n".join(statements))
