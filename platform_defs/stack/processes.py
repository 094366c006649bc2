"""Starting, finding and ending the servers' processes, and only those."""

import os
import random
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL as KILL
from signal import SIGTERM
from typing import TypeVar

import psutil

from platform_defs.errors import BadInput

NEEDED_BYTES = 500_000_000
LOG_BYTES = 10_000_000
KILL_SECONDS = 10.0
START_SECONDS = 600.0  # a server is given up then; until then it may recover a large log on a slow machine
REPORT_SECONDS = 10.0  # between two reports that a server is still starting
PRIVATE = 0o077  # umask
IN_USE = "Address already in use"

Started = TypeVar("Started")

# Popen complains when it is collected before its process ended; the servers outlive the command that starts them.
_started: list[subprocess.Popen[bytes]] = []


class ServerFailed(BadInput):
    """A server of the embedded stack did not start; the message shows the end of its log and the log's path."""


class PortTaken(ServerFailed):
    """Another program took the server's port after it had been found free."""


def start(
    command: Sequence[str], log: Path, *, cwd: Path, user: str | None = None, env: Mapping[str, str] | None = None
) -> psutil.Process:
    """Start a server in its own session (a Ctrl-C in this terminal must not reach it), with its output to `log`. Its
    files are private to its user.
    """
    with open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as output:  # Path.open has no opener
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            env=None if env is None else {**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=PRIVATE,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
    _started.append(process)
    return psutil.Process(process.pid)


def is_running(process: psutil.Process) -> bool:
    """Return True if this very process is running: not ended, not a zombie, not another one with its pid. A zombie with
    threads is still ending: it holds its ports and files.
    """
    try:
        return process.is_running() and (process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1)
    except psutil.NoSuchProcess:
        return False


def is_up(
    name: str,
    starting: Sequence[psutil.Process],
    answers: Callable[[], bool],
    progress: Callable[[str], None],
    *,
    pause: float = 0.1,
    report: float = REPORT_SECONDS,
) -> bool:
    """Return True as soon as the server answers; False if one of its processes ends before, or after START_SECONDS.
    Calls `progress` every `report` seconds while the server is starting.
    """
    began = reported = time.monotonic()
    while all(map(is_running, starting)) and (now := time.monotonic()) - began < START_SECONDS:
        if answers():
            return True
        if now - reported >= report:
            reported = now
            progress(f"{name} is still starting, after {now - began:.0f} s")
        time.sleep(pause)  # a server reports that it is up only when it is polled
    return False


def succeeds(name: str, step: psutil.Process, progress: Callable[[str], None]) -> bool:
    """Return True if the process, a step before the start of a server, ends with exit code 0 within START_SECONDS."""
    began = time.monotonic()
    while (seconds := time.monotonic() - began) < START_SECONDS:
        if seconds >= REPORT_SECONDS:
            progress(f"{name} is still being prepared, after {seconds:.0f} s")
        with suppress(psutil.TimeoutExpired):
            return step.wait(timeout=REPORT_SECONDS) == 0
    end([step], SIGTERM, within=KILL_SECONDS)
    return False


def started() -> int:
    """Return how many processes this one has started, for `end_started`."""
    return len(_started)


def end_started(since: int) -> None:
    """End the processes that this one has started since then; a thread that waits for one of them stops waiting."""
    end([psutil.Process(one.pid) for one in _started[since:] if one.poll() is None], SIGTERM, within=KILL_SECONDS)


def matching(test: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """Return the running processes that pass the test, except those that end meanwhile or belong to another user."""
    found = list[psutil.Process]()
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and test(process):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def end(processes: Iterable[psutil.Process], signal: int, *, within: float) -> None:
    """Send the signal, wait `within` seconds, and kill what is still running."""
    asked = [process for process in processes if _send(process, signal)]
    for process in _alive_after(within, asked):
        _send(process, KILL)
    _alive_after(KILL_SECONDS, asked)


def _alive_after(seconds: float, processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    # Not psutil.wait_procs: it waits for zombies, too, and their parent may be another program that started the stack.
    until = time.monotonic() + seconds
    while (alive := [process for process in processes if is_running(process)]) and time.monotonic() < until:
        time.sleep(0.02)
    return alive


def _send(process: psutil.Process, signal: int) -> bool:
    try:
        process.send_signal(signal)
    except psutil.NoSuchProcess:
        return False
    return True


def is_free(port: int) -> bool:
    """Return True if a server could listen on this port of 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def kept_or_free_port(kept: int | None, progress: Callable[[str], None], reserved: Collection[int] = ()) -> int:
    """Return the port used before, or a free one if there is none or another program has taken it. A new one is not
    among the ports `reserved` for servers that do not listen yet.
    """
    if kept is not None and is_free(kept):
        return kept
    # Below 32768: Linux gives the ports above to outgoing connections, which would take a kept one while we are down.
    port = next(one for one in random.sample(range(20_000, 32_000), 12_000) if one not in reserved and is_free(one))
    if kept is not None:
        progress(f"port {kept} is used by another program; using {port} from now on")
    return port


def require_space(folder: Path, needed: int = NEEDED_BYTES) -> None:
    """Raise BadInput if the disk has fewer than `needed` bytes left: a server that fills it ends in mid-write."""
    free = psutil.disk_usage(str(folder)).free
    if free < needed:
        raise BadInput(
            f"the disk that holds {folder} has {free // 1_000_000} MB left, and the stack needs "
            f"{needed // 1_000_000} MB to start. Free some space, or set TIDEGATE_HOME to a folder on another disk."
        )


def keep_log_bounded(log: Path) -> None:
    """Move a log that has grown past 10 MB aside; only the newest such log is kept."""
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))


def on_another_port(start_server: Callable[[], Started]) -> Started:
    """Call `start_server`, and again if another program took the port that was found free."""
    try:
        return start_server()
    except PortTaken:
        return start_server()


def failed(name: str, logs: Sequence[Path]) -> ServerFailed:
    """Return the error for a server that ended during startup, or did not answer in time."""
    shown = max(logs, key=lambda log: log.stat().st_mtime if log.exists() else 0)
    lines = shown.read_text(errors="replace").splitlines()[-8:] if shown.exists() else []
    in_use, cause = any(IN_USE in line for line in lines), ""
    if any("No space left" in line for line in lines):
        cause = ": the disk is full; free some space, or set TIDEGATE_HOME to a folder on another disk"
    elif in_use:
        cause = ": another program uses its port; try again"
    kind = PortTaken if in_use else ServerFailed
    return kind("\n".join([f"{name} did not start{cause}. The last lines of {shown}:", *lines]))
