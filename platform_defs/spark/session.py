"""Spark: a session with the options of the settings."""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from platform_defs.contract.reader.catalogue import append_import_roots, import_roots
from platform_defs.errors import BadInput
from platform_defs.settings.settings import Settings, settings
from platform_defs.spark.java_options import java_options
from platform_defs.spark.own_session import OPTIONS, follow_threads

logging.getLogger("py4j").setLevel(logging.INFO)  # below, it logs its exchange with the JVM: the secret, rows
# They log Spark's errors to stderr, with the values quoted. The errors are raised as well, and classified there. They
# have a filter: logging.config, which each Dagster run calls, enables disabled loggers again.
for _quoting in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    PySparkLogger.getLogger(_quoting).addFilter(lambda _: False)
LOG4J = Path(__file__).with_name("log4j2.xml")
# All cores, and four tries of a task: plain local[N] never retries one.
LOCAL_MASTER = "local[*,4]"
LOCAL_DRIVER = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# Tasks carry the passwords of Postgres, Kafka and the registry. https://spark.apache.org/docs/latest/security.html
ENCRYPTED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.io.encryption.enabled": "true",
}
SECRET = "spark.authenticate.secret"  # noqa: S105  # the option's name
# Encryption between driver and executors. spark.ssl.enabled is only for web pages: spark.ssl.rpc.* does not inherit it.
ENCRYPTIONS = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
# They log task errors, which may quote a message. The error also reaches the caller, who classifies it.
QUOTING = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution",
    "org.apache.spark.util.Utils",
)


def spark_config(given: Settings | None = None) -> dict[str, str]:
    """Return Spark's settings for a run: UTC, Arrow, workers kept warm, nothing written outside TIDEGATE_HOME."""
    given = given or settings()
    scratch, here = given.home / "spark", given.spark_master is None  # executors elsewhere have folders of their own
    return {
        "spark.master": given.spark_master or LOCAL_MASTER,
        "spark.app.name": "tidegate",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        **(LOCAL_DRIVER if here else {}),  # executors elsewhere must reach the driver
        **({"spark.executorEnv.TIDEGATE_PYTHONPATH": os.pathsep.join([*sys.path, *import_roots])} if here else {}),
        **(ENCRYPTED if _shares_a_secret(given) else {}),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **OPTIONS,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",  # one stage a batch; there is no shuffle to adapt
        "spark.python.worker.reuse": "true",  # keeps the Kafka consumer and the imports
        "spark.python.daemon.module": "platform_defs.engine.daemon",
        "spark.python.worker.faulthandler.enabled": "true",  # a crashed worker reports its signal and stack
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
        "spark.driver.extraJavaOptions": (
            f"-XX:+UseParallelGC -Dlog4j2.configurationFile={LOG4J.as_uri()} {java_options()}"
        ),
    }


def _create(options: dict[str, Any]) -> SparkSession:
    return SparkSession.builder.config(map=options).getOrCreate()


def start_session(config: dict[str, str], create: Callable[[dict[str, Any]], SparkSession] = _create) -> SparkSession:
    """Return the session with `config`, which `create` starts if there is none."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or workers are whatever python3 the PATH has
    if "spark.driver.host" in config:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # or Spark picks one, and warns about it
    follow_threads()
    append_import_roots()
    spark = create({**config, **_secret(config)})
    _refuse_unencrypted(spark)
    context: Any = spark.sparkContext  # the JVM has no public name
    log4j = context._jvm.org.apache.logging.log4j
    for name in QUOTING:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
    return spark


def _secret(config: Mapping[str, str]) -> Mapping[str, str]:
    """Return the secret that a cluster needs. The JVM is started before it is set: the JVM's first options are in its
    command line, which every user of the machine can read.
    """
    secret = settings().spark_secret
    if secret is None or is_local(config["spark.master"]):
        return {}
    java: Any = SparkContext  # what starts the JVM alone has no public name
    java._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(list(config.items())))
    return {SECRET: secret.get_secret_value()}


def is_local(master: str) -> bool:
    """Return True if every task runs in the driver's own process."""
    return master.startswith("local") and not master.startswith("local-cluster")


def _shares_a_secret(given: Settings) -> bool:
    """Return True if driver and executors can authenticate: YARN and Kubernetes distribute a secret, others need one
    configured. If spark-defaults.conf does it, nothing is set here.
    """
    master = given.spark_master or LOCAL_MASTER
    return not is_local(master) and (given.spark_secret is not None or master.startswith(("yarn", "k8s://")))


def is_encrypted(conf: Mapping[str, str]) -> bool:
    """Return True if driver and executors with these options authenticate, and their traffic is encrypted."""
    known = conf.get("spark.authenticate") == "true"
    return is_local(conf.get("spark.master", "")) or (known and any(conf.get(one) == "true" for one in ENCRYPTIONS))


def _refuse_unencrypted(spark: SparkSession) -> None:
    """Raise BadInput before the first task is sent, if others on the network could read or change it."""
    conf = dict(spark.sparkContext.getConf().getAll())
    if is_encrypted(conf) or settings().spark_unencrypted:
        return
    spark.stop()
    raise BadInput(
        f"Spark at {conf.get('spark.master')} would receive tasks over connections that are neither authenticated "
        "nor encrypted, and tasks carry the passwords of Postgres and Kafka. Turn on spark.authenticate in the "
        "cluster and set TIDEGATE_SPARK_SECRET to its spark.authenticate.secret. If nobody else can reach that "
        "network, set TIDEGATE_SPARK_UNENCRYPTED=true to accept this",
        field="TIDEGATE_SPARK_MASTER",
    )
