"""The embedded stack: Kafka, Postgres and, if requested, a schema registry, as real servers with all their files under
TIDEGATE_HOME.

`up`, `down` and `reset` take a lock file, so two of them at once wait for each other. stack.json records what runs (a
pid, and the path in its command line). `up` and `down` also find servers over this home that are not in stack.json, so
they recover if a server, or they themselves, were killed.
"""

import os
import shutil
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from platform_defs.errors import BadInput, TidegateError
from platform_defs.errors.words import plural
from platform_defs.settings.home import MARKER, is_made, private_home, undelivered
from platform_defs.settings.postgres_address import masked
from platform_defs.settings.registry_address import Registry
from platform_defs.settings.settings import PROJECT_ROOT, Settings, settings
from platform_defs.stack import processes, state
from platform_defs.stack.kafka_node import rack_of

LOCK_SECONDS = processes.START_SECONDS + 60.0  # a command that starts servers has the lock until they answer

Progress = Callable[[str], None]


@dataclass(frozen=True)
class ServerStatus:
    """A server as clients see it. `address` and `pid` are None if an embedded one is not running."""

    address: str | None = field(default=None, repr=False)  # Postgres' contains the password
    pid: int | None = None
    embedded: bool = True


@dataclass(frozen=True)
class BrokerStatus(ServerStatus):
    """A broker of the embedded Kafka."""

    id: int = 1
    rack: str = "a"


@dataclass(frozen=True)
class QuorumStatus:
    """The leader of the controllers; None with the error if they did not report it."""

    leader: int | None
    error: str | None = None


@dataclass(frozen=True)
class KafkaStatus(ServerStatus):
    """The cluster: `address` names all its brokers if any is running, `pid` is that of the first running one."""

    brokers: tuple[BrokerStatus, ...] = ()  # the embedded ones, in the order of their numbers
    quorum: QuorumStatus | None = None  # for several embedded brokers, if requested (`with_quorum`)


@dataclass(frozen=True)
class StackStatus:
    """The servers and their home."""

    kafka: KafkaStatus
    postgres: ServerStatus
    registry: ServerStatus
    home: Path

    def as_json(self, *, show_password: bool = False) -> dict[str, Any]:
        """Return the document that `tidegate stack status -o json` prints (its names stay)."""
        kafka, postgres, registry = self.kafka, self.postgres, self.registry
        url = postgres.address if show_password or postgres.address is None else masked(postgres.address)
        return {
            "kafka": {
                **{"bootstrap_servers": kafka.address, "pid": kafka.pid, "embedded": kafka.embedded},
                "brokers": [
                    {"id": one.id, "address": one.address, "pid": one.pid, "rack": one.rack} for one in kafka.brokers
                ],
                "quorum": kafka.quorum and asdict(kafka.quorum),
            },
            "postgres": {"url": url, "pid": postgres.pid, "embedded": postgres.embedded},
            "registry": {"url": self.registry_url, "pid": registry.pid, "embedded": registry.embedded},
            "home": str(self.home),
        }

    @property
    def registry_url(self) -> str | None:
        """The registry's addresses, as they may be shown: without user and password."""
        return self.registry.address and str(Registry({"url": self.registry.address}))


def silent(_: str) -> None:
    """Take progress messages and show none."""


def up(progress: Progress = silent, *, registry: bool = False, brokers: int | None = None) -> StackStatus:
    """Start the embedded servers that are not running, all at the same time; return when they answer. `registry`: one
    is needed. `brokers`: number for the embedded Kafka; None for as many as it has, at first one.

    Raises BadInput, with the remedy: no Java, no disk space, a jar that cannot be downloaded; ServerFailed if a server
    does not start.
    """
    chosen = settings()
    if brokers and not chosen.embeds_kafka:
        raise BadInput(
            "--brokers is for the embedded Kafka, but TIDEGATE_KAFKA_BOOTSTRAP_SERVERS names your own "
            f"({chosen.kafka_bootstrap_servers}). Leave out --brokers, or unset that variable"
        )
    if not (chosen.embeds_kafka or chosen.embeds_postgres or (registry and chosen.embeds_registry)):
        return status()
    private_home(chosen.home)
    processes.require_space(chosen.home)
    with _lock(chosen.home, progress), ThreadPoolExecutor(3) as pool:
        kept, before = state.load(chosen.home), processes.started()
        missing = _missing(chosen, kept, progress, registry=registry, brokers=_brokers(chosen, brokers))
        starting = {name: pool.submit(processes.on_another_port, start) for name, start in missing.items()}
        try:
            failures = [failure for future in starting.values() if (failure := future.exception())]
        except KeyboardInterrupt:
            processes.end_started(before)  # the pool waits for its threads, which wait for these
            raise
        started = {name: future.result() for name, future in starting.items() if not future.exception()}
        state.save(chosen.home, replace(kept, **started))
    if failures:
        raise failures[0]
    return status()


