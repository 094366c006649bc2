"""Connections that are reused, for a process that queries every few seconds."""

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager

import psycopg

from platform_defs.postgres.connection import Connection, connect

NAME = "tidegate/kept"  # of their sessions
MOST = 1  # maximum kept while not in use


class ConnectionCache:
    """Connections to the database at `url` (a libpq URI): as many as are used at the same time, and a spare one.

    psycopg_pool would do the same, but if Postgres gives a reason for refusing connections, it reports "no connection
    after 30 s".
    """

    def __init__(self, url: str) -> None:
        self._url, self._idle = url, deque[Connection]()

    @contextmanager
    def one(self) -> Generator[Connection]:
        """Yield a connection while the block runs; it is kept if the block ends well. Raises LedgerAway."""
        connection = self._alive() or connect(self._url, NAME)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        self._end_all_but(MOST)

    def close(self) -> None:
        """End the connections that are not in use."""
        self._end_all_but(0)

    def _end_all_but(self, most: int) -> None:
        while len(self._idle) > most and (connection := self._popped()) is not None:
            connection.close()

    def _alive(self) -> Connection | None:
        """Return one that still answers, or None: its server may have restarted, or have ended it for being idle."""
        while (connection := self._popped()) is not None:
            try:
                connection.execute("SELECT 1")
            except psycopg.Error:
                connection.close()
            else:
                return connection
        return None

    def _popped(self) -> Connection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None
