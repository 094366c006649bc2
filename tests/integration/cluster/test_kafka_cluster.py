"""Queries through kafka-python to a real broker: by SASL_SSL, with and without the necessary right."""

import sys
import threading
from collections.abc import Iterator

import pytest

from platform_defs.errors import BadInput, BrokerAway
from platform_defs.kafka.cluster_admin import KafkaCluster
from platform_defs.stack.endpoints import Endpoints
from tests.support.kafka.secured_kafka import ADMIN, SecuredKafka
from tests.support.world import World, transfers


@pytest.fixture
def busy() -> Iterator[None]:
    """Keep another thread computing, so that no thread wakes up before tens of milliseconds have passed."""
    over, before = threading.Event(), sys.getswitchinterval()

    def compute() -> None:
        while not over.is_set():
            sum(range(10_000))

    computing = threading.Thread(target=compute)
    sys.setswitchinterval(0.03)
    computing.start()
    yield
    over.set()
    computing.join()
    sys.setswitchinterval(before)


def test_the_quorum_and_the_brokers_of_one_broker(endpoints: Endpoints) -> None:
    cluster = KafkaCluster(endpoints.kafka_options())
    quorum = cluster.quorum()
    assert (quorum.leader, [voter.id for voter in quorum.voters]) == (1, [1])
    assert quorum.voters[0].lag == 0
    (broker,) = cluster.brokers()
    assert broker.address == endpoints.bootstrap_servers
    assert (broker.id, broker.rack, broker.fenced) == (1, "a", False)
    assert cluster.reassignments() == ()


@pytest.mark.slow
def test_log_folders_and_moves_that_kafka_refuses(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(1))  # Kafka reports creation before its brokers know the topic
    topic = pipeline.contract.topic
    cluster = KafkaCluster(world.endpoints.kafka_options(), timeout=5)
    answers = cluster.replica_sizes([1, 7])
    assert isinstance(answers[7], BrokerAway)
    assert isinstance(answers[1], dict)
    assert {partition for name, partition in answers[1] if name == topic} == {0, 1, 2, 3}
    assert any(size > 0 for (name, _), size in answers[1].items() if name == topic)
    assert cluster.reassign({(topic, 0): [1], (topic, 1): [7], (topic, 2): None}) == {
        (topic, 0): None,
        (topic, 1): "INVALID_REPLICA_ASSIGNMENT",
        (topic, 2): "NO_REASSIGNMENT_IN_PROGRESS",
    }


@pytest.mark.xdist_group("secured")
@pytest.mark.slow
def test_by_sasl_ssl_with_librdkafkas_options(secured: SecuredKafka) -> None:
    options = secured.options(ADMIN)
    assert KafkaCluster(options).quorum().leader == 1
    (broker,) = KafkaCluster(options).brokers()
    assert broker.address == options["bootstrap.servers"]


@pytest.mark.xdist_group("secured")
@pytest.mark.slow
def test_who_may_not_ask_is_told_so(secured: SecuredKafka) -> None:
    secured.revoke_all()
    with pytest.raises(
        BadInput, match=r"Kafka refuses the request to describe the quorum: .*CLUSTER_AUTHORIZATION_FAILED"
    ):
        KafkaCluster(secured.options()).quorum()


@pytest.mark.xdist_group("secured")
@pytest.mark.slow
def test_a_wrong_password_is_told_so_though_this_process_is_busy(secured: SecuredKafka, busy: None) -> None:
    """The broker's error and its closed connection are then read together."""
    with pytest.raises(
        BadInput, match=r"Kafka refuses the request to describe the quorum: .*SASL_AUTHENTICATION_FAILED"
    ):
        KafkaCluster({**secured.options(), "sasl.password": "wrong"}).quorum()


@pytest.mark.xdist_group("secured")
@pytest.mark.slow
def test_a_certificate_that_nobody_vouches_for_is_not_believed(secured: SecuredKafka) -> None:
    unknown = {name: value for name, value in secured.options(ADMIN).items() if name != "ssl.ca.location"}
    with pytest.raises(BrokerAway, match="certificate verify failed"):
        KafkaCluster(unknown, timeout=1).quorum()
