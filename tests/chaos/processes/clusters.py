"""A Spark cluster of two executors in separate processes, as in `local-cluster[2,1,1024]`, but on two hosts.

Spark starts no speculative copy on a host that runs the task already, and `local-cluster` has one host only. Master and
workers are in the driver's JVM, as there; the executors are its child processes.
"""

import os
from typing import Any

import psutil
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from platform_defs.settings.settings import PROJECT_ROOT, settings
from platform_defs.spark.session import ENCRYPTED, spark_config, start_session

HOSTS = ("127.0.0.2", "127.0.0.3")  # all of 127.0.0.0/8 is this machine
SECRET = "of a cluster for tests"  # noqa: S105  # for tests only
CORES, MEMORY_MB = 1, 1024  # per executor


def start_cluster(**more: str) -> SparkSession:
    """Return a session on both executors, which are ready before the first task; `more` are Spark's settings, with
    underscores for dots.
    """
    config = {
        **spark_config(),
        **ENCRYPTED,
        "spark.executor.memory": f"{MEMORY_MB}m",
        "spark.executor.cores": str(CORES),
        "spark.cores.max": str(CORES * len(HOSTS)),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.executorEnv.PYTHONPATH": str(PROJECT_ROOT),
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["TIDEGATE_SPARK_SECRET"] = SECRET
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(list(config.items())))
    return start_session({**config, "spark.master": _start_master_and_workers(SparkContext._gateway)})


def _start_master_and_workers(gateway: Any) -> str:
    """Start them as deploy/LocalSparkCluster.scala in https://github.com/apache/spark does; return the master's URL."""
    deploy, option = gateway.jvm.org.apache.spark.deploy, gateway.jvm.scala.Option
    conf = gateway.jvm.org.apache.spark.SparkConf(False).set("spark.ui.enabled", "false")
    conf.set("spark.master.rest.enabled", "false").set("spark.authenticate.secret", SECRET)
    for name, value in ENCRYPTED.items():
        conf.set(name, value)
    served = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)
    masters = gateway.new_array(gateway.jvm.java.lang.String, 1)
    masters[0] = f"spark://{served._1().address().hostPort()}"
    work = str(settings().home / "spark" / "work")
    for number, host in enumerate(HOSTS):
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            host, 0, 0, CORES, MEMORY_MB, masters, work, option.apply(number), conf, option.empty()
        )
    return masters[0]


def executors(driver: psutil.Process) -> list[psutil.Process]:
    """Return the executors of the cluster that `driver` has started."""
    return [one for one in driver.children(recursive=True) if "CoarseGrainedExecutorBackend" in " ".join(_words(one))]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # also raised for a zombie
        return []
