"""Spark's configuration: encrypted if tasks go to other machines, and with no options but the settings'."""

import logging.config

import pytest
from pyspark.logger import PySparkLogger

from platform_defs.settings.settings import Settings
from platform_defs.spark.session import ENCRYPTED, is_encrypted, is_local, spark_config

GIVEN = "Xr3PasswordSpark"


def config(master: str | None, secret: str | None = None) -> dict[str, str]:
    return spark_config(Settings(spark_master=master, spark_secret=secret))  # type: ignore[arg-type]  # pydantic's


@pytest.mark.parametrize(
    ("master", "secret", "encrypted"),
    [
        (None, None, False),
        ("local[2]", GIVEN, False),
        ("spark://a:7077", GIVEN, True),
        ("spark://a:7077", None, False),  # the secret must be the cluster's; a spark-defaults.conf may have it
        ("local-cluster[2,1,1024]", GIVEN, True),
        ("yarn", None, True),
        ("k8s://https://a:6443", None, True),
    ],
)
def test_tasks_for_other_machines_are_encrypted(master: str | None, secret: str | None, encrypted: bool) -> None:
    made = config(master, secret)
    assert (ENCRYPTED.items() <= made.items()) == encrypted
    assert GIVEN not in str(made)  # these options are in the JVM's command line
    assert is_encrypted(made) == (encrypted or is_local(made["spark.master"]))


@pytest.mark.parametrize(
    ("conf", "encrypted"),
    [
        ({}, False),
        ({"spark.authenticate": "true"}, False),
        ({"spark.network.crypto.enabled": "true"}, False),
        ({"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}, True),
        ({"spark.authenticate": "true", "spark.ssl.rpc.enabled": "true"}, True),
        ({"spark.authenticate": "true", "spark.ssl.enabled": "true"}, False),  # for web pages
    ],
)
def test_what_a_spark_defaults_conf_says_counts(conf: dict[str, str], encrypted: bool) -> None:
    assert is_encrypted({"spark.master": "spark://a:7077", **conf}) == encrypted


@pytest.mark.parametrize("name", ["SQLQueryContextLogger", "DataFrameQueryContextLogger"])
def test_pyspark_logs_no_value_that_spark_quotes_once_dagster_has_configured_logging(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": False})  # as Dagster does in each run
    logging.getLogger("another").error("it is configured")
    PySparkLogger.getLogger(name).error("The value 'secret' cannot be cast")
    assert caplog.messages == ["it is configured"]
