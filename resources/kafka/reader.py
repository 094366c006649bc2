"""librdkafka's consumer, as everything here makes it."""

import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer

from resources.kafka.heard import Heard

# What librdkafka says of its connections goes to Python's logging, not straight to stderr: a consumer that is kept
# would complain twenty times a second of a broker that has stopped. What matters comes back from `consume`.
LIBRDKAFKA = logging.getLogger("tidegate.librdkafka")
LIBRDKAFKA.addHandler(logging.NullHandler())


class Reader(Consumer):
    """A consumer that knows why it got no messages."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        self.heard = Heard()
        super().__init__({**conf, "error_cb": self.heard}, logger=LIBRDKAFKA)
