"""The database session that shows that a Dagster run is alive.

A killed run cannot report its end: Dagster continues to show it as started. Its session ends with its process, so a run
whose tag is "open", and that has no session, is dead (dagster/runs.py reports it). A session that is
lost while the process lives is opened again at once.
"""

from __future__ import annotations

import faulthandler
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import PrivateAttr

from platform_defs.errors import TidegateError
from platform_defs.offsets import READING
from platform_defs.stack.endpoints import connection

if TYPE_CHECKING:  # Dagster's definitions have the resource, and do not wait for psycopg's import
    from collections.abc import Iterable

    from platform_defs.dagster.kept_session import KeptSession
    from platform_defs.ledger.ledger import Ledger

PREFIX = "tidegate/run/"
# A run's tag: "open" from its first line, "closed" when it ends by itself. Dagster's UI hides tags with this prefix.
TAG = ".dagster/tidegate_session"
# A run's tag: the UUID of its ledger. Runs of several ledgers may be in one Dagster instance.
LEDGER_TAG = ".dagster/tidegate_ledger"


class RunSession(dg.ConfigurableResource[None]):
    """A session that is open while the run's process works. Every op that takes minutes requires it."""

    _session: KeptSession | None = PrivateAttr(default=None)
    _reading: logging.Handler | None = PrivateAttr(default=None)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Open the session, create a missing ledger, then set the run's tags. Raises dg.Failure if the database cannot
        be reached.

        From then on, stderr has each range that is read and, if a library crashes, the Python stack: Dagster keeps it.
        """
        from platform_defs.dagster.kept_session import KeptSession
        from platform_defs.ledger.ledger import Ledger

        faulthandler.enable()
        self._reading = logging.StreamHandler()
        logging.getLogger(READING).addHandler(self._reading)
        logging.getLogger(READING).setLevel(logging.INFO)
        run_id = context.run.run_id if context.run is not None else "none"
        try:
            url = connection().postgres_url
            self._session = KeptSession(url, PREFIX + run_id)
        except TidegateError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        ledger = Ledger(url)
        tags = {TAG: "open"}
        with suppress(TidegateError):  # an op that needs the ledger reports why
            ledger.migrate()
            tags |= tags_of_ledger(ledger.ledger_id())
        self._tag(context, tags)

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Set the run's tag, then close the session: in the other order the run would look dead for a moment."""
        self._tag(context, {TAG: "closed"})
        if self._reading is not None:
            logging.getLogger(READING).removeHandler(self._reading)
        if self._session is not None:
            self._session.close()

    def _tag(self, context: dg.InitResourceContext, tags: dict[str, str]) -> None:
        if context.instance is not None and context.run is not None and context.instance.has_run(context.run.run_id):
            context.instance.add_run_tags(context.run.run_id, tags)


def tags_of_ledger(ledger_id: str | None) -> dict[str, str]:
    """Return the tag of the runs of this ledger; empty while there is none."""
    return {LEDGER_TAG: ledger_id} if ledger_id else {}


def runs_with_session(ledger: Ledger, run_ids: Iterable[str]) -> set[str]:
    """Return the runs whose process is alive, on any machine."""
    found = ledger.sessions_alive([PREFIX + run_id for run_id in run_ids])
    return {name.removeprefix(PREFIX) for name in found}
