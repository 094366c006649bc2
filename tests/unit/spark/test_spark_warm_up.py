"""A Python worker that is started before its first batch imports what Spark's daemon has, and no more."""

import subprocess
import sys

UNPICKLED = """
import pickle, sys
from pyspark import cloudpickle
from platform_defs.spark.warm_up import as_they_are
assert pickle.loads(cloudpickle.dumps(as_they_are)) is as_they_are, "a worker gets it by another way"
assert [name for name in ("dagster", "great_expectations", "pandas", "pyarrow") if name in sys.modules] == []
"""


def test_the_job_that_starts_workers_has_them_import_next_to_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", UNPICKLED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
