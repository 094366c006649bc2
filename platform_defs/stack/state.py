"""The embedded stack's state in TIDEGATE_HOME: ports and processes (stack.json), the database's password."""

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import psutil

from platform_defs.errors import BadInput

DATABASE = USER = "tidegate"


@dataclass(frozen=True)
class Server:
    """A server of the stack: its kept ports, and the process that was started last."""

    port: int | None = None
    controller_port: int | None = None
    internal_port: int | None = None
    pid: int | None = None

    def runs_over(self, path: Path) -> bool:
        """Return True if the process is running and has this path of its home in its command line.

        A pid alone may belong to another process by now, and Linux lets a creation time move with the clock.
        """
        if self.pid is None:
            return False
        try:
            # A zombie has no command line: psutil raises NoSuchProcess' subclass for it.
            words = psutil.Process(self.pid).cmdline()
            return str(path) in words or any(word.endswith(f"={path}") for word in words)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False


@dataclass(frozen=True)
class State:
    """The content of stack.json."""

    kafka: tuple[Server, ...] = ()  # its brokers, in the order of their numbers
    postgres: Server = field(default_factory=Server)
    registry: Server = field(default_factory=Server)


def load(home: Path) -> State:
    """Return the content of stack.json; an empty state if it is missing or incomplete. Raises BadInput if this user may
    not read it.
    """
    try:
        kept = json.loads((home / "stack.json").read_text())
        brokers: Any = kept["kafka"] if isinstance(kept["kafka"], list) else [kept["kafka"]]  # one, before version 0.10
        return State(tuple(map(_server, brokers)), _server(kept["postgres"]), _server(kept.get("registry", {})))
    except PermissionError as error:
        raise BadInput(
            f"permission denied: {error.filename}. Run the command as the owner of that file, or set TIDEGATE_HOME to "
            "a folder of your own",
            field="TIDEGATE_HOME",
        ) from error
    except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError, AttributeError):
        # Servers that run nevertheless are found by their command line and folder at the next `up`.
        return State()


def _server(kept: Mapping[str, Any]) -> Server:
    return Server(**{name.name: kept.get(name.name) for name in fields(Server)})


def save(home: Path, state: State) -> None:
    """Replace stack.json in one step: a reader sees the old or the new one."""
    _replace(home / "stack.json", asdict(state))


def _replace(path: Path, content: Mapping[str, Any]) -> None:
    written = path.with_suffix(".json.new")
    written.write_text(json.dumps(content, indent=2) + "\n")
    written.replace(path)


def kafka_folder(home: Path, broker: int = 1) -> Path:
    """Return the data folder of the broker with that number."""
    return home / "kafka" if broker == 1 else home / f"kafka-{broker}"


def kafka_properties(home: Path, broker: int = 1) -> Path:
    """Return the broker's configuration file; its path is in the broker's command line."""
    return kafka_folder(home, broker) / "server.properties"


def broker_runs(home: Path, kept: Sequence[Server], number: int) -> bool:
    """Return True if the broker with that number is among the `kept` servers, and running."""
    return number <= len(kept) and kept[number - 1].runs_over(kafka_properties(home, number))


@dataclass(frozen=True)
class Cluster:
    """The cluster that the storage of every broker of this home is formatted for."""

    cluster_id: str
    voters: tuple[str, ...]  # the quorum's first controllers, each as id@host:port:directory id


def load_cluster(home: Path) -> Cluster | None:
    """Return the cluster of this home; None before the first start, or if a version before 0.10 formatted it."""
    try:
        kept = json.loads((kafka_folder(home) / "cluster.json").read_text())
    except FileNotFoundError:
        return None
    return Cluster(kept["cluster_id"], tuple(kept["voters"]))


def save_cluster(home: Path, cluster: Cluster) -> None:
    """Save the cluster before anything is formatted: a killed start then continues from there."""
    kafka_folder(home).mkdir(parents=True, exist_ok=True)
    _replace(kafka_folder(home) / "cluster.json", asdict(cluster))


def brokers_of(home: Path) -> int:
    """Return the number of brokers in the cluster of this home; 0 before the first start."""
    if (cluster := load_cluster(home)) is not None:
        return len(cluster.voters)
    return int((kafka_folder(home) / "data" / "meta.properties").exists())


def postgres_data(home: Path) -> Path:
    """Return the database's data folder; its path is in the server's command line."""
    return home / "postgres" / "data"


def registry_app(home: Path) -> Path:
    """Return the folder of the registry's program; the path is in its command line."""
    return home / "registry" / "app"


def registry_url(port: int) -> str:
    """Return the embedded registry's URL for clients of Confluent's API."""
    return f"http://127.0.0.1:{port}/apis/ccompat/v7"


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
