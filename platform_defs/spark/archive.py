"""A class data sharing archive of Spark: halves the time that a run waits for the JVM and for its first job.

`python -m platform_defs.spark.archive` makes it, once for each environment, as part of the installation: it runs a
session that does what a batch does, and the JVM writes its classes to a file when it ends (JEP 350). It is kept in the
environment, since it fits only that environment's jars and Java; the JVM checks, and ignores one that does not fit.
"""

import hashlib
import os
import subprocess
import sys
from importlib import metadata, util
from pathlib import Path
from typing import Any

from platform_defs.errors import TidegateError
from platform_defs.spark.java_options import FOLDER
from platform_defs.spark.warm_up import as_they_are

JAVA_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")  # with these set, -version mentions them


def archive() -> Path:
    """Return the path of the archive for this environment's pyspark and Java; it need not exist yet."""
    from platform_defs.stack.java import find_java

    pyspark = util.find_spec("pyspark")  # not imported: that takes longer than the rest, and every `make` runs this
    assert pyspark is not None  # noqa: S101  # it is installed with us
    plain = {name: value for name, value in os.environ.items() if name not in JAVA_OPTIONS}
    version = subprocess.run([find_java(), "-version"], env=plain, capture_output=True, text=True, check=True).stderr
    name = hashlib.sha256(f"{pyspark.origin} {metadata.version('pyspark')} {version}".encode()).hexdigest()[:12]
    return FOLDER / f"spark-{name}.jsa"


def main() -> None:
    """Make the archive unless it is there. Raises BadInput without a usable Java; any other failure is only printed."""
    path = archive()
    if path.exists():
        return
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    _say("Preparing Spark for fast starts (once) ...")
    try:
        _make(path)
    except (OSError, subprocess.SubprocessError, Py4JError, PySparkException, TidegateError) as error:
        _say(
            "Spark will start more slowly: its class archive could not be created "
            f"({str(error).strip() or repr(error)})"
        )


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for stale in FOLDER.glob("spark-*"):
        stale.unlink()
    unfinished = path.with_suffix(".part")
    try:
        _record(unfinished)
        unfinished.rename(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _record(file: Path) -> None:
    """Do what a batch does, in a local session whose JVM writes its classes to `file` when it ends."""
    from platform_defs.settings.home import private_home
    from platform_defs.settings.settings import settings
    from platform_defs.spark.session import spark_config, start_session

    private_home(settings().home)  # marks it as Tidegate's, before Spark creates its scratch folder there
    config = spark_config(settings().model_copy(update={"spark_master": None}))
    options = f"-XX:ArchiveClassesAtExit={file} -Xlog:cds=off -Xlog:cds+dynamic=off"
    spark = start_session(config | {"spark.driver.extraJavaOptions": options})
    gateway: Any = spark.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]  # no public name for the JVM
    try:
        numbers = spark.range(0, 4, 1, 4).mapInArrow(as_they_are, "id long")
        numbers.selectExpr("id", "inline(array(struct(id as a, -id as b)))").mapInArrow(
            as_they_are, "id long, a long, b long"
        ).collect()
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(120)
    finally:
        gateway.proc.kill()  # no effect if it ended by itself


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)  # noqa: T201  # the output of an installation


if __name__ == "__main__":
    try:
        main()
    except TidegateError as error:  # no Java, or a Java that is too old: the sentence has the remedy
        sys.exit(str(error))
