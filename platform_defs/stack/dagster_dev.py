"""`dagster dev` in the background: web server, daemon (sensors, schedules, queue) and code server, over this home.

Each of its processes, also run workers and their Spark, inherits a variable that names the home, by which they are
found, whatever was killed before. What a run has not committed when it is stopped here, the next run reads again.
"""

import json
import os
import signal
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from platform_defs.errors import BadInput
from platform_defs.settings.home import private_home
from platform_defs.settings.imports import require
from platform_defs.settings.project import TABLES, project_table
from platform_defs.settings.settings import PROJECT_ROOT, settings
from platform_defs.stack import processes

MARK = "TIDEGATE_UI"
PORT = 3000  # Dagster's own; another one if it is taken
STOP_SECONDS = 20.0

RELOAD = (
    "mutation { reloadWorkspace { ... on Workspace { locationEntries { locationOrLoadError { "
    "... on PythonError { message } } } } ... on PythonError { message } ... on UnauthorizedError { message } } }"
)

Progress = Callable[[str], None]


@dataclass(frozen=True)
class UiStatus:
    """The UI's URL and process; both None if it is not running."""

    url: str | None = None
    pid: int | None = None

    def as_json(self) -> dict[str, Any]:
        return {"url": self.url, "pid": self.pid, "running": self.url is not None}


def up(progress: Progress) -> UiStatus:
    """Start it if it is not running yet; return when it answers.

    Raises BadInput outside the project's folder, and ServerFailed if Dagster does not start.
    """
    home = settings().home
    if (running := status()).url is not None:
        return running
    workspace = PROJECT_ROOT / "workspace.yaml"
    if not workspace.exists() and TABLES.isdisjoint(project_table(PROJECT_ROOT, "tool")):
        raise BadInput(
            f"{PROJECT_ROOT} has no workspace.yaml; start the UI in your project's folder, or create a "
            "project (tidegate init)"
        )
    require("dagster_webserver", "local", "install it alone: pip install dagster-webserver")
    down()  # end the rest of a killed one
    log = _log(home)
    processes.keep_log_bounded(log)
    port = processes.kept_or_free_port(_port(home), progress)
    progress("starting Dagster")
    command = [sys.executable, "-m", "dagster", "dev", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workspace", workspace.name] if workspace.exists() else []
    process = processes.start(command, log, cwd=PROJECT_ROOT, env=_environment(home))
    _kept(home).write_text(json.dumps({"port": port, "pid": process.pid}) + "\n")
    if not processes.is_up("Dagster", [process], lambda: _answers(port), progress, pause=0.2):
        down()
        raise processes.failed("Dagster", [log])
    return status()


def reload() -> None:
    """Let Dagster reload contracts and transforms, as "Reload definitions" does in the UI.

    Raises BadInput if the UI is not running, or Dagster cannot load the definitions.
    """
    running = status()
    if running.url is None:
        raise BadInput("the UI is not running, and loads the definitions when it starts (tidegate ui up)")
    body, headers = json.dumps({"query": RELOAD}).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{running.url}/graphql", body, headers)  # noqa: S310  # our own address
    try:
        with urllib.request.urlopen(request, timeout=processes.START_SECONDS) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)["data"]["reloadWorkspace"]
    except OSError as error:
        raise BadInput(f"Dagster at {running.url} did not reload: {error}. See {_log(settings().home)}") from error
    entries: list[dict[str, Any]] = found.get("locationEntries", [])
    answers = [found, *(one["locationOrLoadError"] or {} for one in entries)]
    if failed := [str(one["message"]).strip() for one in answers if "message" in one]:
        raise BadInput(f"Dagster cannot load the definitions: {'; '.join(failed)}")


def trickle(pipeline: str, rate: float) -> None:
    """Keep sample messages of `pipeline` flowing, `rate` a second, until `down`, unless they already do."""
    home = settings().home
    command = [sys.executable, "-m", "platform_defs.cli.main", "produce", pipeline, "--rate", str(rate)]
    if not any(item.cmdline() == command for item in running(home)):
        log = _log(home).with_name("trickle.log")
        processes.keep_log_bounded(log)
        processes.start(command, log, cwd=PROJECT_ROOT, env=_environment(home))


def down() -> UiStatus:
    """Stop it, runs in progress included. None of its processes is left running."""
    home = settings().home
    processes.end(_main(home), signal.SIGINT, within=STOP_SECONDS)
    processes.end(running(home), signal.SIGTERM, within=5.0)
    return status()


def status() -> UiStatus:
    """Return its URL and process if it is running and answers now."""
    home = settings().home
    port, main = _port(home), _main(home)
    return UiStatus(_url(port), main[0].pid) if main and _answers(port) else UiStatus()


def running(home: Path) -> list[psutil.Process]:
    """Return all its processes: web server, daemon, code servers, run workers and their children."""
    return processes.matching(lambda found: found.environ().get(MARK) == str(home))


def _main(home: Path) -> list[psutil.Process]:
    def is_main(found: psutil.Process) -> bool:
        return found.environ().get(MARK) == str(home) and found.cmdline()[1:4] == ["-m", "dagster", "dev"]

    return processes.matching(is_main)


def _environment(home: Path) -> dict[str, str]:
    return {
        MARK: str(home),
        "TIDEGATE_HOME": str(home),
        "DAGSTER_HOME": os.environ.get("DAGSTER_HOME") or str(PROJECT_ROOT),
        "DAGSTER_DISABLE_TELEMETRY": "1",  # it would write logs/ next to dagster.yaml
        "PYTHONUNBUFFERED": "1",
    }


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"{_url(port)}/server_info", timeout=5) as answer:  # noqa: S310  # our own address
            return "dagster_webserver_version" in json.load(answer)
    except (OSError, json.JSONDecodeError):
        return False


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def _log(home: Path) -> Path:
    (private_home(home) / "logs").mkdir(exist_ok=True)
    return home / "logs" / "dagster.log"


def _port(home: Path) -> int:
    """Return the port that this home's UI had last."""
    try:
        return json.loads(_kept(home).read_text()).get("port", PORT)
    except (FileNotFoundError, json.JSONDecodeError):
        return PORT


def _kept(home: Path) -> Path:
    return home / "ui.json"
