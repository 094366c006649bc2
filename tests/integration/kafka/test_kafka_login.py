"""A Kafka with authentication: every client reports a wrong password, authority or token as such, and not as an
unavailable broker.
"""

import base64
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from platform_defs.errors import AccessDenied, BrokerAway, NotDelivered, TidegateError
from platform_defs.groups.own_groups import show_progress
from platform_defs.kafka.broker import KafkaBroker, offsets_at
from platform_defs.kafka.cluster_admin import KafkaCluster
from platform_defs.kafka.descriptions import KafkaPartitions
from platform_defs.kafka.source import KafkaSource
from platform_defs.kafka.topic_views import KafkaTopics
from platform_defs.offsets import OffsetRange
from platform_defs.producers.message import Message
from platform_defs.producers.producer import Producer
from platform_defs.topics.admin import TopicAdmin
from tests.support.kafka.kafka_actions import Place, look, look_at_cluster, note, produce, progress, read, run
from tests.support.kafka.secured_kafka import ADMIN, USER, SecuredKafka

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("secured")]


def denied(place: Place, options: dict[str, str]) -> dict[str, Any]:
    """Return each client's error if no broker accepts its login."""
    silent = {**options, "log_level": "0"}
    tries: dict[str, Callable[[], Any]] = {
        "describe": lambda: KafkaBroker(silent, timeout=6).describe(place.topic),
        "look": lambda: KafkaTopics(silent, timeout=6).views([place.topic])[place.topic],
        "change": lambda: TopicAdmin(silent, timeout=6).observe([place.topic]),
        "cluster": lambda: KafkaPartitions(silent, timeout=6).topics(),
        "read": lambda: list(KafkaSource(silent, patience=6).read(OffsetRange(place.topic, 0, 0, 2))),
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
    """Return the first of three answers that is not BrokerAway: on a busy machine a broker may lack the time for a
    handshake once, but not three times.
    """
    answers = (_answer(asked) for _ in range(3))
    return next((answer for answer in answers if not isinstance(answer, BrokerAway)), BrokerAway("three times"))


@pytest.mark.longest
def test_a_wrong_password_is_said_and_not_taken_for_a_broker_that_is_away(place: Place, secured: SecuredKafka) -> None:
    wrong = {**secured.options(), "sasl.password": "wrong", "message.timeout.ms": "2000"}
    options = {name: value for name, value in wrong.items() if name != "message.timeout.ms"}
    answers = denied(place, options)
    answers["quorum"] = _final_answer(lambda: KafkaCluster(options, 15).quorum())  # kafka-python: slow to log in
    assert {name: type(answer) for name, answer in answers.items()} == dict.fromkeys(answers, AccessDenied)
    assert all("TIDEGATE_KAFKA_SASL_PASSWORD" in str(answer) for answer in answers.values()), answers
    text = r"did not acknowledge .*Correct TIDEGATE_KAFKA_SASL_USERNAME"
    with pytest.raises(NotDelivered, match=text), Producer(wrong, place.topic) as producer:
        producer.send(Message(b"{}", None))


@pytest.mark.longest
def test_an_authority_that_is_not_known_is_said(place: Place, secured: SecuredKafka) -> None:
    unknown = {name: value for name, value in secured.options(ADMIN).items() if name != "ssl.ca.location"}
    answers = denied(place, unknown)  # kafka-python: test_kafka_cluster.py
    assert {name: type(answer) for name, answer in answers.items()} == dict.fromkeys(answers, AccessDenied)
    assert all("TIDEGATE_KAFKA_SSL_CA_LOCATION" in str(answer) for answer in answers.values()), answers


@pytest.mark.longest
def test_a_broker_that_is_away_is_not_taken_for_one_that_refuses(place: Place, secured: SecuredKafka) -> None:
    away = {**secured.options(), "bootstrap.servers": "127.0.0.1:1"}
    assert isinstance(_answer(lambda: KafkaBroker(away, timeout=2).describe(place.topic)), BrokerAway)
    assert isinstance(_answer(lambda: list(KafkaSource(away, patience=2).read(OffsetRange("t", 0, 0, 2)))), BrokerAway)


def token(user: str) -> tuple[str, float]:
    """Return an unsigned token for this user, and when it expires."""
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


@pytest.mark.longest
def test_every_client_logs_in_with_tokens(place: Place, secured: SecuredKafka) -> None:
    """A run, whose tasks get the function by its name, and each of our clients, including the second library."""
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
