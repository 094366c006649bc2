"""Messages written to topics, in transactions or not: `from resources.kafka.producer import Producer`."""

from resources.kafka.producer.producer import Producer as Producer
