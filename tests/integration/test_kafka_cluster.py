"""What is asked through kafka-python, of a real broker: by SASL_SSL, with and without the right to ask."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from platform_defs.errors import BadInput, BrokerAway
from resources.endpoints import Endpoints
from resources.kafka.cluster import KafkaCluster
from resources.local import jars, java, kafka, processes
from resources.local.kafka_node import PROTOCOLS, Node, Program, new_cluster
from resources.local.state import Server
from tests.world import World, transfers

# One listener more, by SASL_SSL; `me` may do everything, `guest` nothing.
SECURED = """\
listeners={ours},SECURED://127.0.0.1:{port}
advertised.listeners={ours},SECURED://127.0.0.1:{port}
listener.security.protocol.map={protocols},SECURED:SASL_SSL
listener.name.secured.ssl.keystore.type=PEM
listener.name.secured.ssl.keystore.location={pem}
listener.name.secured.sasl.enabled.mechanisms=PLAIN
listener.name.secured.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_me="secret" user_guest="secret";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:me
"""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """librdkafka's options for `me`, to a broker of this file's own."""
    home = tmp_path_factory.mktemp("secured")
    certificate, ports = _certificate(home), _free_ports(4)
    node = Node(home, 1, (Server(*ports[:3]),))
    program = Program(java.find_java(), jars.broker_classpath(lambda _: None))
    pem = home / "both.pem"
    node.write_properties(SECURED.format(ours=node.listeners, port=ports[3], protocols=PROTOCOLS, pem=pem))
    formatting = processes.start(node.format(program, new_cluster(node.servers)), node.console, cwd=node.folder)
    assert formatting.wait(60) == 0, node.console.read_text()
    broker = processes.start(node.run(program), node.console, cwd=node.folder)
    try:
        while not kafka.answers(ports[0]):
            assert processes.is_running(broker), node.console.read_text()
        yield {
            "bootstrap.servers": f"127.0.0.1:{ports[3]}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "me",
            "sasl.password": "secret",
            "ssl.ca.location": str(certificate),
        }
    finally:
        processes.end([broker], signal.SIGKILL, within=10)


def _certificate(folder: Path) -> Path:
    """A certificate for 127.0.0.1; both.pem has its key as well."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=broker"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    (folder / "both.pem").write_text(key.read_text() + certificate.read_text())
    return certificate


def _free_ports(count: int) -> list[int]:
    found = list[int]()
    while len(found) < count:
        found.append(processes.kept_or_free_port(None, lambda _: None, found))
    return found


def test_the_quorum_and_the_brokers_of_one_broker(endpoints: Endpoints) -> None:
    cluster = KafkaCluster(endpoints.kafka_options())
    quorum = cluster.quorum()
    assert (quorum.leader, [voter.id for voter in quorum.voters]) == (1, [1])
    assert quorum.voters[0].lag == 0
    (broker,) = cluster.brokers()
    assert broker.address == endpoints.bootstrap_servers
    assert (broker.id, broker.rack, broker.fenced) == (1, "a", False)
    assert cluster.reassignments() == ()


def test_log_folders_and_moves_that_kafka_refuses(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(1))  # Kafka creates topics after it has said so
    topic = pipeline.contract.topic
    cluster = KafkaCluster(world.endpoints.kafka_options(), timeout=1)
    answers = cluster.log_dirs([1, 7])
    assert isinstance(answers[7], BrokerAway)
    assert isinstance(answers[1], tuple)
    (folder,) = answers[1]
    assert {one.partition for one in folder.replicas if one.topic == topic} == {0, 1, 2, 3}
    assert folder.usable_bytes
    assert cluster.reassign({(topic, 0): [1], (topic, 1): [7], (topic, 2): None}) == {
        (topic, 0): None,
        (topic, 1): "INVALID_REPLICA_ASSIGNMENT",
        (topic, 2): "NO_REASSIGNMENT_IN_PROGRESS",
    }


@pytest.mark.slow
def test_by_sasl_ssl_with_librdkafkas_options(secured: dict[str, str]) -> None:
    assert KafkaCluster(secured).quorum().leader == 1
    (broker,) = KafkaCluster(secured).brokers()
    assert broker.address == secured["bootstrap.servers"]


@pytest.mark.slow
def test_who_may_not_ask_is_told_so(secured: dict[str, str]) -> None:
    with pytest.raises(BadInput, match=r"Kafka refuses to describe the quorum: .*CLUSTER_AUTHORIZATION_FAILED"):
        KafkaCluster({**secured, "sasl.username": "guest"}).quorum()


@pytest.mark.slow
def test_a_wrong_password_is_told_so(secured: dict[str, str]) -> None:
    with pytest.raises(BadInput, match=r"Kafka refuses to describe the quorum: .*SASL_AUTHENTICATION_FAILED"):
        KafkaCluster({**secured, "sasl.password": "wrong"}).quorum()


@pytest.mark.slow
def test_a_certificate_that_nobody_vouches_for_is_not_believed(secured: dict[str, str]) -> None:
    unknown = {name: value for name, value in secured.items() if name != "ssl.ca.location"}
    with pytest.raises(BrokerAway, match="certificate verify failed"):
        KafkaCluster(unknown, timeout=1).quorum()
