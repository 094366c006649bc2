"""A Spark session for one call of a transform: views, functions and options that no other call has.

A run has one Spark, and turns of several pipelines at once. In a shared session, views and options of one transform
would change the rows of the others, and its own rows in a later batch, so that rows would depend on where batches are
cut.
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

# Options of Spark that decide a transform's rows for a message, or where Arrow batches end.
OPTIONS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
}

_of_thread = threading.local()
_class: Any = SparkSession
_get_or_create_in_process, _get_active_of_process = _class.Builder.getOrCreate, _class.getActiveSession


def follow_threads() -> None:
    """Make PySpark's getOrCreate and getActiveSession return the session of `own_session` to a thread that is in one.

    Spark's own builder, in Scala, returns a thread's active session. PySpark's return to every thread the session that
    the process created first (pyspark/sql/session.py, Spark 4.3). Repeated calls change nothing.
    """
    _class.Builder.getOrCreate, _class.getActiveSession = _get_or_create, classmethod(_get_active)


@contextmanager
def own_session(spark: SparkSession) -> Generator[SparkSession]:
    """Open a new session of the same Spark, with OPTIONS: in the block, this thread gets it from every PySpark call.

    Needs `follow_threads`. It is gone once nothing refers to it and to its DataFrames.
    """
    session: Any = spark.newSession()
    for name, value in OPTIONS.items():
        session.conf.set(name, value)
    of_process: Any = spark  # PySpark has no public name for the session of a thread
    of_threads: Any = of_process._get_j_spark_session_class(of_process._jvm)
    _of_thread.session = session
    try:
        of_threads.setActiveSession(session._jsparkSession)
        yield session
    finally:
        _of_thread.session = None
        of_threads.setActiveSession(of_process._jsparkSession)


def _get_or_create(builder: Any) -> SparkSession:
    session: Any = _session_of_thread()
    if session is None:
        return _get_or_create_in_process(builder)
    module = session._get_j_spark_session_module(session._jvm)
    module.applyModifiableSettings(session._jsparkSession, builder._options)
    return session


def _get_active(_: type[SparkSession]) -> SparkSession | None:
    return _session_of_thread() or _get_active_of_process()


def _session_of_thread() -> SparkSession | None:
    return getattr(_of_thread, "session", None)
