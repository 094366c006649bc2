"""One run in a process of its own, to be killed: `python -m tests.crash.one_run PIPELINE SHIPPED`.

PIPELINE names the test's own topic and schema, SHIPPED the pipeline whose contract and transform it has.
"""

import os
import sys

from assets import find_pipeline
from platform_defs.engine.batch import drain
from platform_defs.engine.ports import Pipeline
from resources.outside import hold
from resources.settings import connection
from resources.spark import spark_config, start_session
from tests.world import renamed


def main(name: str, shipped: str) -> None:
    if point := os.environ.get("TIDEGATE_CRASH_POINT"):
        os.environ["TIDEGATE_CRASH_POINT"] = f"{point}:{os.getpid()}"
    found = find_pipeline(shipped)
    pipeline = Pipeline(renamed(found.contract, name), found.transform)
    with hold(pipeline, connection(), lambda: start_session(spark_config())) as outside:
        for _ in drain(pipeline, outside):
            pass


if __name__ == "__main__":
    main(*sys.argv[1:])
