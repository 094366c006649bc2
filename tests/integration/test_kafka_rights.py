"""A Kafka that asks who one is: what docs/how-to/kafka-rights.md lists is enough and not too much, and a right or a
password that is missing is said as such.
"""

import base64
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from platform_defs.contract.pipeline import Pipeline
from platform_defs.errors import (
    AccessDenied,
    BrokerAway,
    NotDelivered,
    ProducerBroken,
    TidegateError,
    TransactionAborted,
)
from platform_defs.offsets import OffsetRange
from platform_defs.operations.observe_cluster import Look
from platform_defs.producing.message import Message
from platform_defs.topics.steps import AddPartitions, Create, SetConfig, Value
from platform_defs.verification.messages import Topic
from resources.kafka.broker import KafkaBroker, offsets_at, show_progress
from resources.kafka.cluster import KafkaCluster
from resources.kafka.marker import Marker
from resources.kafka.partitions import KafkaPartitions
from resources.kafka.producer import Producer
from resources.kafka.rights import to_describe
from resources.kafka.source import KafkaSource
from resources.kafka.throttles import KafkaThrottles
from resources.kafka.topic_admin import TopicAdmin
from resources.kafka.topics import KafkaTopics
from tests.commands import tidegate
from tests.secured_kafka import ADMIN, USER, SecuredKafka
from tests.world import World, transfers

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("secured")]
PAGE = (Path(__file__).parent.parent.parent / "docs" / "how-to" / "kafka-rights.md").read_text()


def sections() -> dict[str, list[str]]:
    """What the page lists, by heading: the arguments of each $ACLS."""
    found = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
    lines = {heading: re.findall(r"^\$ACLS (.*)$", text, re.MULTILINE) for heading, text in found.items()}
    return {heading: each for heading, each in lines.items() if each}


def single(line: str) -> list[str]:
    """A line for each operation that the line grants."""
    operations = re.findall(r"--operation (\w+)", line)
    rest = re.sub(r"--operation \w+ ", "", line)
    return [f"{rest} --operation {operation}" for operation in operations]


@dataclass(frozen=True)
class Place:
    """The world on the secured Kafka, as the user tidegate, and a pipeline with eight messages that nobody has read."""

    world: World
    admin: World
    pipeline: Pipeline

    @property
    def topic(self) -> str:
        return self.pipeline.contract.topic

    @property
    def options(self) -> dict[str, str]:
        return self.world.endpoints.kafka_options()

    def blamed(self) -> int:
        """How often the pipeline's batch has failed where no system's absence explains it. It is not halted."""
        query = "select state, batch_failures from tidegate.pipeline where name = %s"
        found = self.admin.rows(query, self.pipeline.name)
        assert [row["state"] for row in found] in ([], ["active"])
        return sum(row["batch_failures"] for row in found)

    def lines(self, heading: str) -> list[str]:
        """What the page lists, for the topic of this pipeline."""
        return [line.replace("--topic payments", f"--topic {self.topic}") for line in sections()[heading]]


@pytest.fixture
def place(world: World, secured: SecuredKafka) -> Iterator[Place]:
    secured.revoke_all()
    admin = secured.world(world, ADMIN)
    pipeline = admin.new_pipeline()
    admin.send(pipeline, transfers(8))
    yield Place(secured.world(world), admin, pipeline)
    secured.revoke_all()


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
    """As a task does: apart from a run, which asks for the settings first."""
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


def produce_until_it_fails(at: Place) -> None:
    producer = Producer(at.options, at.topic, "transactional", client_id=f"tidegate.{at.pipeline.name}.produce")
    with producer, producer.transaction():
        for _ in range(1_000_000):
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


DEEDS: Mapping[str, Sequence[Callable[[Place], None]]] = {
    "Runs, sensors and lag": (read, run),
    "Produce": (produce, produce_together),
    "Write a topic from Dagster": (note,),
    "Send again what was not delivered": (resend,),
    "Look at topics": (look,),
    "Change topics": (change,),
    "Look at the cluster": (look_at_cluster,),
    "Move partitions and leaders": (move,),
}
# Each right that the page lists; of the same deed, the one that is taken away.
GRANTED = [(heading, line) for heading, lines in sections().items() for each in lines for line in single(each)]


def test_every_section_of_the_page_is_tried() -> None:
    assert list(sections()) == list(DEEDS)


