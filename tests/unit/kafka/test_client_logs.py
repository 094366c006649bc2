"""The libraries' own logs contain no password, and those of Kafka's clients are off unless a setting says otherwise."""

import logging
import re
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from openlineage.client import OpenLineageClient
from requests import HTTPError

from platform_defs.doctor.findings.trials import Place
from platform_defs.doctor.kafka_examination import Trial
from platform_defs.errors import BrokerAway, RegistryAway
from platform_defs.groups.client import GroupClient
from platform_defs.kafka.client.connection_log import NO_LOG
from platform_defs.kafka.client.reader import Reader
from platform_defs.kafka.cluster_admin import KafkaCluster
from platform_defs.kafka.descriptions import KafkaPartitions
from platform_defs.kafka.topic_views import KafkaTopics
from platform_defs.lineage import events
from platform_defs.producers.producer_client import ListeningProducer, new_client
from platform_defs.registry.client import RegistryClient
from platform_defs.settings.registry_address import Registry
from platform_defs.spark import session
from platform_defs.stack.endpoints import kafka_alone
from tests.support.kafka.fake_servers import closed_port
from tests.support.waiting import wait_for


class _Refusing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(403)
        self.send_header("content-length", "0")
        self.end_headers()

    do_POST = do_GET  # the base class's name

    def log_message(self, format: str, *_: object) -> None:  # the base class's name
        """Write nothing to stderr."""


@pytest.fixture
def address() -> Iterator[str]:
    """Yield the address, with a password, of a server that refuses everything."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://me:s3cret@127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_the_registrys_client_logs_no_password(address: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(RegistryAway):
        RegistryClient(Registry({"url": address}, patience=0.1)).schema("5")
    assert "s3cret" not in caplog.text


def test_the_client_of_lineage_logs_no_password(
    address: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert events.PRODUCER  # imported
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENLINEAGE_URL", address)
    with pytest.raises(HTTPError):
        OpenLineageClient().transport.emit({"a": 1})  # type: ignore[arg-type]  # as platform_defs/lineage/events.py
    assert "s3cret" not in caplog.text


def test_what_goes_to_the_jvm_and_comes_from_it_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert session.SECRET  # imported
    caplog.set_level(logging.DEBUG)
    for name in ("py4j.clientserver", "py4j.java_gateway"):
        assert not logging.getLogger(name).isEnabledFor(logging.DEBUG)


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address, set as that of our own brokers, at which nothing listens."""
    address = f"127.0.0.1:{closed_port()}"
    monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", address)
    return address


def is_refused(client: Reader | ListeningProducer) -> bool:
    """Poll the client. Return True once it has recorded that its connection was refused."""
    client.poll(0.05)
    return "refused" in client.connection_log.why(KafkaError(KafkaError._TRANSPORT))


def ask_each_client(options: Mapping[str, Any]) -> list[str]:
    """Return the error of each client of Kafka, asked once; the consumer's and the producer's once they have one."""
    with pytest.raises(BrokerAway) as of_partitions:
        KafkaPartitions(options, timeout=0.5).topics()
    with pytest.raises(BrokerAway) as of_groups:
        GroupClient(options, timeout=0.5).partitions(["t"])
    with pytest.raises(BrokerAway) as of_kafka_python:
        KafkaCluster(options, timeout=0.5).quorum()
    with pytest.raises(BrokerAway) as of_topics:
        KafkaTopics(options, timeout=0.5).views(["t"])
    reader = Reader({**options, "group.id": "g"})
    reader.subscribe(["t"])
    wait_for(lambda: is_refused(reader))
    reader.close()
    producer = new_client({**NO_LOG, **options}, "asynchronous")
    wait_for(lambda: is_refused(producer))
    producer.close()  # or it would log into the next test
    place = Place("t", 0)
    assert Trial(options, seconds=0.5).read([place])[place]
    return [str(error.value) for error in (of_partitions, of_groups, of_kafka_python, of_topics)]


@pytest.mark.long
@pytest.mark.slow
def test_clients_of_kafka_log_only_if_a_setting_says_so(
    unreachable: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ask_each_client(kafka_alone())
    assert capfd.readouterr().err == ""
    monkeypatch.setenv("TIDEGATE_KAFKA_LOG_LEVEL", "3")
    ask_each_client(kafka_alone())
    logged = capfd.readouterr().err
    assert {"#consumer-", "#producer-"} <= set(re.findall(r"#\w+-", logged))
    assert logged.count("Connection refused") >= 4


@pytest.mark.long
def test_an_unanswered_question_ends_in_the_reason_and_the_setting(
    unreachable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for message in ask_each_client(kafka_alone()):
        assert "onnection refused" in message or "ECONNREFUSED" in message
        assert message.endswith("Check TIDEGATE_KAFKA_BOOTSTRAP_SERVERS; `tidegate doctor` shows what is wrong")
    monkeypatch.delenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS")
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    (tmp_path / "stack.json").touch()
    with pytest.raises(BrokerAway, match=r"tidegate stack status\. To start them: tidegate stack up$"):
        KafkaPartitions({"bootstrap.servers": unreachable, "log_level": "0"}, timeout=0.5).topics()
