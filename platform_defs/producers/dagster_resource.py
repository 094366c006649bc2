"""Producers for assets of your own."""

import dagster as dg
from pydantic import Field

from platform_defs.producer_options.config import Chosen, choose
from platform_defs.producer_options.presets import DEFAULT
from platform_defs.producer_options.values import read_option
from platform_defs.producers.producer import Producer, Report
from platform_defs.stack.endpoints import connection


class KafkaProducerResource(dg.ConfigurableResource[None]):
    """Makes producers for the brokers of TIDEGATE_KAFKA_BOOTSTRAP_SERVERS, or the embedded ones."""

    preset: str = Field(default=DEFAULT, description="How messages are sent: `tidegate presets` lists the presets.")
    options: dict[str, str] = Field(
        default_factory=dict, description="librdkafka options that override the preset's, such as linger.ms: 50."
    )

    def producer(
        self,
        topic: str,
        client_id: str = "tidegate.dagster",
        chosen: Chosen | None = None,
        on_delivery: Report | None = None,
    ) -> Producer:
        """Return a producer for `topic`, as preset and options say, or as `chosen`. Use it in a `with`: at its end all
        messages are acknowledged, or NotDelivered is raised.

        Raises BadInput for options that contradict each other; TopicMissing, BrokerAway if the partitioner needs the
        number of partitions.
        """
        kafka = connection()
        if chosen is None:
            given = dict(read_option(name, text) for name, text in self.options.items())
            chosen = choose(self.preset, environment=kafka.librdkafka, given=given)
        return Producer(kafka.kafka_options(), topic, chosen, client_id=client_id, on_delivery=on_delivery)
