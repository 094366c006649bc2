"""The embedded schema registry: Apicurio, with Confluent's API, listening on 127.0.0.1 only.

Its schemas and their ids are in an H2 file in this home, and survive `down` and SIGKILL: without WRITE_DELAY=0, H2
forgets its answers of the last half second, and would give the same id to another schema.
"""

import signal
import tarfile
import urllib.request
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

import psutil

from platform_defs.stack import jars, java, processes
from platform_defs.stack.state import Server, registry_app, registry_url

STOP_SECONDS = 15.0
JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Djava.awt.headless=true")
UNPACKED = ".unpacked"  # marks a completely unpacked archive


def start(home: Path, kept: Server, progress: Callable[[str], None]) -> Server:
    """Start the registry over its data in this home and return when it answers.

    Raises BadInput: no usable Java, an archive that cannot be downloaded; ServerFailed if it does not start.
    """
    executable = java.find_java()
    archive = jars.registry_archive(progress)
    stop(home)
    jar = _unpack_once(home, archive)
    (home / "logs").mkdir(exist_ok=True)
    port = processes.kept_or_free_port(kept.port, progress)
    progress("starting the schema registry")
    processes.keep_log_bounded(_log(home))
    process = processes.start(_command(home, executable, jar, port), _log(home), cwd=_folder(home))
    if not processes.is_up("the schema registry", [process], lambda: answers(port), progress):
        processes.end([process], signal.SIGTERM, within=STOP_SECONDS)
        raise processes.failed("The schema registry", [_log(home)])
    return Server(port=port, pid=process.pid)


def stop(home: Path) -> None:
    """Stop every registry that runs over this home: SIGTERM, then SIGKILL after 15 s."""
    processes.end(running(home), signal.SIGTERM, within=STOP_SECONDS)


def running(home: Path) -> list[psutil.Process]:
    """Return the registries that run over this home, also those not in stack.json."""
    folder = f"-Dtidegate.registry={registry_app(home)}"
    return processes.matching(lambda found: folder in found.cmdline())


def _folder(home: Path) -> Path:
    return home / "registry"


def _log(home: Path) -> Path:
    return home / "logs" / "registry.log"


def _unpack_once(home: Path, archive: Path) -> Path:
    """Return the jar to start, unpacked from the archive of this version."""
    folder = registry_app(home) / archive.name.removesuffix(".tar.gz")
    if not (folder / UNPACKED).exists():
        rmtree(registry_app(home), ignore_errors=True)  # from another version, or incomplete
        folder.mkdir(parents=True)
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        (folder / UNPACKED).touch()
    return next(folder.glob("*-runner.jar"))


def _command(home: Path, executable: str, jar: Path, port: int) -> list[str]:
    data = _folder(home) / "schemas"
    scratch = _folder(home) / "tmp"
    scratch.mkdir(parents=True, exist_ok=True)
    return [
        executable,
        *JVM,
        f"-Dtidegate.registry={registry_app(home)}",
        f"-Djava.io.tmpdir={scratch}",
        f"-XX:ErrorFile={home / 'logs'}/registry-jvm-crash-%p.log",
        "-Dquarkus.http.host=127.0.0.1",
        f"-Dquarkus.http.port={port}",
        f"-Dquarkus.datasource.jdbc.url=jdbc:h2:file:{data};WRITE_DELAY=0",
        "-Dquarkus.datasource.jdbc.initial-size=1",
        "-Dquarkus.datasource.jdbc.min-size=1",
        "-jar",
        str(jar),
    ]


def answers(port: int) -> bool:
    """Return True if a registry lists its subjects at this port of 127.0.0.1."""
    try:
        url = f"{registry_url(port)}/subjects"
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310  # http, as above
            return answer.status == 200
    except OSError:
        return False
