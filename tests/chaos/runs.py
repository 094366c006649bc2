"""Runs in separate processes, to be killed or stopped. They are forked from one that has imported everything."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import psutil
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import drain
from platform_defs.errors import TidegateError
from platform_defs.runs.open_run import open_run
from platform_defs.settings.contracts import find_pipeline
from platform_defs.spark.session import spark_config, start_session
from platform_defs.stack.endpoints import connection
from tests.support.waiting import BOUND
from tests.support.world import declassified, renamed

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.chaos.preload"])

SERVERS, POSTGRES = "TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", "TIDEGATE_POSTGRES_URL"
Gateway = tuple[int, str]  # the port of a JVM, and its secret
Word = tuple[str, ...]  # a run's report: ("batch", id), ("done",), or ("failed", error class, message)


class Run:
    """A run of `pipeline` (the shipped `bank_transfers` under another name), started at once.

    `point` is armed with `how` (KILL or STOP). With `forever`, it continues when it has caught up, until it is killed.
    With `spark`, it works through this session's JVM instead of its own: it starts in a second, its tasks outlive it,
    and a point inside a task is not reached. `play` is the function of the process, by default `play_run`.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        point: str | None = None,
        how: str = "KILL",
        *,
        forever: bool = False,
        play: Callable[..., None] | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        self._ear, mouth = FORKS.Pipe(duplex=False)
        given = (pipeline.name, pipeline.contract.limits.batch_messages, point, how, forever, mouth, _gateway(spark))
        there = {name: os.environ[name] for name in (SERVERS, POSTGRES) if name in os.environ}
        self.process = FORKS.Process(target=_led_to, args=(there, play or play_run, given))
        self.process.start()
        mouth.close()
        self.words: list[Word] = []

    def hear(self, seconds: float) -> Word | None:
        """Return the run's next report, or None if it has ended or sends nothing for this many seconds."""
        with suppress(EOFError):
            if self._ear.poll(seconds):
                self.words.append(self._ear.recv())
                return self.words[-1]
        return None

    def end(self) -> Word | None:
        """Wait until the run has ended, letting it continue wherever it stops; return its last report, if any."""
        deadline = time.monotonic() + BOUND
        while self.process.is_alive():
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"the run did not end within {BOUND:.0f} s; it had said {self.words}")
            if self._stopped():
                self.resume()
            self.hear(0.05)
        while self.hear(0.1):
            pass
        return self.words[-1] if self.words else None

    def kill(self) -> None:
        """Kill the run alone (SIGKILL): its JVM and workers notice."""
        if self.process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)
        self.process.join(BOUND)

    def wait_until_stopped(self) -> None:
        """Wait until the run has reached its point; then stop its JVM and workers too."""
        deadline = time.monotonic() + BOUND
        while not self._stopped():
            assert self.process.is_alive(), f"the run ended before it reached its point: {self.end()}"
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError("the run did not reach its point")
            time.sleep(0.02)
        for one in self._tree():
            one.suspend()

    def resume(self) -> None:
        for one in self._tree():
            with suppress(psutil.NoSuchProcess):
                one.resume()

    def _stopped(self) -> bool:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED
        return False

    def _tree(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            run = psutil.Process(self.process.pid)
            return [*run.children(recursive=True), run]
        return []


def shipped(name: str) -> Pipeline:
    found = find_pipeline("bank_transfers")
    return Pipeline(renamed(declassified(found.contract), name), found.transform)


def _session() -> SparkSession:
    return start_session(spark_config())


def _led_to(there: dict[str, str], play: Callable[..., None], given: tuple[Any, ...]) -> None:
    """Use the test process' servers, if it has any: forks have the environment of the first test."""
    for name in (SERVERS, POSTGRES):
        os.environ.pop(name, None)
    os.environ.update(there)
    play(*given)


def play_run(
    name: str,
    batch_messages: int,
    point: str | None,
    how: str,
    forever: bool,
    mouth: Connection,
    gateway: Gateway | None = None,
    session: Callable[[], SparkSession] = _session,
    made: Callable[[str], Pipeline] = shipped,
) -> None:
    """Process batches until caught up and report each of them. `made` returns the pipeline with this name."""
    if point:
        os.environ["TIDEGATE_CRASH_POINT"] = f"{point}:{os.getpid()}:{how}"
    pipeline = limited(made(name), batch_messages)
    say: Any = mouth.send
    if gateway:
        there = joined(gateway)
        session = lambda: there  # noqa: E731  # joined once, for all batches
    say(("ready",))
    try:
        while True:
            with open_run(pipeline, connection(), session) as context:
                for batch in drain(pipeline, context):
                    say(("batch", str(batch.batch_id)))
            if not forever:
                break
        say(("done",))
    except TidegateError as error:
        say(("failed", type(error).__name__, str(error)))


def limited(pipeline: Pipeline, batch_messages: int, **limits: Any) -> Pipeline:
    """Return the pipeline with `batch_messages` messages per batch, and other `limits`."""
    changed = replace(pipeline.contract.limits, batch_messages=batch_messages, **limits)
    return replace(pipeline, contract=replace(pipeline.contract, limits=changed))


def _gateway(spark: SparkSession | None) -> Gateway | None:
    """Return the address of the JVM of `spark`, for another process, or None."""
    if spark is None:
        return None
    known: Any = spark.sparkContext._gateway
    return known.gateway_parameters.port, known.gateway_parameters.auth_token


def joined(gateway: Gateway) -> SparkSession:
    """Return this process' own session in the JVM of another, as notebooks have it."""
    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(gateway[0]), gateway[1]
    there = launch_gateway()
    jvm: Any = there.jvm
    running = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(
        jvm.org.apache.spark.SparkContext.getOrCreate()
    )
    return SparkSession(SparkContext(jsc=running, gateway=there, conf=SparkConf(_jvm=jvm, _jconf=running.getConf())))
