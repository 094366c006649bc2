"""A database session that is opened again whenever it is lost."""

import socket
import threading
from contextlib import suppress
from multiprocessing.connection import wait

import psycopg

from platform_defs.errors import TidegateError
from platform_defs.postgres.connection import connect_alive

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
                    self._connection.close()
                    while not self._closing.wait(AGAIN):
                        with suppress(TidegateError):  # Postgres is unavailable: try again
                            self._connection = connect_alive(self._url, self._name)
                            break
            self._connection.close()
