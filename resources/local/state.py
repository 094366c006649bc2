"""What the embedded stack remembers in TIDEGATE_HOME: ports and processes (stack.json), the database's password."""

import json
import os
import secrets
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import psutil

DATABASE = USER = "tidegate"


@dataclass(frozen=True)
class Server:
    """A server of the stack: its kept ports, and the process that was started last (`created`: seconds, epoch)."""

    port: int | None = None
    controller_port: int | None = None
    pid: int | None = None
    created: float | None = None

    def process(self) -> psutil.Process | None:
        """Return the process if it runs; None where it ended or its pid now belongs to another process."""
        if self.pid is None:
            return None
        try:
            process = psutil.Process(self.pid)
            same = self.created is not None and abs(process.create_time() - self.created) < 1.0
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

    def stopped(self) -> "Server":
        """Return the same server without its process; its ports are kept for the next start."""
        return replace(self, pid=None, created=None)


@dataclass(frozen=True)
class State:
    """The content of stack.json."""

    kafka: Server = field(default_factory=Server)
    postgres: Server = field(default_factory=Server)


def load(home: Path) -> State:
    """Return what is kept in this home; an empty state where nothing is, or where the file was cut off."""
    try:
        kept = json.loads((home / "stack.json").read_text())
        return State(Server(**kept["kafka"]), Server(**kept["postgres"]))
    except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError):
        # Servers that run nevertheless are found by their command line and folder at the next `up`.
        return State()


def save(home: Path, state: State) -> None:
    """Replace stack.json in one step: a reader sees the old or the new one."""
    written = home / "stack.json.new"
    written.write_text(json.dumps(asdict(state), indent=2) + "\n")
    written.replace(home / "stack.json")


def password(home: Path) -> str:
    """Return the embedded database's password; the first call makes it, in a file that only its owner reads."""
    path = home / "postgres.password"
    if not path.exists():
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(made, "w") as file:
            file.write(secrets.token_urlsafe(24))
    return path.read_text().strip()


def postgres_url(home: Path, port: int) -> str:
    """Return the connection URI, password included, in the form that libpq, psycopg, ADBC and SQLAlchemy accept."""
    return f"postgresql://{USER}:{password(home)}@127.0.0.1:{port}/{DATABASE}"