def down(progress: Progress = silent) -> StackStatus:
    """Stop the servers, killing them after 15 s. Nothing that this stack started is left running."""
    chosen = settings()
    if chosen.home.exists():
        with _lock(chosen.home, progress):
            _stop(chosen.home)
    return status()


def reset() -> list[str]:
    """Stop the servers and delete what Tidegate created in TIDEGATE_HOME; return the names of the rest.

    Raises BadInput, with nothing stopped, if Tidegate did not create that folder, or it contains messages that are
    nowhere else.
    """
    home = settings().home
    _refuse_to_empty(home)
    _refuse_to_lose(home)
    if not home.exists():
        return []
    with _lock(home):
        _stop(home)
        for entry in filter(lambda one: is_made(one.name), home.iterdir()):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name not in ("stack.lock", MARKER):  # a second `up` may be waiting for this very lock
                entry.unlink()
        return sorted(entry.name for entry in home.iterdir() if not is_made(entry.name))


def status() -> StackStatus:
    """Return what is running now. Starts, changes and waits for nothing."""
    chosen = settings()
    home, kept = chosen.home, state.load(chosen.home)
    postgres = _status(chosen.postgres_url, kept.postgres, state.postgres_data(home), partial(state.postgres_url, home))
    registry = _status(chosen.registry_url, kept.registry, state.registry_app(home), state.registry_url)
    return StackStatus(_kafka_status(chosen, kept.kafka), postgres, registry, home)


def with_quorum(found: StackStatus, patience: float = 2.0) -> StackStatus:
    """Return `found` with the quorum's leader, if there are several embedded brokers and one is running. Takes at most
    `patience` seconds if they do not answer.
    """
    kafka = found.kafka
    if kafka.address is None or len(kafka.brokers) < 2:
        return found
    from platform_defs.kafka.cluster_admin import KafkaCluster  # loads clients, which `status` does without

    options = {**settings().librdkafka_options, "bootstrap.servers": kafka.address}
    try:
        quorum = QuorumStatus(KafkaCluster(options, timeout=patience).quorum().leader)
    except TidegateError as error:
        quorum = QuorumStatus(None, str(error))
    return replace(found, kafka=replace(kafka, quorum=quorum))


def _brokers(chosen: Settings, asked: int | None) -> int:
    """Return the number of brokers for the embedded Kafka. Raises BadInput if it already has another number."""
    formatted = state.brokers_of(chosen.home)
    if asked and formatted and asked != formatted:
        raise BadInput(
            f"the Kafka cluster in {chosen.home} has {plural(formatted, 'broker')}, but {asked} were requested; an "
            "existing cluster keeps its number of brokers. Set TIDEGATE_HOME to another folder, or delete this one "
            "with all its data: tidegate stack reset"
        )
    return asked or formatted or 1


def _missing(
    chosen: Settings, kept: state.State, progress: Progress, *, registry: bool, brokers: int
) -> dict[str, Callable[[], Any]]:
    # The servers' modules load their clients, which a stack that runs already does not need.
    starts: dict[str, Callable[[], Any]] = {}
    numbers = range(1, brokers + 1)
    if chosen.embeds_kafka and not all(state.broker_runs(chosen.home, kept.kafka, number) for number in numbers):
        from platform_defs.stack import kafka_servers as kafka

        starts["kafka"] = partial(kafka.start, chosen.home, kept.kafka, brokers, progress)
    if chosen.embeds_postgres and not kept.postgres.runs_over(state.postgres_data(chosen.home)):
        from platform_defs.stack import postgres_server as postgres

        starts["postgres"] = partial(postgres.start, chosen.home, kept.postgres, progress)
    if registry and chosen.embeds_registry and not kept.registry.runs_over(state.registry_app(chosen.home)):
        from platform_defs.stack import registry_server as server

        starts["registry"] = partial(server.start, chosen.home, kept.registry, progress)
    return starts


