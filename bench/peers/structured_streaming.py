"""Spark Structured Streaming with foreachBatch and JDBC, in its own environment, which has the Spark that the Kafka
connector is released for.

The documented ways to write faster: inserts of many rows (reWriteBatchedInserts of Postgres' driver, and a large
batchsize), and large triggers. Arguments: the jars, comma-separated; a folder for its files.
"""

import sys
import tempfile
from functools import partial
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.peers.asked import Task, answer_each

FIELDS = (
    "transfer_id string, debit_account string, credit_account string, amount decimal(18,2), currency string,"
    " occurred_at timestamp, memo string"
)
TRIGGER = 500_000  # messages: as many as both of the processes by hand commit at a time


def start(jars: str, folder: str) -> SparkSession:
    """Start Spark in this process, on all cores."""
    builder: SparkSession.Builder = SparkSession.builder  # pyright: ignore[reportAssignmentType]  # a classproperty
    options = {
        "spark.master": "local[*]",
        "spark.jars": jars,
        "spark.local.dir": folder,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
    }
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def carry(spark: SparkSession, folder: str, task: Task) -> None:
    """Carry the topic from its beginning, with a new checkpoint, until it is read."""
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", task["brokers"])
        .option("subscribe", task["topic"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", TRIGGER)
        .load()
    )
    parsed = F.from_json(F.col("value").cast("string"), FIELDS).alias("transfer")
    places = F.col("partition").alias("_partition"), F.col("offset").alias("_offset")
    rows = messages.select(parsed, *places).select("transfer.*", "_partition", "_offset")
    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        writer = rows.writeStream.foreachBatch(partial(write, task)).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()


def write(task: Task, rows: DataFrame, _number: int) -> None:
    """Write one trigger's rows."""
    database = urlsplit(task["postgres_url"])
    place = f"{database.hostname}:{database.port}{database.path}"
    options = {
        "url": f"jdbc:postgresql://{place}?reWriteBatchedInserts=true",
        "user": unquote(database.username or ""),
        "password": unquote(database.password or ""),
        "dbtable": f"bench.{task['table']}",
        "batchsize": "10000",
        "driver": "org.postgresql.Driver",
    }
    rows.write.format("jdbc").options(**options).mode("append").save()


if __name__ == "__main__":
    answer_each(partial(carry, start(sys.argv[1], sys.argv[2]), sys.argv[2]))
