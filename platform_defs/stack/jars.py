"""The servers' jars: exactly those in the lock files, by SHA-256, from Maven's usual cache or a Maven repository.

`python -m platform_defs.stack.jars` resolves the broker's coordinates again and writes its lock file.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import requests

from platform_defs.errors import BadInput
from platform_defs.settings.imports import require

if TYPE_CHECKING:  # of the extra `local`
    from jgo.env import LockedDependency
    from jgo.maven import MavenContext

LOCK_PATH = Path(__file__).with_name("kafka.lock.toml")
REGISTRY_LOCK_PATH = Path(__file__).with_name("registry.lock.toml")

KAFKA_VERSION = "4.3.1"
COORDINATES = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    # Kafka's pom leaves the slf4j backend to the distribution. The "!" keeps jgo from applying log4j's own dependency
    # management to Kafka: it would force kafka-clients 3.9.
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4!",
)


def broker_classpath(progress: Callable[[str], None]) -> str:
    """Return the class path of Kafka's locked jars. Raises BadInput as `jars` does."""
    instead = "use your own Kafka: set TIDEGATE_KAFKA_BOOTSTRAP_SERVERS"
    return os.pathsep.join(map(str, jars(LOCK_PATH, f"Kafka {KAFKA_VERSION}", instead, progress)))


def jars(lock: Path, of: str, instead: str, progress: Callable[[str], None]) -> list[Path]:
    """Return the jars of a lock file; downloads the jars that are not in Maven's cache.

    Raises BadInput if a jar cannot be downloaded, or its checksum is not the locked one; `instead` is the alternative
    that the message offers.
    """
    locked, cache = _locked(lock, instead)
    if missing := _missing(locked, cache):
        progress(f"downloading {len(missing)} of the {len(locked)} jars of {of} into {cache}")
        _download(missing, cache, lock, instead)
    return [cache / _path_in_repository(jar) for jar in locked]


def registry_archive(progress: Callable[[str], None]) -> Path:
    """Return the locked archive of the registry (a tar.gz of its jars); downloads it if it is not in Maven's cache.

    Raises BadInput as `broker_classpath` does.
    """
    what, instead = "the schema registry Apicurio (142 MB)", "use your own registry: set TIDEGATE_REGISTRY_URL"
    return archive(REGISTRY_LOCK_PATH, what, instead, progress)


def archive(lock: Path, what: str, instead: str, progress: Callable[[str], None]) -> Path:
    """Return the one file of a lock file; downloads it if it is not in Maven's cache. Raises BadInput as `jars`
    does.
    """
    (locked,), cache = _locked(lock, instead)
    if missing := _missing([locked], cache):
        progress(f"downloading {what}, {locked.version}, into {cache}")
        _download(missing, cache, lock, instead)
    return cache / _path_in_repository(locked)


def _locked(lock: Path, instead: str) -> tuple[list[LockedDependency], Path]:
    """Return what a lock file lists, and Maven's cache. Raises BadInput without jgo."""
    require("jgo", "local", instead)
    from jgo.config import GlobalSettings
    from jgo.env import LockFile

    return LockFile.load(lock).dependencies, GlobalSettings.load().repo_cache


def _missing(locked: Sequence[LockedDependency], cache: Path) -> list[LockedDependency]:
    return [jar for jar in locked if not _is_as_locked(cache / _path_in_repository(jar), jar)]


def write_lock(
    path: Path = LOCK_PATH, coordinates: Sequence[str] = COORDINATES, without: Callable[[str], bool] = lambda _: False
) -> None:
    """Resolve the coordinates and write the lock file (with no host and no path of this machine), except dependencies
    for which `without` is true, given "group:artifact".
    """
    from jgo.config import GlobalSettings
    from jgo.env import LockFile

    context = _context(GlobalSettings.load().repo_cache)
    wanted, transitive = context.resolver.resolve([context.create_dependency(name) for name in coordinates])
    needed = [dep for dep in transitive if not without(f"{dep.artifact.groupId}:{dep.artifact.artifactId}")]
    runtime = [*wanted, *(dep for dep in needed if dep.scope in ("compile", "runtime"))]
    name = path.name.removesuffix(".lock.toml")
    lock = LockFile.from_resolved_dependencies(runtime, environment_name=name, min_java_version=17)
    lock.generated = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    lock.save(path)


def _context(cache: Path) -> MavenContext:
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL
    from jgo.maven import MavenContext

    # A mirror in jgo's own configuration (config file, [repositories]) is used as well as Maven Central.
    repositories = {"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories}
    logging.getLogger("jgo").setLevel(logging.ERROR)
    return MavenContext(repo_cache=cache, remote_repos=repositories)


def _download(jars: Sequence[LockedDependency], cache: Path, lock: Path, instead: str) -> None:
    # jgo writes in place: an interrupted download, or one by two processes at once, would stay in the cache
    # permanently. So it writes to a folder next to it, and only a jar with the locked checksum is renamed into place.
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".tidegate-", dir=cache) as scratch:
        context = _context(Path(scratch))
        for jar in jars:
            _download_one(jar, context, cache, lock, instead)


def _download_one(jar: LockedDependency, context: MavenContext, cache: Path, lock: Path, instead: str) -> None:
    name = f"{jar.groupId}:{jar.artifactId}:{jar.version}"
    component = context.project(jar.groupId, jar.artifactId).at_version(jar.version)
    try:
        arrived = component.artifact(jar.classifier or "", jar.packaging).resolve()
    except (requests.RequestException, RuntimeError, OSError) as error:
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(
            f"the jar {name} could not be downloaded ({first_line[:200]}). Check the network, or add a Maven mirror "
            f"to [repositories] in jgo's config file; or {instead}."
        ) from error
    if not _is_as_locked(arrived, jar):
        raise BadInput(f"the downloaded jar {name} is not the one in {lock.name}: its SHA-256 differs")
    target = cache / _path_in_repository(jar)
    target.parent.mkdir(parents=True, exist_ok=True)
    arrived.replace(target)


def _path_in_repository(jar: LockedDependency) -> Path:
    folder = Path(*jar.groupId.split("."), jar.artifactId, jar.version)
    classifier = f"-{jar.classifier}" if jar.classifier else ""
    return folder / f"{jar.artifactId}-{jar.version}{classifier}.{jar.packaging}"


def _is_as_locked(path: Path, jar: LockedDependency) -> bool:
    if not path.exists():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256


if __name__ == "__main__":
    write_lock()
