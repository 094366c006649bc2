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
    from platform_defs.postgres.connection import session_environment
    from platform_defs.stack.endpoints import ledger_alone
    from platform_defs.stack.postgres_server import binaries

    environment = {name: value for name, value in os.environ.items() if name != "PGSERVICE"}  # libpq would prefer it
    environment |= session_environment(ledger_alone(), "tidegate/psql")
    program = shutil.which("psql") or str(binaries() / "psql")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and psql would inherit that
    try:
        os.execve(program, [program, *context.args], environment)  # noqa: S606  # no shell is wanted
    except OSError as error:
        raise BadInput(
            f"{program} cannot be started ({error.strerror}). Install psql and put it on the PATH"
        ) from error
