"""The real broker, database and Spark, started once for the whole session; a fresh topic and schema for each test."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from platform_defs.contract.pipeline import Pipeline
from platform_defs.engine.ports import Published
from resources.endpoints import Endpoints, connection
from resources.local import stack
from tests.world import World


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A TIDEGATE_HOME of this session's own, in the environment of every process that a test starts."""
    path = tmp_path_factory.mktemp("tidegate")
    os.environ["TIDEGATE_HOME"] = str(path)
    for name in ("TIDEGATE_POSTGRES_URL", "TIDEGATE_KAFKA_BOOTSTRAP_SERVERS"):
        os.environ.pop(name, None)
    return path


@pytest.fixture(scope="session")
def endpoints(home: Path) -> Iterator[Endpoints]:
    """Where the session's Kafka and Postgres are; started here, stopped at the end."""
    stack.up()
    yield connection()
    stack.down()


@pytest.fixture(scope="session")
def spark(endpoints: Endpoints) -> Iterator[Callable[[], SparkSession]]:
    """Gives the session's Spark session, started by the first test that asks."""
    from resources.spark.session import spark_config, start_session

    yield lambda: start_session(spark_config())
    if (running := SparkSession.getActiveSession()) is not None:
        running.stop()


@pytest.fixture
def world(endpoints: Endpoints, spark: Callable[[], SparkSession]) -> World:
    """The session's systems, with what a test does to them."""
    return World(endpoints, spark)


@pytest.fixture
def new_pipeline(world: World) -> Callable[..., Pipeline]:
    """Makes a pipeline with a topic and schema of its own out of a shipped one (`World.new_pipeline`)."""
    return world.new_pipeline


@pytest.fixture
def drain_all(world: World) -> Callable[[Pipeline], list[Published]]:
    """Runs a pipeline until it is caught up, as a run of its own (`World.drain`)."""
    return world.drain
