"""The versions of the peers that are measured. `python -m bench.peers.versions` resolves the jars' coordinates again
and writes their lock files.
"""

from pathlib import Path

from platform_defs.stack.jars import write_lock

SPARK, QUIX, CONNECT, DEBEZIUM = "4.0.0", "3.28.1", "4.3.1", "3.6.0.Final"
SPARK_PACKAGES = (f"pyspark=={SPARK}",)
QUIX_PACKAGES = (f"quixstreams[postgresql]=={QUIX}",)
SPARK_LOCK = Path(__file__).with_name("structured_streaming.lock.toml")
CONNECT_LOCK = Path(__file__).with_name("connect.lock.toml")
DEBEZIUM_LOCK = Path(__file__).with_name("debezium.lock.toml")  # for its archive; written by hand
SPARK_JARS = (f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}", "org.postgresql:postgresql:42.7.11")
CONNECT_JARS = (f"org.apache.kafka:connect-runtime:{CONNECT}", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4!")
IN_PYSPARK = (
    "org.apache.hadoop:",
    "org.scala-lang",
    "org.slf4j:",
    "org.lz4:",
    "org.xerial.snappy:",
    "com.github.luben:",
    "com.google.code.findbugs:",
    "org.apache.spark:spark-tags",
    "org.checkerframework:",
)

if __name__ == "__main__":
    write_lock(SPARK_LOCK, SPARK_JARS, lambda name: name.startswith(IN_PYSPARK))
    write_lock(CONNECT_LOCK, CONNECT_JARS)
