"""A standalone Spark cluster as in production: the master, its workers and the executors are separate processes.

Everything is bound to 127.0.0.1. Commands and spark.conf are those in docs/examples/kubernetes-executors.
"""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

import psutil
import pyspark
import yaml

from bench.producers.three_brokers import free_ports
from platform_defs.settings.settings import PROJECT_ROOT
from platform_defs.stack import processes
from tests.support.waiting import wait_for

LOCALHOST = "127.0.0.1"
SECRET_OF_TESTS = "of-a-standalone-cluster-for-tests"  # noqa: S105  # for tests only
MANIFESTS = PROJECT_ROOT / "docs" / "examples" / "kubernetes-executors" / "spark.yaml"
SHOWN_SECRET = "a-long-random-text"  # noqa: S105  # a placeholder
SPARK_HOME = Path(pyspark.__file__).parent


@dataclass
class Standalone:
    """A running master and its workers."""

    folder: Path
    port: int
    web_port: int
    master: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    @property
    def url(self) -> str:
        return f"spark://{LOCALHOST}:{self.port}"

    def add_workers(self, count: int, python_path: Path | None = None) -> None:
        """Start workers with one core each. `python_path` is where their executors look for modules first."""
        number = len(self.workers)
        for name in (f"worker-{number + n}" for n in range(count)):
            options = ["--host", LOCALHOST, "--webui-port", "0", "--cores", "1", "--memory", "1g"]
            where = ["--work-dir", str(self.folder / name), self.url]
            paths = {"PYTHONPATH": str(python_path)} if python_path else {}
            self.workers.append(_start(self.folder, name, "worker.Worker", [*options, *where], paths))
        wait_for(lambda: self._alive() == len(self.workers))

    def end_workers(self) -> None:
        """End the workers and their executors."""
        _end(self.workers)
        self.workers.clear()
        wait_for(lambda: self._alive() == 0)

    def executor_of(self, python: int) -> psutil.Process:
        """Return the executor that a Python process works for, which one of the workers has started."""
        above = psutil.Process(python).parents()
        (found,) = [one for one in above if one.ppid() in {worker.pid for worker in self.workers}]
        return found

    def _alive(self) -> int:
        """Return the number of workers that the master reports as alive, or -1 if it does not respond."""
        try:
            with urllib.request.urlopen(f"http://{LOCALHOST}:{self.web_port}/json/", timeout=5) as answer:
                state: dict[str, Any] = json.load(answer)
        except (OSError, ValueError):  # no answer yet, a late one, or a page of HTML until /json/ is served
            return -1
        return sum(worker["state"] == "ALIVE" for worker in state["workers"])


@contextmanager
def standalone(folder: Path) -> Generator[Standalone]:
    """Run a master, and end it with its workers and executors on exit."""
    manifests = [one for one in yaml.safe_load_all(MANIFESTS.read_text()) if one["kind"] == "Secret"]
    shown = manifests[0]["stringData"]["spark.conf"]
    (folder / "spark.conf").write_text(shown.replace(SHOWN_SECRET, SECRET_OF_TESTS))
    port, web_port = free_ports(2)
    options = ["--host", LOCALHOST, "--port", str(port), "--webui-port", str(web_port)]
    cluster = Standalone(folder, port, web_port, _start(folder, "master", "master.Master", options))
    try:
        wait_for(lambda: cluster._alive() == 0)
        yield cluster
    finally:
        _end([*cluster.workers, cluster.master])


def older_install(folder: Path) -> Path:
    """Copy Tidegate with one changed line in its decoding code, as an executor may have kept it."""
    copytree(PROJECT_ROOT / "platform_defs", folder / "platform_defs", ignore=ignore_patterns("__pycache__"))
    changed = folder / "platform_defs" / "engine" / "task" / "row_checks.py"
    changed.write_text(changed.read_text() + "\n# of an earlier release\n")
    return folder


def _start(
    folder: Path, name: str, kind: str, options: Sequence[str], more: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    ours = {key: value for key, value in os.environ.items() if not key.startswith("TIDEGATE_")}
    environment = {**ours, "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": LOCALHOST, **(more or {})}
    environment["SPARK_DAEMON_MEMORY"] = "256m"
    command = [str(Path(sys.executable).with_name("spark-class")), f"org.apache.spark.deploy.{kind}"]
    conf = ["--properties-file", str(folder / "spark.conf")]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [*command, *conf, *options], env=environment, cwd=folder, stdout=log, stderr=subprocess.STDOUT
        )


def _end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """End the processes and all their children."""
    found = [psutil.Process(one.pid) for one in started if one.poll() is None]
    everything = [child for one in found for child in [one, *one.children(recursive=True)]]
    processes.end(everything, signal.SIGTERM, within=10.0)
    for one in started:
        one.wait(10)
