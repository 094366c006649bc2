"""`tidegate topics` with a folder of contracts and topics per test."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platform_defs.topics.admin import TopicAdmin
from platform_defs.topics.observed import ObservedTopic
from tests.support.commands import Called, invoke
from tests.support.shipped import ASSETS
from tests.support.world import World

DECLARED = re.compile(r"    customProperties:.*\n      - \{property: partitions.*\n      - \{property: config.*\n")
SHIPPED = DECLARED.sub("", (ASSETS / "web" / "page_views.odcs.yaml").read_text())
TOPIC = "    physicalName: web.page_views\n    properties:\n      - name: event_id\n"


@dataclass(frozen=True)
class Site:
    """A folder of contracts, with one pipeline and its own topics."""

    folder: Path
    name: str  # of the pipeline and, with a dot, the beginning of each topic's
    world: World

    @property
    def topic(self) -> str:
        return f"{self.name}.views"

    def declare(self, **keys: str) -> Path:
        """Write the contract, with these keys of its topic as YAML."""
        assert SHIPPED.count(TOPIC) == 1
        given = "".join(f"      - {{property: {key}, value: {value}}}\n" for key, value in keys.items())
        text = SHIPPED.replace(
            TOPIC, TOPIC.replace("    prop", f"    customProperties:\n{given}    prop") if keys else TOPIC
        )
        path = self.folder / "web" / "views.odcs.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("web.page_views", self.topic).replace("web_page_views", self.name))
        return path

    def declare_upsert(self, config: str) -> Path:
        """Write the shipped contract of an upsert instead of the other one, with these topic settings as YAML."""
        text = DECLARED.sub("", (ASSETS / "crm" / "customers.odcs.yaml").read_text())
        topic = "    physicalName: crm.customers\n    properties:\n"
        assert text.count(topic) == 1
        keys = f"    customProperties: [{{property: config, value: {config}}}]\n"
        text = text.replace(topic, topic.replace("    prop", f"{keys}    prop"))
        path = self.folder / "crm" / "customers.odcs.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("crm.customers", self.topic).replace("crm_customers", self.name))
        return path

    def list_others(self, *lines: str) -> None:
        (self.folder / "topics.yaml").write_text("topics:\n" + "".join(f"  {line}\n" for line in lines))

    def run(self, *arguments: str) -> Called:
        return invoke("topics", *arguments)

    def apply(self, *arguments: str) -> None:
        """Apply the declarations. Raises AssertionError if that fails."""
        invoke("topics", "apply", "--yes", *arguments, code=0)

    def listed(self) -> dict[str, Any]:
        """Return the entry of the contract's topic in the list."""
        return {one["topic"]: one for one in self.run("list", "-o", "json").document["topics"]}[self.topic]

    def produce(self, count: int) -> None:
        """Send so many made-up messages to the contract's topic."""
        invoke("produce", self.name, "--count", str(count), code=0)

    def look(self, topic: str = "") -> ObservedTopic:
        return self.admin.observe([topic or self.topic]).topics[topic or self.topic]

    @property
    def admin(self) -> TopicAdmin:
        return TopicAdmin(self.world.endpoints.kafka_options())


def violations(done: Called) -> Mapping[str, dict[str, Any]]:
    return {one["rule"]: one for one in done.document["violations"]}
