"""Spark's Python daemon, with what every task needs imported before it forks: workers start warm.

Spark runs it as `python -m platform_defs.engine.daemon` (spark.python.daemon.module). Importing starts no thread in
any of these, so forking after it is safe.
"""

# pyright: reportUnusedImport=false
# ^ an import here is its own purpose

import gc
import os
import sys

import confluent_kafka
import orjson
import pandas
import pgpq.encoders
import pgpq.schema
import psycopg
import pyarrow.compute
import pyarrow.json
import pyspark.worker
from pyspark.daemon import manager

import platform_defs.engine.commit.direct_statements
import platform_defs.engine.commit.direct_task
import platform_defs.engine.staging.staging
import platform_defs.engine.task.same_install
import platform_defs.engine.task.task
import platform_defs.kafka.source

if __name__ == "__main__":
    # What transforms import is found where the driver found it (spark/session.py), after all that is installed.
    sys.path += [path for path in os.environ.get("TIDEGATE_PYTHONPATH", "").split(os.pathsep) if path not in sys.path]
    platform_defs.engine.task.same_install.here()  # records the code just imported, whatever happens to the files
    gc.freeze()  # the imports stay: no collection (there is one after each task) walks through them
    manager()
