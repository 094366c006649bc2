"""`tidegate rights`: the privileges that three database roles need."""

import typer

from platform_defs.cli.output import Output, OutputOption, print_answer, print_error


def rights(
    owner: str = typer.Option("tidegate_owner", help="The role that owns the ledger and creates tables."),
    publisher: str = typer.Option("tidegate_publisher", help="The role that runs pipelines, sensors and commands."),
    reader: str = typer.Option("tidegate_reader", help="The role that only reads the tables and the ledger."),
    output: OutputOption = Output.human,
) -> None:
    """Print the GRANT statements for the owner, publisher and reader roles.

    The command only prints; it connects to no database. Run the statements as
    the owner after tidegate migrate --tables, and again when a contract adds a
    table:

      tidegate rights | psql --set ON_ERROR_STOP=1 "$TIDEGATE_POSTGRES_URL"

    Default privileges cover what later migrations create.

    \b
    JSON:
      statements  in order; each may be several. The first of a group has a
                  comment
    """
    from platform_defs.database.rights import Roles
    from platform_defs.settings.contracts import read_contracts
    from platform_defs.settings.settings import settings

    found = read_contracts()
    for broken in found.broken:
        print_error(f"nothing is granted for {broken.name}, whose contract cannot be used: {broken.error}")
    same_database = settings().dagster_url is None
    statements = Roles(owner, publisher, reader).grants(found.good, dagster=same_database)
    print_answer({"statements": statements}, "\n".join(statements), output)
