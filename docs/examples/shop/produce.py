"""Sends a thousand orders in Avro, with Confluent's own serializer: nothing here is Tidegate's but the addresses."""

import json
import subprocess
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import uuid4

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

TOPIC = "shop.orders"
CITIES = {"Bern": "CHF", "Lyon": "EUR", "Boston": "USD"}


def order(number: int) -> dict[str, Any]:
    """An order, as the serializer takes it."""
    city = list(CITIES)[number % len(CITIES)]
    return {
        "order_id": str(uuid4()),
        "placed_at": datetime.now(UTC),
        "amount": Decimal(number % 500 + 1) / 4,
        "currency": CITIES[city],
        "shipTo": {"city": city, "country": "..."},
        "coupon": "SPRING" if number % 10 == 0 else None,
    }


def main() -> None:
    status = json.loads(subprocess.check_output(["tidegate", "stack", "status", "-o", "json"]))
    registry = SchemaRegistryClient({"url": status["registry"]["url"]})
    # The schema was registered on purpose (tidegate contract register), and no producer registers one on the way.
    settings = {"auto.register.schemas": False, "use.latest.version": True, "subject.name.strategy.type": "TOPIC"}
    serialize: Any = AvroSerializer(registry, conf=settings)
    servers = {"bootstrap.servers": status["kafka"]["bootstrap_servers"]}
    producer = Producer(servers)
    for number in range(1_000):
        producer.produce(TOPIC, serialize(order(number), SerializationContext(TOPIC, MessageField.VALUE)))
    producer.flush()
    print(f"1,000 orders sent to {TOPIC}")


if __name__ == "__main__":
    main()
