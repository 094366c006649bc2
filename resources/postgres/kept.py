"""Connections that are used again, for a process that asks every few seconds."""

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager

import psycopg

from resources.postgres.connection import Connection, connect

NAME = "tidegate/kept"  # of their sessions


class KeptConnections:
    """Connections to the database at `url` (a libpq URI), as many as have been used at the same time.

    psycopg_pool would do the same, but where Postgres says why nobody may connect, it says "no connection after 30 s".
    """

    def __init__(self, url: str) -> None:
        self._url, self._idle = url, deque[Connection]()

    @contextmanager
    def one(self) -> Generator[Connection]:
        """A connection for as long as the block runs; it is kept if the block ends well. Raises LedgerAway."""
        connection = self._alive() or connect(self._url, NAME)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)

    def close(self) -> None:
        """End those that nobody uses."""
        while self._idle:
            self._idle.pop().close()

    def _alive(self) -> Connection | None:
        """One that still answers: its server may have restarted, or have ended it for sitting idle."""
        while self._idle:
            connection = self._idle.pop()
            try:
                connection.execute("SELECT 1")
            except psycopg.Error:
                connection.close()
            else:
                return connection
        return None
