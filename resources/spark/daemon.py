"""Spark's Python daemon, with what every task needs imported before it forks: workers start warm.

Spark runs it as `python -m resources.spark.daemon` (spark.python.daemon.module). Importing starts no thread in any of
these, so forking after it is safe.
"""

# pyright: reportUnusedImport=false
# ^ an import here is its own purpose

import gc

import adbc_driver_manager.dbapi  # noqa: F401
import adbc_driver_postgresql.dbapi  # noqa: F401
import confluent_kafka  # noqa: F401
import orjson  # noqa: F401
import pandas  # noqa: F401
import psycopg  # noqa: F401
import pyarrow.compute
import pyarrow.json  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import platform_defs.engine.task  # noqa: F401
import resources.kafka.source
import resources.postgres.staging  # noqa: F401

if __name__ == "__main__":
    gc.freeze()  # what was imported stays: no collection, and there is one after each task, walks through it
    manager()
