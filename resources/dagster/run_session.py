"""The database session by which a Dagster run is known to be alive.

A run that is killed cannot report it: Dagster continues to show it as started. Its session ends with its process, so a
run whose tag says that the session is open, and that has no session, is dead (orchestration/runs.py reports it).
"""

import dagster as dg
import psycopg
from pydantic import PrivateAttr

from platform_defs.errors import TidegateError
from resources.endpoints import connection
from resources.postgres.connection import connect
from resources.postgres.ledger import Ledger

PREFIX = "tidegate/run/"
TAG = "tidegate/session"  # of a run: "open" from its first line on, "closed" when it ends by itself


class RunSession(dg.ConfigurableResource[None]):
    """Open for as long as the run's process works. Every op that takes minutes requires it."""

    _connection: psycopg.Connection | None = PrivateAttr(default=None)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Open the session, then set the run's tag. Raises dg.Failure where the database cannot be reached."""
        run_id = context.run.run_id if context.run is not None else "none"
        try:
            self._connection = connect(connection().postgres_url, PREFIX + run_id)
        except TidegateError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        self._tag(context, "open")

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Set the run's tag, then close the session: in the other order the run would look dead for a moment."""
        self._tag(context, "closed")
        if self._connection is not None:
            self._connection.close()

    def _tag(self, context: dg.InitResourceContext, state: str) -> None:
        if context.instance is not None and context.run is not None and context.instance.has_run(context.run.run_id):
            context.instance.add_run_tags(context.run.run_id, {TAG: state})


def runs_with_session(ledger: Ledger) -> set[str]:
    """The ids of the runs whose process is alive, on any machine."""
    return {name.removeprefix(PREFIX) for name in ledger.run_sessions(PREFIX)}
