"""The embedded stack: Kafka and Postgres as real servers, everything they keep under TIDEGATE_HOME.

`up`, `down` and `reset` hold a lock file, so two of them at once wait for each other. What runs is known from
stack.json (a pid, and what its command line says), and `up` and `down` also find servers over this home that it does
not know: they recover from a server, or from themselves, having been killed.
"""

import fcntl
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from platform_defs.errors import BadInput
from resources.local import processes, state
from resources.settings import PROJECT_ROOT, Settings, settings

LOCK_SECONDS = 180.0

Progress = Callable[[str], None]


@dataclass(frozen=True)
class ServerStatus:
    """A server as clients see it. `address` is None and `pid` is None where an embedded one does not run."""

    address: str | None
    pid: int | None
    embedded: bool

    @property
    def usable(self) -> bool:
        """True where it runs, or is not ours to run."""
        return self.address is not None


@dataclass(frozen=True)
class StackStatus:
    """Both servers and the home they live in."""

    kafka: ServerStatus
    postgres: ServerStatus
    home: Path

    def as_json(self) -> dict[str, Any]:
        """Return the document that `tidegate stack status -o json` prints (its names stay)."""
        kafka, postgres = self.kafka, self.postgres
        return {
            "kafka": {"bootstrap_servers": kafka.address, "pid": kafka.pid, "embedded": kafka.embedded},
            "postgres": {"url": postgres.address, "pid": postgres.pid, "embedded": postgres.embedded},
            "home": str(self.home),
        }


def silent(_: str) -> None:
    """Take progress messages and show none."""


def up(progress: Progress = silent) -> StackStatus:
    """Start what is embedded and does not run yet, both servers at the same time; return once they answer.

    Raises BadInput, naming the remedy: no Java, no space, no jar, a server that does not start (ServerFailed).
    """
    chosen = settings()
    if not (chosen.embeds_kafka or chosen.embeds_postgres):
        return status()
    chosen.home.mkdir(parents=True, exist_ok=True)
    processes.require_space(chosen.home)
    with _lock(chosen.home), ThreadPoolExecutor(2) as pool:
        kept = state.load(chosen.home)
        starting = {name: pool.submit(start) for name, start in _missing(chosen, kept, progress).items()}
        failures = [failure for future in starting.values() if (failure := future.exception())]
        started = {name: future.result() for name, future in starting.items() if not future.exception()}
        state.save(chosen.home, replace(kept, **started))
    if failures:
        raise failures[0]
    return status()


def down() -> StackStatus:
    """Stop both servers: on request within 15 s, by force then. Nothing that this stack started is left."""
    chosen = settings()
    if chosen.home.exists():
        with _lock(chosen.home):
            _stop(chosen.home)
    return status()


def reset() -> None:
    """Stop the servers and delete everything under TIDEGATE_HOME.

    Raises BadInput where that folder holds more than this project's own state.
    """
    home = settings().home
    _refuse_to_empty(home)
    if not home.exists():
        return
    with _lock(home):
        _stop(home)
        for entry in home.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != "stack.lock":  # a second `up` may be waiting for this very file
                entry.unlink()


def status() -> StackStatus:
    """Return what runs now. Starts, changes and waits for nothing."""
    chosen = settings()
    kept = state.load(chosen.home)
    return StackStatus(_kafka_status(chosen, kept.kafka), _postgres_status(chosen, kept.postgres), chosen.home)


def _missing(chosen: Settings, kept: state.State, progress: Progress) -> dict[str, Callable[[], state.Server]]:
    # The servers' modules load their clients, which a stack that runs already can do without.
    starts: dict[str, Callable[[], state.Server]] = {}
    if chosen.embeds_kafka and not _kafka_runs(chosen, kept.kafka):
        from resources.local import kafka

        starts["kafka"] = lambda: processes.on_another_port(lambda: kafka.start(chosen.home, kept.kafka, progress))
    if chosen.embeds_postgres and not _postgres_runs(chosen, kept.postgres):
        from resources.local import postgres

        starts["postgres"] = lambda: processes.on_another_port(
            lambda: postgres.start(chosen.home, kept.postgres, progress)
        )
    return starts


def _kafka_runs(chosen: Settings, server: state.Server) -> bool:
    return server.runs_over(state.kafka_properties(chosen.home))


def _postgres_runs(chosen: Settings, server: state.Server) -> bool:
    return server.runs_over(state.postgres_data(chosen.home))


def _stop(home: Path) -> None:
    from resources.local import kafka, postgres

    with ThreadPoolExecutor(2) as pool:
        stopping: list[Future[None]] = [pool.submit(kafka.stop, home), pool.submit(postgres.stop, home)]
    for future in stopping:
        future.result()
    kept = state.load(home)
    state.save(home, state.State(kept.kafka.stopped(), kept.postgres.stopped()))


def _kafka_status(chosen: Settings, server: state.Server) -> ServerStatus:
    if not chosen.embeds_kafka:
        return ServerStatus(chosen.kafka_bootstrap_servers, None, embedded=False)
    if not _kafka_runs(chosen, server):
        return ServerStatus(None, None, embedded=True)
    return ServerStatus(f"127.0.0.1:{server.port}", server.pid, embedded=True)


def _postgres_status(chosen: Settings, server: state.Server) -> ServerStatus:
    if not chosen.embeds_postgres:
        return ServerStatus(chosen.postgres_url, None, embedded=False)
    if server.port is None or not _postgres_runs(chosen, server):
        return ServerStatus(None, None, embedded=True)
    return ServerStatus(state.postgres_url(chosen.home, server.port), server.pid, embedded=True)


@contextmanager
def _lock(home: Path) -> Iterator[None]:
    with (home / "stack.lock").open("a") as file:
        until = time.monotonic() + LOCK_SECONDS
        while not _try_lock(file.fileno()):
            if time.monotonic() > until:
                raise BadInput(f"Another `tidegate stack` command has held {file.name} for {LOCK_SECONDS:.0f} s.")
            time.sleep(0.1)
        yield  # the lock ends with the file, and so also with a process that was killed


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _refuse_to_empty(home: Path) -> None:
    kept = {Path.home(), Path.cwd(), PROJECT_ROOT}
    if any(folder.resolve().is_relative_to(home.resolve()) for folder in kept):
        raise BadInput(
            f"TIDEGATE_HOME is {home}, which holds more than Tidegate's own state: it is not emptied. "
            "Give Tidegate a folder of its own."
        )
