"""PgBouncer in front of a Postgres: the installed one (Debian: apt install pgbouncer).

Tests that need it are skipped if it is not installed, unless TIDEGATES_TEST_PGBOUNCER=1, as in .ci/run.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

import pytest

from platform_defs.stack.postgres_server import SYSTEM_USER

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
REQUIRED = os.environ.get("TIDEGATES_TEST_PGBOUNCER") == "1"
needs_pgbouncer = pytest.mark.skipif(
    PROGRAM is None and not REQUIRED, reason="PgBouncer is not installed (Debian, Ubuntu: apt install pgbouncer)"
)
STARTS = 20.0  # seconds to start


@contextmanager
def pgbouncer(
    postgres_url: str, mode: str = "session", *, users: Mapping[str, str] | None = None, **settings: object
) -> Iterator[str]:
    """Run PgBouncer in this `mode` and yield the URL that reaches the server at `postgres_url` through it.

    It knows the user in the URL, and `users` with their passwords. `settings` are settings of its file, such as
    default_pool_size=2, server_tls_sslmode="verify-full" or client_tls_key_file=...; paths must be readable by the user
    that runs Postgres (platform_defs/stack/postgres_server.py), which also runs PgBouncer if the tests run as root.
    """
    assert PROGRAM is not None, "PgBouncer is not installed (Debian, Ubuntu: apt install pgbouncer)"
    behind, folder = urlsplit(postgres_url), Path(tempfile.mkdtemp(prefix="tidegate-pgbouncer-"))
    port, given = _free_port(), {unquote(behind.username or ""): unquote(behind.password or ""), **(users or {})}
    (folder / "users.txt").write_text("".join(f'"{name}" "{password}"\n' for name, password in given.items()))
    chosen = _settings(folder, mode, port) | {name: str(value) for name, value in settings.items()}
    lines = [f"* = host={behind.hostname} port={behind.port or 5432}", "[pgbouncer]"]
    lines += [f"{name} = {value}" for name, value in chosen.items()]
    (folder / "pgbouncer.ini").write_text("\n".join(["[databases]", *lines, ""]))
    _give_away(folder)
    with (folder / "console").open("wb") as console:
        process = subprocess.Popen([PROGRAM, str(folder / "pgbouncer.ini")], stdout=console, stderr=console)
    try:
        url = urlunsplit(behind._replace(netloc=f"{behind.netloc.rpartition('@')[0]}@127.0.0.1:{port}"))
        _wait_until_it_answers(process, port, folder)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()
        shutil.rmtree(folder)


def _settings(folder: Path, mode: str, port: int) -> dict[str, str]:
    """Return few settings: what PgBouncer rejects or drops by default, it must reject or drop here."""
    root = {"user": SYSTEM_USER} if os.geteuid() == 0 else {}
    return root | {
        "listen_addr": "127.0.0.1",
        "listen_port": str(port),
        "unix_socket_dir": "",
        "auth_type": "scram-sha-256",
        "auth_file": str(folder / "users.txt"),
        "pool_mode": mode,
        "default_pool_size": "60",
        "max_client_conn": "300",
    }


def _give_away(folder: Path) -> None:
    """Change the owner to the user that PgBouncer switches to: it reads the users file again as that user."""
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, SYSTEM_USER, SYSTEM_USER)


def _wait_until_it_answers(process: "subprocess.Popen[bytes]", port: int, folder: Path) -> None:
    until = time.monotonic() + STARTS
    while process.poll() is None and time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)  # nothing reports when it listens
    raise AssertionError(f"PgBouncer does not listen: {(folder / 'console').read_text()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


__all__ = ["PROGRAM", "needs_pgbouncer", "pgbouncer"]
