"""kafka-python beside librdkafka: the same options, or none; one module; and no endless wait."""

import gc
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from platform_defs.errors import BadInput, BrokerAway
from platform_defs.kafka.client.second_client import second_options
from platform_defs.kafka.cluster_admin import KafkaCluster, PlainTransport
from platform_defs.settings.settings import PROJECT_ROOT
from tests.support.waiting import within

pytestmark = pytest.mark.long


SECURED = {
    "bootstrap.servers": "one:9093,two:9093",
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "me",
    "sasl.password": "hush",
    "ssl.endpoint.identification.algorithm": "none",
    "enable.ssl.certificate.verification": "true",
    "fetch.min.bytes": "1",
    "log_level": "3",
}


@pytest.fixture
def silent() -> Iterator[str]:
    """Yield the address of a server that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_librdkafkas_options_are_translated(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    assert second_options({**SECURED, "ssl.ca.location": str(tmp_path / "ca.pem")}) == {
        "bootstrap_servers": "one:9093,two:9093",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "me",
        "sasl_plain_password": "hush",
        "ssl_check_hostname": False,
        "ssl_cafile": str(tmp_path / "ca.pem"),
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.oauthbearer.client.id", "me"),
        ("ssl.keystore.location", "/me.p12"),
        ("ssl.ca.pem", "-----BEGIN"),
        ("enable.ssl.certificate.verification", "false"),
        ("security.protocoll", "SSL"),
        ("broker.address.family", "v4"),
    ],
)
def test_an_option_that_it_does_not_have_is_refused_and_not_left_out(name: str, value: str) -> None:
    with pytest.raises(
        BadInput, match=rf"the option {name} \(TIDEGATE_KAFKA_.*kafka-python, which does not support it"
    ):
        second_options({**SECURED, name: value})


def test_a_value_that_it_does_not_know_is_refused_with_those_that_it_knows() -> None:
    with pytest.raises(BadInput, match=r"TIDEGATE_KAFKA_SASL_MECHANISM\) is GSSAPI. Possible here: PLAIN, SCRAM-"):
        second_options({"sasl.mechanism": "GSSAPI"})


def test_a_certificate_that_is_not_there_is_named() -> None:
    with pytest.raises(BadInput, match=r"TIDEGATE_KAFKA_SSL_CA_LOCATION\) is /no/such.pem, which is not a file"):
        second_options({"ssl.ca.location": "/no/such.pem"})


def test_a_password_is_in_no_error() -> None:
    with pytest.raises(BadInput) as refused:
        second_options({**SECURED, "sasl.oauthbearer.config": "secret=hush"})
    assert "hush" not in str(refused.value)


def test_one_module_imports_kafka_python() -> None:
    importing = re.compile(r"^\s*(?:from kafka[ .]|import kafka\b)", re.MULTILINE)
    folders = ("tidegate", "platform_defs", "resources", "assets", "tests", "bench")
    sources = [path for folder in folders for path in (PROJECT_ROOT / folder).rglob("*.py")]
    found = [path for path in sources if importing.search(path.read_text())]
    assert sorted(str(path.relative_to(PROJECT_ROOT)) for path in found) == [
        "platform_defs/kafka/cluster_admin.py",
        "tests/integration/formats/test_message_metadata.py",  # to send a header that librdkafka's producer cannot
        "tests/integration/stack/test_stack_of_three.py",  # to commit offsets of a group without a name
    ]


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_broker_that_says_nothing_is_away_after_the_time_limit_and_nothing_stays_open(
    silent: str, protocol: str
) -> None:
    before = set(threading.enumerate())
    with (
        within(1),
        pytest.raises(
            BrokerAway, match=rf"Kafka at {silent} did not answer the request to describe the quorum within 0.6 s"
        ),
    ):
        KafkaCluster({"bootstrap.servers": silent, "security.protocol": protocol}, timeout=0.6).quorum()
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    assert set(threading.enumerate()) <= before
    gc.collect()  # kafka-python leaves a socket amid its TLS handshake to the collector
    assert [one for one in psutil.Process().net_connections("tcp") if _leads_to(silent, one.raddr)] == []


def test_what_a_broker_says_before_it_closes_is_heard_though_both_are_read_at_once() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        ours.setblocking(False)
        theirs.sendall(b"refused")
        theirs.close()
        transport: Any = PlainTransport(None, ours)
        assert transport._sock_recv() == (b"refused", None)
        message, end = transport._sock_recv()
        assert (message, str(end)) == (b"", "KafkaConnectionError: socket disconnected")


def _leads_to(address: str, remote: Any) -> bool:
    return bool(remote) and f"{remote.ip}:{remote.port}" == address


def test_where_nobody_listens_the_error_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = f"127.0.0.1:{gone.getsockname()[1]}"
    with pytest.raises(BrokerAway, match=r"within 0\.3 s: KafkaConnectionError: 111 ECONNREFUSED"):
        KafkaCluster({"bootstrap.servers": address}, timeout=0.3).brokers()
