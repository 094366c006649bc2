"""A proxy before a server: makes the connection slow, silent, or cut, or loses every packet, at the moment that
matters. Also used by tests/chaos.
"""

import ctypes
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Self
from urllib.parse import urlsplit

PIECE = 65_536  # bytes
# swallowed: this piece does not arrive, later ones do.
Fault = Literal["cut", "reset", "lost", "silent", "swallowed"]


@dataclass(eq=False)
class Link:
    """One client's connection, and ours to the server."""

    client: socket.socket
    server: socket.socket
    sent: int = 0  # bytes by the client
    answered: int = 0  # bytes by the server
    lost: bool = False

    def reset(self) -> None:
        """End both connections with a RST: the other side learns of it at once, and of nothing else."""
        for side in (self.client, self.server):
            with suppress(OSError):
                side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                side.shutdown(socket.SHUT_RD)  # wakes the thread that carries

    def lose(self) -> None:
        """Lose every packet from either side from now on: nothing is delivered, nothing acknowledged. Linux only.

        The kernel drops what a socket's filter refuses before TCP sees it (socket(7), SO_ATTACH_FILTER).
        """
        nothing = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # BPF: return 0 bytes of each packet
        program = struct.pack("HL", 1, ctypes.addressof(nothing))
        for side in (self.client, self.server):
            side.setsockopt(socket.SOL_SOCKET, 26, program)  # SO_ATTACH_FILTER, which Python does not name
        self.lost = True


Rule = Callable[[Link, bytes, bool], Fault | None]  # link, next data, and whether the client sends it


class Proxy:
    """A TCP proxy before one server. `rule` is called for all data before it passes."""

    def __init__(self, host: str, port: int, rule: Rule | None = None) -> None:
        self._to, self.rule = (host, port), rule
        self.latency = 0.0  # seconds for each piece, each way
        self.silent = False  # connections are accepted and kept; nothing is passed on
        self.fired = 0  # faults so far: by the rule, or by a delayed or blocked piece
        self._links: set[Link] = set()
        self._over = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @classmethod
    def before(cls, url: str, rule: Rule | None = None) -> Self:
        """Return a proxy before the Postgres at `url`."""
        given = urlsplit(url)
        return cls(given.hostname or "", given.port or 5432, rule)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def lead(self, url: str, **options: str) -> str:
        """Return `url`, led through this proxy, with more of libpq's `options`."""
        more = "".join(f"{'?' if n == 0 else '&'}{name}={value}" for n, (name, value) in enumerate(options.items()))
        return url.replace(f"{self._to[0]}:{self._to[1]}", f"127.0.0.1:{self.port}") + more

    def close(self) -> None:
        """End all connections that it carries."""
        self._over = True
        self._listener.close()
        for link in list(self._links):
            link.reset()

    def reset(self) -> int:
        """End every connection that it carries with a RST, and return how many; new ones are accepted."""
        links = list(self._links)
        for link in links:
            link.reset()
        return len(links)

    def clear_faults(self) -> None:
        """End all faults: blocked data is passed on."""
        self.rule, self.latency, self.silent = None, 0.0, False

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        try:
            link = Link(client, socket.create_connection(self._to))
        except OSError:
            client.close()  # the server is away: so the client sees it, too
            return
        self._links.add(link)
        with link.client, link.server, suppress(OSError):
            self._carry(link)
        self._links.discard(link)

    def _carry(self, link: Link) -> None:
        while not self._over:
            for ready in select.select([link.client, link.server], [], [], 0.1)[0]:
                data = b"" if link.lost else ready.recv(PIECE)
                if not data or not self._pass(link, data, sent=ready is link.client):
                    return

    def _pass(self, link: Link, data: bytes, *, sent: bool) -> bool:
        """Pass a piece on. Return False if that was the end of the connection."""
        fault = self.rule(link, data, sent) if self.rule else None
        if fault:
            self.fired += 1
        if fault in ("cut", "reset"):
            if fault == "reset":
                link.reset()
            return False
        if fault == "lost":
            link.lose()
        if fault in ("lost", "swallowed"):
            return True
        self.silent = self.silent or fault == "silent"
        if self.latency:
            self.fired += 1
            time.sleep(self.latency)
        self.fired += self.silent
        while self.silent and not self._over:
            time.sleep(0.02)  # while silent, nothing passes
        (link.server if sent else link.client).sendall(data)
        link.sent += len(data) * sent
        link.answered += len(data) * (not sent)
        return True
