"""Sends where fifty vehicles are, twenty times each, in Protobuf, with Confluent's own serializer."""

import base64
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

TOPIC = "fleet.vehicles"
SCHEMA = Path(__file__).with_name("vehicles.proto")


def generated() -> Any:
    """The module that protoc makes of the schema. A producer of yours has it in its own build."""
    with TemporaryDirectory() as folder:
        protoc = [sys.executable, "-m", "grpc_tools.protoc", f"-I{SCHEMA.parent}", f"--python_out={folder}"]
        subprocess.run([*protoc, SCHEMA.name], check=True)
        sys.path.insert(0, folder)
        import vehicles_pb2

        return vehicles_pb2


def vehicle(of: Any, number: int) -> Any:
    """Where a vehicle is, as a message."""
    message = of.Vehicle(vehicle_id=f"V{number % 50:03}", speed_kmh=number % 120, status=1 + number % 2)
    message.position.latitude, message.position.longitude = 46.9 + number / 10_000, 7.4 - number / 10_000
    message.seen_at.GetCurrentTime()
    message.seen_at.nanos -= message.seen_at.nanos % 1_000  # a timestamp of Postgres' has microseconds
    if number % 3:
        message.battery = number % 100
    return message


def main() -> None:
    status = json.loads(subprocess.check_output(["tidegate", "stack", "status", "-o", "json"]))
    registry, of = SchemaRegistryClient({"url": status["registry"]["url"]}), generated()
    # A schema is registered on purpose, before it is used: the serializer registers nothing. This one, of
    # Python, finds it by what protoc made of it; others find the text that `tidegate contract register` registers.
    compiled = base64.b64encode(of.DESCRIPTOR.serialized_pb).decode()
    registry.register_schema(f"{TOPIC}-value", Schema(compiled, "PROTOBUF"))
    settings = {"auto.register.schemas": False, "skip.known.types": True, "subject.name.strategy.type": "TOPIC"}
    serialize: Any = ProtobufSerializer(of.Vehicle, registry, conf=settings)
    servers = {"bootstrap.servers": status["kafka"]["bootstrap_servers"]}
    producer = Producer(servers)
    for number in range(1_000):
        message = vehicle(of, number)
        value = serialize(message, SerializationContext(TOPIC, MessageField.VALUE))
        producer.produce(TOPIC, value, key=message.vehicle_id)
    producer.flush()
    print(f"1,000 messages about 50 vehicles sent to {TOPIC}")


if __name__ == "__main__":
    main()
