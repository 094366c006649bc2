"""The doctor's sentences about addresses: each case names the broker, the address and the setting."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.doctor.findings import cluster
from platform_defs.doctor.findings.addresses import (
    UNTRIED,
    Address,
    Answer,
    Broker,
    Kind,
    Seen,
    Trouble,
    parsed,
)
from platform_defs.doctor.findings.cluster import Looks
from platform_defs.doctor.findings.finding import Severity
from platform_defs.doctor.findings.reach import CASES, Advertised, Case, explain

CAME_IN, ADVERTISED = Address("10.0.0.5", 9092), Address("kafka", 9092)
SETTINGS = {
    "listeners": "EXTERNAL://0.0.0.0:9092,INTERNAL://0.0.0.0:9093",
    "advertised.listeners": "EXTERNAL://10.0.0.5:9092,INTERNAL://broker-1:9093",
    "listener.security.protocol.map": "EXTERNAL:SASL_SSL,INTERNAL:PLAINTEXT",
}
ONE, TWO = Broker(1, CAME_IN), Broker(2, ADVERTISED)
ANSWER = Answer("cluster-a", (ONE, TWO), 1, SETTINGS)
BY_BROKER = Advertised(2, CAME_IN, ANSWER)
SAYS: dict[str, str] = {  # words that the sentence must contain, by case
    "unknown_name": "This machine cannot resolve that name",
    "refused": "its port is not mapped",
    "unreachable": "There is no network route to it from here",
    "no_connection": "a firewall drops the packets",
    "silent": "accepts connections there but does not respond",
    "speaks_tls": "The listener requires TLS, but this client does not use it",
    "speaks_plainly": "The listener does not use TLS, but this client does",
    "certificate_name": "issued for kafka-2.example.com, not for kafka",
    "certificate": "The certificate there is not trusted",
    "tls": "TLS fails there",
    "not_kafka": "The service that answers there is not Kafka",
    "closed": "The connection was closed",
    "wants_login": "That listener requires a login (SASL; mechanisms: kafka-2.example.com)",
    "no_login_there": "That listener does not use a login",
    "mechanism": "does not accept this client's SASL mechanism",
    "login_refused": "The login was rejected there",
    "login_untried": "the doctor itself cannot log in with said by the system",
    "tls_untried": "the doctor itself cannot use said by the system, which librdkafka reads",
    "kafka_error": "Kafka rejects the request there",
}
NAMES_A_SETTING = (
    "advertised.listeners",
    "listener.security.protocol.map",
    "sasl.enabled.mechanisms",
    "ssl.keystore.location",
    "ssl.client.auth",
    "TIDEGATE_KAFKA_SASL_USERNAME",
    "`listeners`",
)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_useless_address_is_explained_with_broker_address_and_setting(kind: Kind) -> None:
    trouble = Trouble(kind, "said by the system", ("kafka-2.example.com",))
    found = explain(Case(ADVERTISED, trouble, "PLAINTEXT", "--bootstrap", BY_BROKER))
    assert found.what.startswith("Broker 2 advertises kafka:9092. ")
    assert SAYS[kind] in found.what
    assert found.what.endswith(
        "You connected through 10.0.0.5:9092, which is the listener EXTERNAL in the configuration of broker 1."
    )
    assert kind in {"kafka_error", *UNTRIED} or any(name in found.do for name in NAMES_A_SETTING)
    assert found.subject == "kafka:9092"


@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_useless_bootstrap_address_is_explained_with_the_setting_that_names_it(kind: Kind) -> None:
    found = explain(Case(ADVERTISED, Trouble(kind, ""), "SASL_SSL", "TIDEGATE_KAFKA_BOOTSTRAP_SERVERS"))
    assert found.what.startswith("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS contains kafka:9092. ")
    assert "You connected through" not in found.what
    assert found.severity is (Severity.WARNING if kind in UNTRIED else Severity.ERROR)


def test_there_is_a_function_for_every_case_and_no_other() -> None:
    assert CASES.keys() == SAYS.keys() == set(get_args(Kind))


def test_the_sentence_of_the_specification() -> None:
    found = explain(Case(ADVERTISED, Trouble("unknown_name", ""), "PLAINTEXT", "--bootstrap", BY_BROKER))
    assert found.what == (
        "Broker 2 advertises kafka:9092. This machine cannot resolve that name. You connected through 10.0.0.5:9092, "
        "which is the listener EXTERNAL in the configuration of broker 1."
    )
    assert found.do == (
        "advertised.listeners of broker 2 must give its listener EXTERNAL an address that this machine can resolve and "
        "reach; or add kafka to this machine's DNS or hosts file."
    )


def _looks(*bootstrap: Seen, **at: Seen) -> Looks:
    everything = [*bootstrap, *at.values()]
    return Looks("--bootstrap", "PLAINTEXT", bootstrap, {seen.address: seen for seen in everything})


def _errors(looks: Looks) -> list[str]:
    return [one.what for one in cluster.findings(looks) if one.severity is Severity.ERROR]


def test_a_healthy_cluster_has_no_error_and_no_warning() -> None:
    looks = _looks(Seen(CAME_IN, ANSWER), Seen(ADVERTISED, Answer("cluster-a", (ONE, TWO), 2)))
    assert {one.severity for one in cluster.findings(looks)} == {Severity.OK}
    assert cluster.reached(looks) == {1: CAME_IN, 2: ADVERTISED}


def test_an_address_that_leads_to_another_broker_is_an_error() -> None:
    looks = _looks(Seen(CAME_IN, ANSWER), other=Seen(ADVERTISED, ANSWER))
    (message,) = _errors(looks)
    assert message.startswith("Broker 2 advertises kafka:9092, but broker 1 answers there")
    assert cluster.reached(looks) == {1: CAME_IN}


def test_an_address_that_leads_to_another_cluster_is_an_error() -> None:
    looks = _looks(Seen(CAME_IN, ANSWER), other=Seen(ADVERTISED, Answer("cluster-b", (ONE, TWO), 2)))
    (message,) = _errors(looks)
    assert "but a broker of a different cluster, cluster-b, answers there" in message


def test_bootstrap_addresses_of_two_clusters_are_an_error() -> None:
    elsewhere = Address("10.0.0.6", 9092)
    other = Answer("cluster-b", (Broker(1, elsewhere),), 1)
    message = _errors(_looks(Seen(CAME_IN, Answer("cluster-a", (ONE,), 1)), Seen(elsewhere, other)))
    assert message == [
        "The bootstrap addresses lead to different clusters: 10.0.0.5:9092 to cluster-a; 10.0.0.6:9092 to cluster-b. "
        "Which one a client connects to is random."
    ]


def test_an_address_of_both_kinds_is_explained_once_with_the_brokers_number() -> None:
    hangs = Seen(ADVERTISED, Trouble("silent", ""))
    (message,) = _errors(_looks(Seen(CAME_IN, ANSWER), hangs))
    assert message.startswith("Broker 2 advertises kafka:9092. Something accepts connections there")


def test_of_two_clusters_only_the_brokers_of_the_first_are_asked_more() -> None:
    elsewhere = Address("10.0.0.6", 9092)
    first, other = Answer("cluster-a", (ONE,), 1), Answer("cluster-b", (Broker(1, elsewhere),), 1)
    assert cluster.reached(_looks(Seen(CAME_IN, first), Seen(elsewhere, other))) == {1: CAME_IN}


def test_what_only_librdkafka_can_do_is_left_to_it() -> None:
    untried, refused = Trouble("login_untried", "GSSAPI"), Trouble("refused", "")
    assert cluster.is_untried(_looks(Seen(CAME_IN, untried), Seen(ADVERTISED, refused)))
    assert not cluster.is_untried(_looks(Seen(ADVERTISED, refused)))
    assert not cluster.is_untried(_looks(Seen(CAME_IN, ANSWER), Seen(ADVERTISED, untried)))


def test_two_brokers_with_one_address_are_an_error_that_names_both() -> None:
    both = Answer("cluster-a", (ONE, Broker(2, CAME_IN), Broker(3, CAME_IN)), 1, SETTINGS)
    messages = _errors(_looks(Seen(CAME_IN, both)))
    assert any(one.startswith("Brokers 1, 2 and 3 advertise the same address, 10.0.0.5:9092") for one in messages)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "LOCALHOST."])
def test_localhost_is_an_error_for_who_came_from_elsewhere_even_where_something_answers(host: str) -> None:
    here = Address(host, 9092)
    answer = Answer("cluster-a", (Broker(1, here),), 1)
    (message,) = _errors(_looks(Seen(CAME_IN, answer), here=Seen(here, answer)))
    assert "which every machine resolves to itself" in message
    assert _errors(_looks(Seen(here, answer))) == []


def test_one_bootstrap_address_is_a_warning_only_where_there_are_several_brokers() -> None:
    reached = Seen(ADVERTISED, Answer("cluster-a", (ONE, TWO), 2))
    (found,) = [one for one in cluster.findings(_looks(Seen(CAME_IN, ANSWER), two=reached)) if one.do]
    assert found.severity is Severity.WARNING
    assert found.do == "Add a second address, such as kafka:9092."
    alone = Answer("cluster-a", (ONE,), 1)
    assert all(one.severity is Severity.OK for one in cluster.findings(_looks(Seen(CAME_IN, alone))))
    several_ips = Seen(CAME_IN, ANSWER, ips=3)
    assert all(one.severity is Severity.OK for one in cluster.findings(_looks(several_ips, two=reached)))


def test_who_answers_is_a_warning_where_the_brokers_do_not_show_their_settings() -> None:
    found = cluster.findings(_looks(Seen(CAME_IN, Answer("cluster-a", (ONE,)))))
    assert [one.severity for one in found] == [Severity.OK, Severity.WARNING]
    assert "grant the user DescribeConfigs" in found[1].do


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("kafka:9092", Address("kafka", 9092)),
        (" SASL_SSL://kafka.example.com:9094 ", Address("kafka.example.com", 9094)),
        ("[::1]:9092", Address("::1", 9092)),
        ("kafka", Address("kafka", 9092)),
        ("[::1]", Address("::1", 9092)),
        ("kafka:0", None),
        ("kafka:99999", None),
        ("kafka:port", None),
        ("kafka:²", None),
    ],
)
def test_addresses_are_read_as_librdkafka_reads_them(text: str, address: Address | None) -> None:
    assert parsed(text, 9092) == address


@given(st.sampled_from(["kafka", "10.0.0.5", "::1", "a.b-c.example"]), st.integers(1, 65_535))
def test_what_an_address_is_shown_as_is_read_as_the_same(host: str, port: int) -> None:
    assert parsed(str(Address(host, port))) == Address(host, port)


def test_a_listener_is_known_by_its_address_unless_two_advertise_the_same() -> None:
    assert ANSWER.listener == "EXTERNAL"
    twice = {"advertised.listeners": "A://10.0.0.5:9092,B://10.0.0.5:9092"}
    assert Answer("c", (ONE,), 1, twice).listener is None
    partly = Answer("c", (ONE,), 1, {"listeners": "A://:9092,nonsense,B://kafka:1"})
    assert partly.advertised == {"A": Address("", 9092), "B": Address("kafka", 1)}