def _stop(home: Path) -> None:
    from platform_defs.stack import kafka_servers as kafka
    from platform_defs.stack import postgres_server as postgres
    from platform_defs.stack import registry_server as registry

    kafka.discard(home / kafka.MEASURE_FOLDER)  # the brokers of a measurement that was killed
    with ThreadPoolExecutor(3) as pool:
        stopping: list[Future[None]] = [pool.submit(one.stop, home) for one in (kafka, postgres, registry)]
    for future in stopping:
        future.result()
    kept = state.load(home)
    *brokers, database, schemas = (replace(one, pid=None) for one in (*kept.kafka, kept.postgres, kept.registry))
    state.save(home, state.State(tuple(brokers), database, schemas))  # their ports are kept for the next start


def _kafka_status(chosen: Settings, kept: Sequence[state.Server]) -> KafkaStatus:
    if not chosen.embeds_kafka:
        return KafkaStatus(chosen.kafka_bootstrap_servers, embedded=False)
    brokers = list[BrokerStatus]()
    for number, one in enumerate(kept, start=1):
        runs = state.broker_runs(chosen.home, kept, number)
        address, pid = (f"127.0.0.1:{one.port}", one.pid) if runs else (None, None)
        brokers.append(BrokerStatus(address, pid, id=number, rack=rack_of(number)))
    first = next((one for one in brokers if one.address), None)
    addresses = ",".join(f"127.0.0.1:{one.port}" for one in kept) if first else None
    return KafkaStatus(addresses, first.pid if first else None, brokers=tuple(brokers))


def _status(own: str | None, server: state.Server, path: Path, url: Callable[[int], str]) -> ServerStatus:
    """Return the status of the user's `own` server, or of the embedded one, which runs over `path`."""
    if own is not None:
        return ServerStatus(own, embedded=False)
    if server.port is None or not server.runs_over(path):
        return ServerStatus()
    return ServerStatus(url(server.port), server.pid)


@contextmanager
def _lock(home: Path, progress: Progress = silent) -> Generator[None]:
    """Lock the home for one command at a time; the system releases the lock of a killed process. Files that the command
    writes meanwhile are private to its user.
    """
    from filelock import FileLock, Timeout  # not for `status`, which locks nothing

    lock = FileLock(home / "stack.lock", timeout=LOCK_SECONDS)
    try:
        try:
            lock.acquire(timeout=1)
        except Timeout:
            progress("waiting for another `tidegate stack` command to end")
            lock.acquire()
    except Timeout as error:
        message = (
            f"another `tidegate stack` command has locked {lock.lock_file} for {LOCK_SECONDS:.0f} s; try again "
            "once it has ended"
        )
        raise BadInput(message) from error
    before = os.umask(processes.PRIVATE)  # of all files that this process creates, in any thread
    try:
        yield
    finally:
        os.umask(before)
        lock.release()


def _refuse_to_lose(home: Path) -> None:
    if not (left := undelivered(home)):
        return
    many = plural(len(left), "file", "files")
    raise BadInput(
        f"{many} in {left[0].parent} {'holds' if len(left) == 1 else 'hold'} messages that were not delivered and "
        "exist nowhere else, so nothing was deleted. To move *.unsent files into the ledger once Postgres answers, "
        "run `tidegate unsent list PIPELINE` with any pipeline. Delete the files that you do not need: "
        f"{left[0].name}{', ...' if len(left) > 1 else ''}"
    )


def _refuse_to_empty(home: Path) -> None:
    kept = {Path.home(), Path.cwd(), PROJECT_ROOT}
    if any(folder.resolve().is_relative_to(home.resolve()) for folder in kept):
        raise BadInput(
            f"TIDEGATE_HOME is {home}, which contains more than Tidegate's own files, so it was not emptied. Set "
            "TIDEGATE_HOME to a separate folder."
        )
    if home.exists() and not (home / MARKER).exists():
        raise BadInput(
            f"{home} has no file {MARKER}: Tidegate did not create this folder, or an older version did. Nothing in it "
            "was deleted. Set TIDEGATE_HOME to the right folder; or, to delete its servers' data: touch "
            f"{home / MARKER}, and run tidegate stack reset again. Only files and folders with Tidegate's names are "
            "deleted",
            field="TIDEGATE_HOME",
        )
