"""Spark in Dagster: one session for each run, started at its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import PrivateAttr, field_validator

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


class SparkResource(dg.ConfigurableResource[None]):
    """dagster-pyspark's LazyPySparkResource, configured by the settings alone, and stopped when the run is over (it has
    no stop). It is made at the session's first use: its module imports Spark, which definitions do not wait for.
    """

    spark_config: dict[str, Any] = {}  # noqa: RUF012  # pydantic copies it
    _spark_session: SparkSession | None = PrivateAttr(default=None)

    @field_validator("spark_config")
    @classmethod
    def _of_the_settings(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Refuse options from a run's configuration: in Dagster's launchpad, a Java option would run any code."""
        if given:
            raise ValueError("Spark is configured only with TIDEGATE_SPARK_*, not in the run config")
        return given

    def session(self) -> SparkSession:
        """Return the run's session; the first call starts it."""
        if self._spark_session is None:
            from dagster_pyspark import LazyPySparkResource

            from platform_defs.spark.session import spark_config, start_session

            self._spark_session = start_session(
                spark_config(), lambda options: LazyPySparkResource(spark_config=options).spark_session
            )
        return self._spark_session

    @property
    def spark_session(self) -> SparkSession:
        """The run's session, by the name that dagster-pyspark has for it."""
        return self.session()

    @property
    def spark_context(self) -> SparkContext:
        """The context of the run's session, by the name that dagster-pyspark has for it."""
        return self.session().sparkContext

    def has_ended(self) -> bool:
        """Return True if the session was started and its JVM is gone (out of memory, say): no job will run again."""
        if self._spark_session is None:
            return False
        context: Any = self._spark_session.sparkContext  # its gateway has no public name
        process = getattr(context._gateway, "proc", None)  # None if another process started the JVM
        return process is not None and process.poll() is not None

    def cancel_jobs(self) -> None:
        """End the jobs that are running, if there are any."""
        if self._spark_session is not None and not self.has_ended():
            self._spark_session.sparkContext.cancelAllJobs()

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002  # Dagster's signature
        """Stop the session with its JVM and Python workers. A JVM that is gone took them with it, and would fail the
        teardown.
        """
        if self._spark_session is not None and not self.has_ended():
            self._spark_session.stop()
        self._spark_session = None
