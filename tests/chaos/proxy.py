"""Stands between a run and Postgres, and cuts the connection at the moment that matters."""

import select
import socket
import threading
from contextlib import suppress
from typing import Literal, Self
from urllib.parse import urlsplit

LAST_BEFORE_COMMIT = b"SET CONSTRAINTS ALL IMMEDIATE"  # as resources/ledger.py says it in the publishing transaction
When = Literal["before", "after"]


class CommitCutter:
    """A TCP proxy that cuts the publishing connection once: before COMMIT reaches Postgres, or after Postgres has done it.

    With `then_away`, it lets nobody through from then on.
    """

    def __init__(self, url: str, when: When, *, then_away: bool = False) -> None:
        given = urlsplit(url)
        self._to = (given.hostname or "", given.port or 5432)
        self._when, self._then_away, self.fired, self._away = when, then_away, 0, False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = url.replace(f"{self._to[0]}:{self._to[1]}", f"127.0.0.1:{self._listener.getsockname()[1]}")

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                if self._away:
                    client.close()
                    continue
                threading.Thread(
                    target=self._carry, args=(client, socket.create_connection(self._to)), daemon=True
                ).start()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        publishing = False
        with client, server, suppress(OSError):
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(65_536)
                    if not data:
                        return
                    if ready is server:
                        client.sendall(data)
                        continue
                    if publishing and b"COMMIT" in data and not self.fired:
                        self.fired, self._away = 1, self._then_away
                        if self._when == "after":
                            server.sendall(data)
                            server.recv(65_536)  # Postgres has answered; nobody hears it
                        return
                    publishing = publishing or LAST_BEFORE_COMMIT in data
                    server.sendall(data)
