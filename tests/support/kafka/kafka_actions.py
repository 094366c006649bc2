"""Actions on a Kafka with authentication, each done as a user does it: run, observe, produce, change.

docs/how-to/kafka-rights.md lists the rights that each action needs; `Place` is where they run.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException

from platform_defs.cluster.observe import Look
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.reader.catalogue import Contracts
from platform_defs.errors import AccessDenied, TidegateError
from platform_defs.groups.child import KafkaGroups
from platform_defs.groups.groups import Groups
from platform_defs.groups.own_groups import show_progress
from platform_defs.groups.reset import Target
from platform_defs.kafka.broker import KafkaBroker, offsets_at
from platform_defs.kafka.client.rights import to_describe
from platform_defs.kafka.cluster_admin import KafkaCluster
from platform_defs.kafka.descriptions import KafkaPartitions
from platform_defs.kafka.source import KafkaSource
from platform_defs.kafka.throttles import KafkaThrottles
from platform_defs.kafka.topic_views import KafkaTopics
from platform_defs.messages.chosen_topic import ChosenTopic
from platform_defs.messages.peek import Peek, Start, filter_of
from platform_defs.offsets import OffsetRange
from platform_defs.producers.message import Message
from platform_defs.producers.producer import Producer
from platform_defs.producers.written_topics import Marker
from platform_defs.topics.admin import TopicAdmin
from platform_defs.topics.describe import TopicLook
from platform_defs.topics.steps import AddPartitions, Create, SetConfig, Value
from platform_defs.verify.source.messages import Topic
from tests.support.kafka.group_members import commit
from tests.support.waiting import BOUND
from tests.support.world import World

GROUP = "analytics"  # on the page
PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "kafka-rights.md").read_text()


def sections() -> dict[str, list[str]]:
    """Return the page's $ACLS commands by heading, as their arguments."""
    found = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
    lines = {heading: re.findall(r"^\$ACLS (.*)$", text, re.MULTILINE) for heading, text in found.items()}
    return {heading: each for heading, each in lines.items() if each}


@dataclass(frozen=True)
class Place:
    """The world on the secured Kafka, as the user tidegate, and a pipeline with eight unread messages."""

    world: World
    admin: World
    pipeline: Pipeline

    @property
    def topic(self) -> str:
        return self.pipeline.contract.topic

    @property
    def options(self) -> dict[str, str]:
        return self.world.endpoints.kafka_options()

    def admin_commits(self, group: str, *topics: str) -> None:
        """Reset the group's commits to one offset of each topic (by default, the pipeline's)."""
        admin = self.admin.admin()
        with suppress(KafkaException):
            admin.delete_consumer_groups([group])[group].result(BOUND)
        for topic in topics or (self.topic,):
            commit(admin, group, topic, 1)

    def blamed(self) -> int:
        """Return how many failures count against the pipeline's batch. Asserts that the pipeline is not halted."""
        query = "select state, batch_failures from tidegate.pipeline where name = %s"
        found = self.admin.rows(query, self.pipeline.name)
        assert [row["state"] for row in found] in ([], ["active"])
        return sum(row["batch_failures"] for row in found)

    def lines(self, heading: str) -> list[str]:
        """Return the page's arguments under a heading, for the topic of this pipeline."""
        return [line.replace("--topic payments", f"--topic {self.topic}") for line in sections()[heading]]


def run(at: Place) -> None:
    at.world.drain(at.pipeline)
    topics = KafkaTopics(at.options)
    for answer in (topics.views([at.topic])[at.topic], topics.facts([at.topic])[at.topic]):
        if isinstance(answer, TidegateError):
            raise answer
    offsets_at(at.options, at.topic, 0)
    topic = Topic(at.options, at.topic)
    try:
        assert topic.topic_id()
        assert [len(chunk.offsets) for chunk in topic.chunks(0, 0, 2, 100)] == [2]
    finally:
        topic.close()


def read(at: Place) -> None:
    """Read as a task does: without a run, which would first query the settings."""
    blocks = KafkaSource(at.options, patience=5).read(OffsetRange(at.topic, 0, 0, 2))
    assert sum(len(block.values) for block in blocks) == 2