@pytest.mark.parametrize("heading", list(DEEDS))
def test_the_rights_that_are_listed_are_enough(place: Place, secured: SecuredKafka, heading: str) -> None:
    with secured.granted(*place.lines(heading)):
        for deed in DEEDS[heading]:
            deed(place)


@pytest.mark.parametrize(("heading", "right"), GRANTED, ids=lambda text: re.sub(r".*User:\S+ ", "", text))
def test_without_a_right_that_is_listed_the_error_says_what_to_grant(
    place: Place, secured: SecuredKafka, heading: str, right: str
) -> None:
    """Whoever does what the errors say ends with a deed that is done, and with the right that was taken away."""
    deeds = (progress,) if "--group tidegate- " in right else DEEDS[heading]
    mine = right.replace("--topic payments", f"--topic {place.topic}")
    others = [one for line in place.lines(heading) for one in single(line) if one != mine]
    asked = set[str]()
    with secured.granted(*others or ["--operation Describe --group nobody"]):
        for deed in deeds:
            while (said := refused(deed, place)) is not None:
                lines = re.findall(r"kafka-acls.sh (.*?)(?= &&| \(docs|$)", said)
                assert set(lines) - asked, said
                asked.update(lines)
                secured.grant(*lines)
    resource, operation = re.findall(r"--topic|--group|--cluster|--transactional-id|--operation \w+", right)
    assert any(operation in line and resource in line for line in asked), asked
    assert place.admin.dead_letters(place.pipeline) == []
    assert place.blamed() == 0


def refused(deed: Callable[[Place], None], at: Place) -> str | None:
    """What the deed says of a right that is missing."""
    try:
        deed(at)
    except (AccessDenied, NotDelivered, TransactionAborted, ProducerBroken) as error:
        return str(error)
    return None


def test_a_transaction_without_the_right_says_so_at_whatever_call_it_fails(place: Place, secured: SecuredKafka) -> None:
    """The answer of the broker comes while offsets are added to the transaction, before or after: it is a race."""
    mine = f"--topic {place.topic} --operation Write"
    rights = [one for line in place.lines("Write a topic from Dagster") for one in single(line)]
    with secured.granted(*(one for one in rights if one != mine)):
        for deed in (*[note] * 8, *[produce_until_it_fails] * 2):
            with pytest.raises(AccessDenied, match=rf"--operation Write --topic {place.topic}"):
                deed(place)


def test_a_run_goes_on_once_the_right_is_granted(place: Place, secured: SecuredKafka) -> None:
    with secured.granted(f"--operation Describe --operation DescribeConfigs --topic {place.topic}"):
        for _ in range(2):
            with pytest.raises(AccessDenied, match=rf"--operation Read .*--topic {place.topic}"):
                place.world.drain(place.pipeline)
        assert place.blamed() == 0
        secured.grant(f"--operation Read --topic {place.topic}")
        assert sum(batch.messages for batch in place.world.drain(place.pipeline)) == 8
    assert place.admin.dead_letters(place.pipeline) == []


def test_a_topic_whose_settings_are_hidden_hides_no_other(place: Place, secured: SecuredKafka) -> None:
    seen = place.admin.new_pipeline().contract.topic
    rights = [
        f"--operation Describe --topic {place.topic} --topic {seen}",
        f"--operation DescribeConfigs --topic {seen}",
    ]
    with secured.granted(*rights):
        called = tidegate("topics", "list", "-o", "json", **secured.environment())
        observed = Look(place.options).observe()
    assert called.code == 0, called.stderr
    listed = {one["topic"]: one for one in called.document["topics"]}
    assert (listed[seen]["state"], listed[place.topic]["state"]) == ("not_declared", "hidden")
    problem = listed[place.topic]["problem"]
    assert f"--operation Describe --operation DescribeConfigs --topic {place.topic}" in problem
    assert {item.topic: item.min_in_sync for item in observed.partitions} == {seen: 1, place.topic: 0}


def denied(place: Place, options: dict[str, str]) -> dict[str, Any]:
    """What each client says whom no broker lets in."""
    silent = {**options, "log_level": "0"}
    tries: dict[str, Callable[[], Any]] = {
        "describe": lambda: KafkaBroker(silent, timeout=2).describe(place.topic),
        "look": lambda: KafkaTopics(silent, timeout=2).views([place.topic])[place.topic],
        "change": lambda: TopicAdmin(silent, timeout=2).observe([place.topic]),
        "cluster": lambda: KafkaPartitions(silent, timeout=3).topics(),
        "read": lambda: list(KafkaSource(silent, patience=2).read(OffsetRange(place.topic, 0, 0, 2))),
        "progress": lambda: show_progress(silent, f"tidegate-{place.pipeline.name}", place.topic, {0: 2}),
        "offsets by time": lambda: offsets_at(silent, place.topic, 0),
    }
    return {name: _final_answer(asked) for name, asked in tries.items()}


