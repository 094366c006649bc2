"""`tidegate doctor` and a broker with authentication: an unresolvable address, logins, missing rights.

The broker is a separate one, since the world's has neither logins nor an authorizer.
"""

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from platform_defs.doctor.findings.finding import Finding, Severity
from platform_defs.doctor.kafka_examination import KafkaExamination
from platform_defs.stack import jars, java, processes
from platform_defs.stack import kafka_servers as kafka
from platform_defs.stack.kafka_node import Node, Program, new_cluster
from platform_defs.stack.state import Server
from tests.support.waiting import BOUND
from tests.support.world import SHIPPED, renamed

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("the doctor's broker")]
GUARDED = """
listeners=EXTERNAL://127.0.0.1:{port},WRONG://127.0.0.1:{wrong},LOGIN://127.0.0.1:{login},\
INTERNAL://127.0.0.1:{internal},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=EXTERNAL://127.0.0.1:{port},WRONG://kafka.invalid:9092,LOGIN://127.0.0.1:{login},\
INTERNAL://127.0.0.1:{internal},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=EXTERNAL:PLAINTEXT,WRONG:PLAINTEXT,LOGIN:SASL_PLAINTEXT,\
INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:admin
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.login.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_admin="admin's" user_poor="poor's";
listener.name.login.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
"""


class Guarded:
    """The broker: its ports by listener, and examinations of it."""

    def __init__(self, home: Path) -> None:
        ports = [processes.kept_or_free_port(None, lambda _: None) for _ in range(5)]
        names: tuple[str, ...] = ("port", "controller", "internal", "wrong", "login")
        self.ports: dict[str, int] = dict(zip(names, ports, strict=True))
        node = Node(home, 1, (Server(ports[0], ports[1], ports[2]),))
        program = Program(java.find_java(), jars.broker_classpath(lambda _: None))
        node.write_properties()
        with node.properties.open("a") as properties:
            properties.write(GUARDED.format(**self.ports))
        formatting = processes.start(node.format(program, new_cluster(node.servers)), node.console, cwd=node.folder)
        assert formatting.wait(60) == 0, node.console.read_text()
        self.process = processes.start(node.run(program), node.console, cwd=node.folder)
        while not kafka.answers(ports[0]):
            assert processes.is_running(self.process), node.console.read_text()
        self.admin: Any = AdminClient({"bootstrap.servers": f"127.0.0.1:{ports[0]}", "log_level": 0})

    def found(self, listener: str, contracts: Any = (), **options: str) -> list[Finding]:
        """Return the findings of a client that connects by this listener."""
        given = {name.replace("_", "."): value for name, value in options.items()}
        given["bootstrap.servers"] = f"127.0.0.1:{self.ports[listener]}"
        return KafkaExamination("--bootstrap", given, contracts, None, 5.0).findings()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    broker = Guarded(tmp_path_factory.mktemp("guarded"))
    yield broker
    processes.end([broker.process], signal.SIGKILL, within=10.0)


def _errors(found: list[Finding]) -> list[Finding]:
    return [one for one in found if one.severity is Severity.ERROR]


def _login(user: str, password: str, mechanism: str = "PLAIN") -> Mapping[str, str]:
    named = {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": password}
    return {"security_protocol": "SASL_PLAINTEXT", **named}


@pytest.mark.longest
def test_a_name_that_is_unknown_here_is_explained_with_the_listener_by_which_one_came(guarded: Guarded) -> None:
    found, untried = _errors(guarded.found("wrong"))
    assert found.what.startswith("Broker 1 advertises kafka.invalid:9092. This machine cannot resolve that name")
    came_in = (
        f"You connected through 127.0.0.1:{guarded.ports['wrong']}, which is the listener WRONG in the configuration"
    )
    assert found.what.endswith(f"{came_in} of broker 1.")
    assert found.do.startswith("advertised.listeners of broker 1 must give its listener WRONG an address")
    assert untried.what.startswith("Topics, reading and writing were not checked")


def test_a_login_that_is_wanted_is_named_with_its_mechanisms(guarded: Guarded) -> None:
    (found,) = [one for one in _errors(guarded.found("login")) if one.area == "kafka"]
    assert "That listener requires a login (SASL; mechanisms: PLAIN, SCRAM-SHA-256)" in found.what
    assert "TIDEGATE_KAFKA_SECURITY_PROTOCOL to SASL_PLAINTEXT" in found.do


def test_who_logs_in_as_may_is_told_that_all_is_well(guarded: Guarded) -> None:
    found = guarded.found("login", **_login("admin", "admin's"))
    assert _errors(found) == []
    assert any("leads to broker 1 (listener LOGIN)" in one.what for one in found)


def test_a_login_by_scram_works_and_a_wrong_password_is_refused_by_either_mechanism(guarded: Guarded) -> None:
    credentials = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsert = UserScramCredentialUpsertion("admin", credentials, b"another one", os.urandom(16))
    guarded.admin.alter_user_scram_credentials([upsert])["admin"].result(BOUND)
    assert _errors(guarded.found("login", **_login("admin", "another one", "SCRAM-SHA-256"))) == []
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        found, _ = _errors(guarded.found("login", **_login("admin", "hunter2", mechanism)))
        assert "The login was rejected there" in found.what
        assert "hunter2" not in f"{found.what} {found.do}"


def test_a_mechanism_that_the_listener_does_not_have_is_answered_with_those_that_it_has(guarded: Guarded) -> None:
    found, _ = _errors(guarded.found("login", **_login("admin", "admin's", "SCRAM-SHA-512")))
    assert "it offers PLAIN, SCRAM-SHA-256" in found.what
    assert "sasl.enabled.mechanisms of the broker behind it" in found.do


def test_rights_that_a_user_lacks_are_named(guarded: Guarded) -> None:
    from platform_defs.settings.contracts import find_contract

    contract = renamed(find_contract(SHIPPED["append"]), "guarded")
    guarded.admin.create_topics([NewTopic(contract.topic, 1, 1)])[contract.topic].result(BOUND)
    hidden = guarded.found("login", [contract], **_login("poor", "poor's"))
    assert any("which broker answers" in one.do and "DescribeConfigs" in one.do for one in hidden)
    (unseen,) = [one for one in hidden if one.area == "topics"]
    assert unseen.severity is not Severity.OK
    assert "guarded" in unseen.what
    assert "Describe" in unseen.do
    allowed = AclBinding(
        ResourceType.TOPIC,
        contract.topic,
        ResourcePatternType.LITERAL,
        "User:poor",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )
    (granted,) = guarded.admin.create_acls([allowed]).values()
    granted.result(BOUND)
    (seen,) = [one for one in guarded.found("login", [contract], **_login("poor", "poor's")) if one.area == "topics"]
    assert "this user lacks the rights Read and DescribeConfigs" in seen.what