def progress(at: Place) -> None:
    show_progress(at.options, f"tidegate-{at.pipeline.name}", at.topic, {0: 2})


def produce(at: Place) -> None:
    with Producer(at.options, at.topic) as producer:
        producer.send(Message(b"{}", None))


def produce_together(at: Place) -> None:
    producer = Producer(at.options, at.topic, "transactional", client_id=f"tidegate.{at.pipeline.name}.produce")
    with producer, producer.transaction():
        producer.send(Message(b"{}", None))


def note(at: Place) -> None:
    name = f"tidegate.{at.pipeline.name}.asset"
    producer = Producer(at.options, at.topic, "transactional", client_id=name)
    marker = Marker(at.options, name, at.topic)
    with producer, producer.transaction():
        marker.read()
        producer.send(Message(b"{}", None))
        marker.write(producer, "noted", 1)
    assert marker.read() == "noted"


def resend(at: Place) -> None:
    KafkaBroker(at.options, timeout=5).describe(at.topic)
    read(at)
    produce(at)


def look(at: Place) -> None:
    assert TopicAdmin(at.options).observe([at.topic]).topics[at.topic].effective


def describe_topic(at: Place) -> None:
    """Act as `tidegate topics describe`, which shows as unknown what the user may not see."""
    found = TopicLook(at.options, at.topic).describe(Contracts((), ()))
    if found.unknown:
        raise AccessDenied(found.unknown[0])
    assert found.settings
    assert found.partitions[0].replicas[0].size is not None


def peek(at: Place) -> None:
    chosen = ChosenTopic(at.topic, at.pipeline.contract, hides=True)
    selected = filter_of(chosen, at.options, None, None, print)
    assert len(list(Peek(at.options, selected, Start(at_ms=0), print).messages())) == 8


def look_at_groups(at: Place) -> None:
    """Raise AccessDenied with the missing right if any part of the response is missing."""
    at.admin_commits(GROUP)
    groups = Groups(KafkaGroups(at.options))
    listed, described = groups.list_all(), groups.describe(GROUP)
    missing = [
        *listed.incomplete,
        *described.problems,
        *(one.note for one in described.progress.partitions if one.note),
    ]
    if not described.progress.partitions:  # Kafka omits offsets of hidden topics
        raise AccessDenied(f"hidden: {to_describe(at.topic).command(at.options)}")
    if missing:
        raise AccessDenied(missing[0])
    assert [one.lag for one in listed.groups if one.group.name == GROUP] == [1]
    assert described.seconds


def change_group(at: Place) -> None:
    at.admin_commits(GROUP)
    groups = Groups(KafkaGroups(at.options))
    groups.reset(groups.propose_reset(GROUP, [at.topic], [], Target.parse("latest")))
    groups.delete(groups.propose_deletion(GROUP))


def change(at: Place) -> None:
    admin = TopicAdmin(at.options)
    if (there := admin.observe([at.topic]).topics.get(at.topic)) is not None:
        admin.apply([SetConfig(at.topic, {"retention.ms": Value(None, "3600000")})])
        admin.apply([AddPartitions(at.topic, len(there.partitions), len(there.partitions) + 1)])
        admin.delete(at.topic, there.topic_id)
    admin.apply([Create(at.topic, 1, 1)])


def look_at_cluster(at: Place) -> None:
    seen = Look(at.options).observe()
    if seen.unknown:
        raise AccessDenied(seen.unknown[0])
    sizes, why = Look(at.options).sizes([1])
    assert sizes is not None, why
    mine = [item for item in seen.partitions if item.topic == at.topic]
    if not mine or not mine[0].min_in_sync:
        raise AccessDenied(f"hidden: {to_describe(at.topic, configured=True).command(at.options)}")


def move(at: Place) -> None:
    look_at_cluster(at)
    partitions = KafkaPartitions(at.options)
    partitions.elect(partitions.topics([at.topic]).partitions, unclean=False)
    throttles = KafkaThrottles(at.options)
    throttles.limit(1_000_000, [1], {at.topic: ("0:1", "0:1")})
    assert KafkaCluster(at.options, 5).reassign({(at.topic, 0): [1]}) == {(at.topic, 0): None}
    throttles.remove([1], [at.topic])
