"""A peer as a process: in its own environment, given one pass after another, and ended with us."""

import json
import os
import selectors
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.peers.asked import Task
from platform_defs.errors import BadInput
from platform_defs.settings.settings import PROJECT_ROOT

START_SECONDS, CARRY_SECONDS = 120, 900
PATIENCE = 10  # seconds that a process has to end by itself


def python_of(home: Path, packages: Sequence[str]) -> Path:
    """Return the Python of an environment below `home` with these packages; created if missing. Raises BadInput."""
    python = home / "venv" / "bin" / "python"
    wanted, made = "\n".join(packages), home / "packages.txt"
    if not (made.exists() and made.read_text() == wanted and python.exists()):
        home.mkdir(parents=True, exist_ok=True)
        uv = os.environ.get("UV") or shutil.which("uv") or "uv"  # `uv run` sets UV to its own path
        _run([uv, "venv", "--quiet", "--clear", "--no-python-downloads", "--python", "3.11", str(home / "venv")])
        _run([uv, "pip", "install", "--quiet", "--python", str(python), *packages])
        made.write_text(wanted)
    return python


def _run(command: Sequence[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        messages = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise BadInput(f"{' '.join(command)} failed: {messages[-1] if messages else error}") from error


class Asked:
    """The process of bench/peers/asked.py. Raises BadInput if it ends, or does not answer in time.

    `work`: a folder for its files, empty at first, its last argument; removed at the end.
    """

    def __init__(self, command: Sequence[str], work: Path, log: Path) -> None:
        self._log, self._work = log, work
        _empty(work)
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [*command, str(work)],
                cwd=PROJECT_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,  # ended as a group, with what it started
            )
        try:
            self._answer(START_SECONDS)
        except BaseException:
            self.close()
            raise

    def carry(self, task: Task) -> None:
        """Have it carry a topic into a table."""
        requests: Any = self._process.stdin
        with suppress(BrokenPipeError):  # it has ended, which the answer shows
            requests.write(json.dumps(task) + "\n")
            requests.flush()
        self._answer(CARRY_SECONDS)

    def close(self) -> None:
        """End it: by itself, since its input ends, or by force."""
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # it has ended, and did not read the last line
                if pipe is not None:
                    pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        end_group(self._process)
        shutil.rmtree(self._work, ignore_errors=True)

    def _answer(self, seconds: float) -> None:
        answers: Any = self._process.stdout
        with selectors.DefaultSelector() as ready:
            ready.register(answers, selectors.EVENT_READ)
            if not ready.select(seconds):
                raise BadInput(f"no answer within {seconds:g} s; its log is {self._log}")
        if not answers.readline():
            raise BadInput(f"it ended; its log is {self._log}")


def end_group(process: "subprocess.Popen[str]") -> None:
    """End a process that leads a session, and what it started there."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):  # all of them have ended
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
