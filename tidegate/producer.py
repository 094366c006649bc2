"""A producer for programs of your own."""

from collections.abc import Mapping
from typing import Any

from platform_defs.errors import BadInput
from platform_defs.producer_options.presets import DEFAULT
from platform_defs.producers.producer import Producer as _Producer
from platform_defs.producers.producer import Report
from platform_defs.stack.endpoints import kafka_alone


class Producer(_Producer):
    """Writes messages to one topic with a preset. A context manager: at its end everything is acknowledged, or
    NotDelivered is raised; if an error leaves it, unsent messages are dropped.

    `send`, `send_and_wait`, `flush` and `transaction` write; `counts` has the delivery counts so far. Use it in one
    thread.
    """

    def __init__(
        self,
        topic: str,
        preset: str = DEFAULT,
        *,
        options: Mapping[str, Any] | None = None,
        client_id: str | None = None,
        on_delivery: Report | None = None,
    ) -> None:
        """`options`: a whole librdkafka configuration, with bootstrap.servers. By default that of TIDEGATE_KAFKA_*, or
        of the embedded broker.

        `client_id`: by default tidegate. With the preset transactional it is the transactional.id, and has no default:
        two producers with one id would fence each other. `on_delivery`: gets each message with
        its Delivered or NotDelivered.

        Raises BadInput for options that contradict each other, or lack bootstrap.servers, and without a client_id that
        is needed. Does not wait for Kafka: for a topic that does not exist, or a broker that is away, messages are
        NotDelivered.
        """
        if client_id is None and preset == "transactional":
            raise BadInput(
                "a transactional producer needs a client_id of its own, the same after each start: it is the "
                "transactional.id, and a second producer with the same one fences the first",
                field="client_id",
            )
        kafka = kafka_alone() if options is None else options
        super().__init__(kafka, topic, preset, client_id=client_id or "tidegate", on_delivery=on_delivery)
