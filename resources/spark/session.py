"""Spark: one session for each run, started when first asked for."""

import os
import sys
from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from resources.settings import Settings, settings
from resources.spark.archive import java_options

# All cores, and four tries of a task: plain local[N] never retries one.
LOCAL_MASTER = "local[*,4]"
LOCAL_DRIVER = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def spark_config(given: Settings | None = None) -> dict[str, str]:
    """Spark's settings for a run: UTC, Arrow, workers kept warm, nothing written outside TIDEGATE_HOME."""
    given = given or settings()
    scratch = given.home / "spark"
    return {
        "spark.master": given.spark_master or LOCAL_MASTER,
        "spark.app.name": "tidegate",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        **(LOCAL_DRIVER if given.spark_master is None else {}),  # executors elsewhere must reach the driver
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",  # one stage a batch; there is no shuffle to adapt
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        "spark.sql.ansi.enabled": "true",
        "spark.python.worker.reuse": "true",  # keeps the Kafka consumer and the imports
        "spark.python.daemon.module": "resources.spark.daemon",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": f"-XX:+UseParallelGC {java_options()}",
    }


def start_session(config: dict[str, str]) -> SparkSession:
    """A session with `config`, made or found."""
    _set_environment(config)
    builder = SparkSession.builder
    for name, value in config.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _set_environment(config: Mapping[str, str]) -> None:
    """What Spark takes from the environment only, where the user has not set it."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or workers are whatever python3 the PATH has
    if "spark.driver.host" in config:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # or Spark guesses, and warns about it


class SparkResource(LazyPySparkResource):
    """dagster-pyspark's lazy session, stopped when the run is over (the base class has no stop)."""

    spark_config: dict[str, Any] = {}  # noqa: RUF012  # pydantic copies it

    def session(self) -> SparkSession:
        """The run's session; starts it at the first call."""
        if not self.spark_config:
            self.spark_config.update(spark_config())
        _set_environment(self.spark_config)
        return self.spark_session

    def has_ended(self) -> bool:
        """Whether the session was started and its JVM is gone, as when it ran out of memory: no job will run again."""
        if self._spark_session is None:
            return False
        gateway: Any = self._spark_session.sparkContext._gateway  # the JVM has no other handle
        process = getattr(gateway, "proc", None)  # none where another process started the JVM
        return process is not None and process.poll() is not None

    def cancel_jobs(self) -> None:
        """End the jobs that are running, if there are any."""
        if self._spark_session is not None and not self.has_ended():
            self._spark_session.sparkContext.cancelAllJobs()

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002  # Dagster's signature
        """Stop the session, and with it the JVM and its Python workers. A JVM that is gone took them with it, and would
        fail the teardown.
        """
        if self._spark_session is not None and not self.has_ended():
            self._spark_session.stop()
        self._spark_session = None
