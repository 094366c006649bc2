"""`tidegate psql`: psql, connected to the database that Tidegate writes to."""

import os
import shutil
import signal

import typer

from platform_defs.errors import BadInput

app = typer.Typer(add_completion=False)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def psql(context: typer.Context) -> None:
    """Open psql on the database that Tidegate writes to.

    All arguments but --help are passed to psql:

      tidegate psql -c "SELECT count(*) FROM bank.postings"

    The command runs the psql on your PATH or, if there is none, the embedded
    Postgres's.
    """
    from resources.endpoints import ledger_alone
    from resources.local.postgres import binaries
    from resources.postgres.session.connection import psql_address

    address, secrets = psql_address(ledger_alone(), "tidegate/psql")
    program = shutil.which("psql") or str(binaries() / "psql")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and psql would inherit that
    try:
        os.execve(program, [program, "-d", address, *context.args], os.environ | secrets)  # noqa: S606  # no shell
    except OSError as error:
        raise BadInput(
            f"{program} cannot be started ({error.strerror}). Install psql and put it on the PATH"
        ) from error
