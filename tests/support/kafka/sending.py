"""`tidegate send` with a contract and a topic per test, and the messages that another client then reads."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.support.commands import Called, invoke
from tests.support.shipped import ASSETS
from tests.support.world import World


@dataclass(frozen=True)
class Desk:
    """A folder of contracts with one pipeline and its own topic."""

    folder: Path
    world: World
    name: str
    suffix: str = ".messages"

    @property
    def topic(self) -> str:
        return f"{self.name}{self.suffix}"

    def declare(self, shipped: str = "bank/transfers", server: str = "format: json", name: str = "") -> None:
        """Write a shipped contract, changed to read this topic."""
        text = (ASSETS / f"{shipped}.odcs.yaml").read_text()
        domain, table = shipped.split("/")
        name = name or self.name
        text = text.replace(f"physicalName: {domain}.{table}\n", f"physicalName: {self.topic}\n", 1)
        text = re.sub(rf"\b{domain}\.(?=\w)", f"{name}.", text)
        text = text.replace(f"id: {domain}_{table}", f"id: {name}")
        server = f"servers:\n  - {{server: kafka, type: kafka, host: kafka, {server}}}\n\n"
        text = re.sub(r"^servers:\n.*?\n\n", server, text, count=1, flags=re.DOTALL | re.MULTILINE)
        path = self.folder / domain / f"{name}.odcs.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        if (transform := ASSETS / f"{shipped}.py").exists():
            path.with_name(f"{name}.py").write_bytes(transform.read_bytes())

    def make_topic(self) -> None:
        self.world.create_topic(self.topic)

    def send(self, *arguments: str, to: str = "", given: bytes | None = None, code: int = 0) -> Called:
        return invoke("send", to or self.name, *arguments, given=given, code=code)

    def log(self) -> list[Any]:
        """Return every message of the topic, read by another client, by partition and offset."""
        conf: dict[str, Any] = {
            **self.world.endpoints.kafka_options(),
            "group.id": "none",
            "enable.partition.eof": True,
        }
        consumer = Consumer({**conf, "enable.auto.commit": False})
        consumer.assign([TopicPartition(self.topic, number, 0) for number in range(4)])
        found, left = list[Any](), 4
        while left:
            message: Any = consumer.consume(1, 30)[0]
            if message.error() is None:
                found.append(message)
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF
                left -= 1
        consumer.close()
        return sorted(found, key=lambda message: (message.partition(), message.offset()))