def _answer(asked: Callable[[], Any]) -> Any:
    try:
        return asked()
    except TidegateError as error:
        return error


def _final_answer(asked: Callable[[], Any]) -> Any:
    """Not that of a broker which had no time for a handshake: on a busy machine that may be one, never three."""
    answers = (_answer(asked) for _ in range(3))
    return next((answer for answer in answers if not isinstance(answer, BrokerAway)), BrokerAway("three times"))


def test_a_wrong_password_is_said_and_not_taken_for_a_broker_that_is_away(place: Place, secured: SecuredKafka) -> None:
    wrong = {**secured.options(), "sasl.password": "wrong", "message.timeout.ms": "2000"}
    options = {name: value for name, value in wrong.items() if name != "message.timeout.ms"}
    answers = denied(place, options)
    answers["quorum"] = _final_answer(lambda: KafkaCluster(options, 15).quorum())  # kafka-python: slow to log in
    assert {name: type(answer) for name, answer in answers.items()} == dict.fromkeys(answers, AccessDenied)
    assert all("TIDEGATE_KAFKA_SASL_PASSWORD" in str(answer) for answer in answers.values()), answers
    said = r"did not acknowledge .*Correct TIDEGATE_KAFKA_SASL_USERNAME"
    with pytest.raises(NotDelivered, match=said), Producer(wrong, place.topic) as producer:
        producer.send(Message(b"{}", None))


def test_an_authority_that_is_not_known_is_said(place: Place, secured: SecuredKafka) -> None:
    unknown = {name: value for name, value in secured.options(ADMIN).items() if name != "ssl.ca.location"}
    answers = denied(place, unknown)  # kafka-python: test_kafka_cluster.py
    assert {name: type(answer) for name, answer in answers.items()} == dict.fromkeys(answers, AccessDenied)
    assert all("TIDEGATE_KAFKA_SSL_CA_LOCATION" in str(answer) for answer in answers.values()), answers


def test_a_broker_that_is_away_is_not_taken_for_one_that_refuses(place: Place, secured: SecuredKafka) -> None:
    away = {**secured.options(), "bootstrap.servers": "127.0.0.1:1"}
    assert isinstance(_answer(lambda: KafkaBroker(away, timeout=2).describe(place.topic)), BrokerAway)
    assert isinstance(_answer(lambda: list(KafkaSource(away, patience=2).read(OffsetRange("t", 0, 0, 2)))), BrokerAway)


def token(user: str) -> tuple[str, float]:
    """A token that nobody has signed, for this user."""
    expires = time.time() + 60
    parts = ({"alg": "none"}, {"sub": user, "iat": time.time() - 1, "exp": expires})
    return ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts
    ) + ".", expires


def no_token(_: str) -> tuple[str, float]:
    raise LookupError("no credentials found")


@pytest.mark.slow
def test_why_there_is_no_token_is_said_of_the_second_client_too(place: Place, secured: SecuredKafka) -> None:
    given = secured.oauth_options() | {"oauth.callback": f"{__name__}:no_token"}
    options = secured.endpoints(place.world.endpoints, given).kafka_options()
    with pytest.raises(AccessDenied, match=r"no_token .* raised LookupError: no credentials found"):
        KafkaCluster(options).quorum()


def test_every_client_logs_in_with_tokens(place: Place, secured: SecuredKafka) -> None:
    """A run, whose tasks get the function by its name, and each client of ours, of the second library as well."""
    callback = {"oauth.callback": f"{__name__}:token", "sasl.oauthbearer.config": USER}
    world = replace(place.world, endpoints=secured.endpoints(place.world.endpoints, secured.oauth_options() | callback))
    mine = replace(place, world=world)
    lines = [
        line for heading in ("Runs, sensors and lag", "Write a topic from Dagster") for line in place.lines(heading)
    ]
    with secured.granted(*lines, *place.lines("Look at the cluster")):
        for deed in (run, read, progress, produce, note, look, look_at_cluster):
            deed(mine)
    with (
        secured.granted("--operation Describe --group nobody"),
        pytest.raises(AccessDenied, match="TOPIC_AUTHORIZATION"),
    ):
        KafkaBroker(mine.options).describe(place.topic)
