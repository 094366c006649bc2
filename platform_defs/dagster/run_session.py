"""The database session that shows that a Dagster run is alive.

A killed run cannot report its end: Dagster continues to show it as started. Its session ends with its process, so a run
whose tag is "open", and that has no session, is dead (dagster/runs.py reports it). A session that is
lost while the process lives is opened again at once.
"""

import faulthandler
import logging
import socket
import threading
from collections.abc import Iterable
from multiprocessing.connection import wait

import dagster as dg
import psycopg
from pydantic import PrivateAttr

from platform_defs.errors import TidegateError
from platform_defs.ledger.ledger import Ledger
from platform_defs.offsets import READING
from platform_defs.postgres.connection import connect_alive
from platform_defs.stack.endpoints import connection

PREFIX = "tidegate/run/"
# A run's tag: "open" from its first line, "closed" when it ends by itself. Dagster's UI hides tags with this prefix.
TAG = ".dagster/tidegate_session"
FORMER_TAG = "tidegate/session"  # the tag of a run that an older version started, and that may have died since
# A run's tag: the UUID of its ledger. Runs of several ledgers may be in one Dagster instance.
LEDGER_TAG = ".dagster/tidegate_ledger"
AGAIN = 0.5  # seconds between two attempts to reopen a lost session


class KeptSession:
    """A session named `name` at `url` until `close`: a thread opens another whenever it is lost. The thread sleeps
    until Postgres sends something: that it ends the session, or that a setting has changed.

    Raises LedgerAway if the first session cannot be opened.
    """

    def __init__(self, url: str, name: str) -> None:
        self._url, self._name = url, name
        self._connection = connect_alive(url, name)
        self._closing, (self._close, self._closed) = threading.Event(), socket.socketpair()
        self._thread = threading.Thread(target=self._keep, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the session and the thread."""
        self._closing.set()
        self._close.close()  # wakes the thread up
        self._thread.join(15.0)  # it may be opening the session again: connect_timeout

    def _keep(self) -> None:
        with self._closed:
            while not self._closing.is_set():
                try:
                    wait([self._connection.fileno(), self._closed])
                    self._connection.execute("SELECT 1")
                except psycopg.Error:
                    self._open_again()
            self._connection.close()

    def _open_again(self) -> None:
        self._connection.close()
        while not self._closing.wait(AGAIN):
            try:
                self._connection = connect_alive(self._url, self._name)
            except TidegateError:  # Postgres is away: try again
                continue
            return


class RunSession(dg.ConfigurableResource[None]):
    """A session that is open while the run's process works. Every op that takes minutes requires it."""

    _session: KeptSession | None = PrivateAttr(default=None)
    _reading: logging.Handler | None = PrivateAttr(default=None)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Open the session, then set the run's tags. Raises dg.Failure if the database cannot be reached.

        From then on, stderr has each range that is read and, if a library crashes, the Python stack: Dagster keeps it.
        """
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
        self._tag(context, {TAG: "open", **_ledger_tag(url)})

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


def _ledger_tag(url: str) -> dict[str, str]:
    """Return the tag that names the ledger, which is created first if it is missing. Empty if that fails: an op that
    needs the ledger reports why.
    """
    ledger = Ledger(url)
    try:
        ledger.migrate()
        return tags_of_ledger(ledger.ledger_id())
    except TidegateError:
        return {}


def tags_of_ledger(ledger_id: str | None) -> dict[str, str]:
    """Return the tag of the runs of this ledger; empty while there is none."""
    return {LEDGER_TAG: ledger_id} if ledger_id else {}


def runs_with_session(ledger: Ledger, run_ids: Iterable[str]) -> set[str]:
    """Return the runs whose process is alive, on any machine."""
    found = ledger.sessions_alive([PREFIX + run_id for run_id in run_ids])
    return {name.removeprefix(PREFIX) for name in found}
