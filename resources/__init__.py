"""The resources of this code location, by the names that ops and assets ask for."""

from platform_defs.dagster.run_session import RunSession
from platform_defs.producers.dagster_resource import KafkaProducerResource
from platform_defs.spark.session import SparkResource

RESOURCES = {
    "spark": SparkResource(),  # a session for each run
    "run_session": RunSession(),
    "kafka_producer": KafkaProducerResource(),
}

__all__ = ["RESOURCES", "KafkaProducerResource", "RunSession", "SparkResource"]
