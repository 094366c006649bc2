"""The real broker, database and Spark, started once for each worker; a fresh topic and schema for each test.

Tests run in parallel workers (pytest-xdist), each with a stack, a Spark session and a TIDEGATE_HOME of its own, so no
test meets another worker's. Tests that share something expensive share a worker: those of a file that has a fixture of
its own, and those of an `xdist_group`.
"""

import gc
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import psutil
import pytest
from hypothesis import settings as hypothesis_settings
from pyspark import SparkContext
from pyspark.sql import SparkSession

from platform_defs.stack import processes, stack
from platform_defs.stack.endpoints import Endpoints, connection
from tests.order import GroupScheduling, first_the_longest, folder_mark, is_left_to_test_long, write_groups
from tests.support.kafka.secured_kafka import SecuredKafka, secured_kafka
from tests.support.world import World

# Every process that a test starts inherits this variable; it marks those that outlive the tests.
SESSION = "TIDEGATES_TEST_SESSION"
# C1 alone: a JVM that lives for seconds spends half of its CPU on compiling code that it then hardly uses.
JAVA = "-XX:TieredStopAtLevel=1"
# The share of a property's examples that are tried; `make test` tries a quarter.
EXAMPLES = float(os.environ.get("TIDEGATES_TEST_EXAMPLES", "1"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return one worker more than cores for `-n auto`, since tests wait half of the time; unit tests hardly do."""
    return (os.cpu_count() or 1) + (0 if config.option.markexpr.startswith("unit") else 1)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Make property tests try the same examples each time, unless --hypothesis-seed asks for others."""
    seeded = config.getoption("--hypothesis-seed") is not None
    hypothesis_settings.register_profile("tests", deadline=None, derandomize=not seeded)
    hypothesis_settings.load_profile("tests")
    os.environ.setdefault("JAVA_TOOL_OPTIONS", JAVA)
    if not _is_worker(config):
        os.environ[SESSION] = uuid4().hex
        # Not pytest's usual folder: another pytest of this user closes that to others, and Postgres may run as another.
        config.option.basetemp = config.option.basetemp or tempfile.mkdtemp(prefix="tidegate-tests-")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Freeze what is imported and collected: it stays to the end, so Python's collector need never look through it."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its folder and its group, and put the longest first."""
    for item in items:
        item.add_marker(folder_mark(item))
        if is_left_to_test_long(item):
            item.add_marker(pytest.mark.longest)
    for test in {item.obj for item in items if isinstance(item, pytest.Function)}:
        _try_a_share_of_the_examples(test)
    items[:] = first_the_longest(items)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Write which tests belong together, before xdist gives the scheduler a worker's tests."""
    if _is_worker(session.config):
        write_groups(Path(session.config.option.basetemp).parent, session.items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    return GroupScheduling(config, log, Path(config.option.basetemp))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """End the worker's Spark after a test that ran out of its time: a later test's call would get the answer to the
    call that was interrupted.
    """
    report: Any = yield
    if call.excinfo is not None and "Timeout (>" in str(call.excinfo.value):
        _end_spark()
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """End what is left running, even by a worker that was killed; keep files only if a test has failed."""
    if _is_worker(session.config):
        return
    processes.end(_left_running(within=10.0), signal.SIGKILL, within=5.0)
    if exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(session.config.option.basetemp, ignore_errors=True)


def _try_a_share_of_the_examples(test: Any) -> None:
    """Change a property test to try a share of its examples; leave any other test as it is."""
    given = getattr(test, "_hypothesis_internal_use_settings", None)  # hypothesis has no public name for it
    if given is not None:
        most = max(1, round(given.max_examples * EXAMPLES))
        test._hypothesis_internal_use_settings = hypothesis_settings(given, max_examples=most)


def _end_spark() -> None:
    """End the JVM of this process; the next test that needs Spark starts another one."""
    context, session = cast("Any", SparkContext), cast("Any", SparkSession)  # none of this has a public name
    if context._gateway is not None:
        context._gateway.proc.kill()
    context._gateway = context._jvm = context._active_spark_context = None
    session._instantiatedSession = session._activeSession = None


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _left_running(within: float) -> Sequence[psutil.Process]:
    """Return the processes that the tests started and that are still there after so many seconds."""
    mine, until = os.environ[SESSION], time.monotonic() + within

    def is_left(process: psutil.Process) -> bool:
        return process.pid != os.getpid() and process.environ().get(SESSION) == mine

    while (left := processes.matching(is_left)) and time.monotonic() < until:
        time.sleep(0.2)
    return left


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return this worker's TIDEGATE_HOME, and set it for every process that a test starts."""
    path = tmp_path_factory.mktemp("tidegate")
    os.environ["TIDEGATE_HOME"] = str(path)
    addresses = ("POSTGRES_URL", "DAGSTER_URL", "KAFKA_BOOTSTRAP_SERVERS", "REGISTRY_URL")
    for name in (f"TIDEGATE_{address}" for address in addresses):
        os.environ.pop(name, None)
    return path


@pytest.fixture(scope="session")
def endpoints(home: Path) -> Iterator[Endpoints]:
    """Yield the addresses of the worker's Kafka and Postgres; started here, stopped at the end."""
    stack.up()
    yield connection()
    stack.down()


@pytest.fixture(scope="session")
def spark(endpoints: Endpoints) -> Iterator[Callable[[], SparkSession]]:
    """Yield a function that returns the worker's Spark session, started by the first test that calls it."""
    from platform_defs.spark.session import spark_config, start_session

    yield lambda: start_session(spark_config())
    if (running := SparkSession.getActiveSession()) is not None:
        running.stop()


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """Yield a broker with TLS, passwords and ACLs. Tests that use it have the `xdist_group` secured: one is enough."""
    with secured_kafka(tmp_path_factory.mktemp("secured")) as running:
        yield running


@pytest.fixture
def world(endpoints: Endpoints, spark: Callable[[], SparkSession]) -> World:
    """Return the worker's systems, with a test's actions on them."""
    return World(endpoints, spark)
