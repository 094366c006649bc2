"""`tidegate psql`: psql, connected to the database that Tidegate writes to."""

import os
import shutil

import typer

app = typer.Typer(add_completion=False)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": ["--help"]}
)
def psql(context: typer.Context) -> None:
    """Open psql on the database that Tidegate writes to.

    All arguments are psql's own:

      tidegate psql -c "SELECT count(*) FROM bank.postings"

    The psql on your PATH is used; without one, that of the embedded Postgres.
    """
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    from resources.endpoints import ledger_alone
    from resources.local.postgres import binaries

    options = conninfo_to_dict(ledger_alone())
    password = options.pop("password", None)  # an argument would show it in the list of processes
    program = shutil.which("psql") or str(binaries() / "psql")
    environment = os.environ | ({"PGPASSWORD": str(password)} if password is not None else {})
    arguments = [program, make_conninfo("", **options), *context.args]
    os.execve(program, arguments, environment)  # noqa: S606  # no shell is wanted
