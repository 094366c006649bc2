"""`tidegate doctor` against real systems: the cases of the specification, with fake servers in front of the broker."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from dagster import DagsterInstance

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.doctor.findings.finding import Finding, Severity
from platform_defs.doctor.findings.postgres import ledger
from platform_defs.doctor.kafka_examination import KafkaExamination
from platform_defs.doctor.vitals import look
from platform_defs.errors import BadInput
from platform_defs.settings.settings import PROJECT_ROOT
from tests.support.commands import HEAVY, tidegate
from tests.support.kafka.fake_servers import Encrypting, Misleading, Mute, broker, certificate, closed_port, sending_to
from tests.support.waiting import BOUND
from tests.support.world import World, renamed

HIDDEN = "hunter2"


@dataclass(frozen=True)
class Played:
    """The world's broker, and examinations of it."""

    world: World
    port: int

    @property
    def told(self) -> bytes:
        """The broker with its address, as in its Metadata response."""
        return broker(1, "127.0.0.1", self.port, "a")

    def errors(self, servers: str, options: Mapping[str, str] | None = None, seconds: float = 5.0) -> list[Finding]:
        """Return the errors about addresses."""
        given = {**(options or {}), "bootstrap.servers": servers}
        found = KafkaExamination("--bootstrap", given, (), None, seconds).findings()
        return [one for one in found if one.severity is Severity.ERROR and one.area == "kafka"]

    def sent_to(self, host: str, port: int, seconds: float = 5.0, number: int = 1) -> list[Finding]:
        """Return the errors if the broker advertises this address."""
        with Misleading(self.port, sending_to(self.told, broker(number, host, port))) as bootstrap:
            return self.errors(f"127.0.0.1:{bootstrap.port}", seconds=seconds)


@pytest.fixture
def played(world: World) -> Played:
    (server,) = world.endpoints.bootstrap_servers.split(",")
    return Played(world, int(server.rpartition(":")[2]))


def _names(found: Finding, address: str, *words: str) -> None:
    assert found.what.startswith(f"Broker 1 advertises {address}. ")
    assert found.subject == address
    assert [word for word in words if word not in f"{found.what} {found.do}"] == []


def test_a_name_that_is_not_known_here(played: Played) -> None:
    (found,) = played.sent_to("kafka.invalid", 9092)  # RFC 6761: no name service resolves it
    _names(found, "kafka.invalid:9092", "This machine cannot resolve that name", "advertised.listeners of broker 1")


def test_localhost_told_to_a_client_from_elsewhere(played: Played) -> None:
    with Misleading(played.port, sending_to(played.told, broker(1, "localhost", played.port))) as bootstrap:
        (found,) = played.errors(f"0.0.0.0:{bootstrap.port}")  # leads here as well, and is no loopback address
    assert found.what.startswith(f"Broker 1 advertises localhost:{played.port}, which every machine")
    assert "advertised.listeners of broker 1 must give" in found.do


def test_a_port_that_is_not_mapped(played: Played) -> None:
    port = closed_port()
    (found,) = played.sent_to("127.0.0.1", port)
    _names(found, f"127.0.0.1:{port}", "Connection refused", "its port is not mapped", "`listeners` of broker 1")


def test_a_broker_that_is_silent_costs_its_time_once(played: Played) -> None:
    with Mute() as mute:
        begun = time.monotonic()
        (found,) = played.sent_to("127.0.0.1", mute.port, seconds=0.5)
        assert time.monotonic() - begun >= 0.5
    _names(found, f"127.0.0.1:{mute.port}", "does not respond", "`listeners` of broker 1")


def test_tls_where_the_client_speaks_plainly(played: Played, tmp_path: Path) -> None:
    with Encrypting(played.port, certificate(tmp_path, "127.0.0.1")) as encrypting:
        (found,) = played.sent_to("127.0.0.1", encrypting.port)
    address = f"127.0.0.1:{encrypting.port}"
    _names(
        found,
        address,
        "The listener requires TLS",
        "TIDEGATE_KAFKA_SECURITY_PROTOCOL to SSL",
        "protocol.map of broker 1",
    )


def test_a_plain_port_where_the_client_speaks_tls(played: Played, tmp_path: Path) -> None:
    file = certificate(tmp_path, "127.0.0.1")
    with Encrypting(played.port, file) as bootstrap:
        options = {"security.protocol": "SSL", "ssl.ca.location": str(file)}
        (found,) = played.errors(f"127.0.0.1:{bootstrap.port}", options)
    _names(found, f"127.0.0.1:{played.port}", "The listener does not use TLS", "protocol.map of broker 1")
    assert f"You connected through 127.0.0.1:{bootstrap.port}, which is the listener" in found.what


def test_a_certificate_for_another_name(played: Played, tmp_path: Path) -> None:
    file = certificate(tmp_path, "kafka-1.example.com")
    options = {"security.protocol": "SSL", "ssl.ca.location": str(file)}
    with Encrypting(played.port, file) as encrypting:
        (found,) = played.errors(f"127.0.0.1:{encrypting.port}", options)
        unchecked = {**options, "ssl.endpoint.identification.algorithm": "none"}
        (after,) = played.errors(f"127.0.0.1:{encrypting.port}", unchecked)
    assert f"--bootstrap contains 127.0.0.1:{encrypting.port}." in found.what
    assert "is trusted, but it is issued for kafka-1.example.com, not for 127.0.0.1" in found.what
    assert "ssl.keystore.location" in found.do
    assert "The listener does not use TLS" in after.what  # it arrived, and was redirected


def test_a_certificate_of_an_authority_that_is_not_known(played: Played, tmp_path: Path) -> None:
    with Encrypting(played.port, certificate(tmp_path, "127.0.0.1")) as encrypting:
        (found,) = played.errors(f"127.0.0.1:{encrypting.port}", {"security.protocol": "SSL"})
    assert "The certificate there is not trusted" in found.what


def test_two_brokers_with_one_address(played: Played) -> None:
    second = broker(2, "127.0.0.1", played.port)
    with Misleading(played.port, sending_to(played.told, played.told, second)) as bootstrap:
        found = played.errors(f"127.0.0.1:{bootstrap.port}")
    address = f"127.0.0.1:{played.port}"
    assert any(one.what.startswith(f"Brokers 1 and 2 advertise the same address, {address}") for one in found)
    assert all(f"advertised.listeners of {who}" in one.do for one, who in zip(found, ("broker 2", "each"), strict=True))


def test_an_address_that_leads_to_another_broker(played: Played) -> None:
    """The route to broker 2 ends at broker 1, as a copied port mapping does."""
    tells = list[bytes]()
    with Misleading(played.port, lambda answer: sending_to(played.told, *tells)(answer)) as bootstrap:
        tells += [played.told, broker(2, "127.0.0.1", bootstrap.port)]
        (found,) = played.errors(f"127.0.0.1:{bootstrap.port}")
    assert found.what.startswith(f"Broker 2 advertises 127.0.0.1:{bootstrap.port}, but broker 1 answers there")
    assert "advertised.listeners of broker 2" in found.do


def test_an_address_that_leads_to_another_cluster(played: Played) -> None:
    admin = played.world.admin()
    cluster_id = admin.describe_cluster().result(BOUND).cluster_id
    with Misleading(played.port, lambda answer: answer.replace(cluster_id.encode(), b"x" * 22)) as other:
        (found,) = played.sent_to("127.0.0.1", other.port)
    assert f"Broker 1 of cluster {cluster_id} advertises 127.0.0.1:{other.port}," in found.what
    assert f"but a broker of a different cluster, {'x' * 22}, answers there" in found.what
    assert "advertised.listeners of broker 1" in found.do


def test_what_answers_is_another_program(played: Played) -> None:
    port = int(played.world.endpoints.postgres_url.rpartition(":")[2].partition("/")[0])
    (found,) = played.sent_to("127.0.0.1", port)
    _names(found, f"127.0.0.1:{port}", "is not Kafka", "advertised.listeners of broker 1")


def test_a_login_where_the_listener_has_none(played: Played) -> None:
    (found,) = played.errors(f"127.0.0.1:{played.port}", {"security.protocol": "SASL_PLAINTEXT"})
    assert "That listener does not use a login" in found.what


def _examined(world: World, *pipelines: Pipeline, write: str | None = None) -> list[Finding]:
    contracts = [pipeline.contract for pipeline in pipelines]
    return KafkaExamination("--bootstrap", world.endpoints.kafka_options(), contracts, write, 5.0).findings()


def _of(found: list[Finding], area: str) -> list[tuple[Severity, str]]:
    return [(one.severity, one.what) for one in found if one.area == area]


def test_a_topic_that_is_missing_and_one_with_too_few_replicas(world: World) -> None:
    narrow = world.new_pipeline(config={"min.insync.replicas": "2"})
    missing = replace(narrow, contract=renamed(narrow.contract, "never_made"))
    (first, second) = _of(_examined(world, narrow, missing), "topics")
    assert {first[0], second[0]} == {Severity.WARNING}
    assert "min.insync.replicas is 2, and 4 partitions of 4 (the first: 0) have 1 replica" in first[1]
    assert second[1] == "There is no topic never_made, the topic of pipeline never_made, that this user can see."


@pytest.mark.slow
def test_reading_and_writing_are_tried_and_nothing_is_written_into_a_pipelines_topic(world: World) -> None:
    pipeline, spare = world.new_pipeline(), f"spare-{uuid4().hex[:8]}"
    world.create_topic(spare, config={"message.timestamp.type": "LogAppendTime"})
    found = _examined(world, pipeline, write=spare)
    messages = [what for severity, what in _of(found, "kafka") if severity is Severity.OK]
    assert "Reading works, from 1 partition on brokers 1." in messages
    assert any("was written and read back" in what for what in messages)
    agree = f"This machine's clock and that of the broker that leads {spare} agree within two seconds."
    assert _of(found, "clock") == [(Severity.OK, agree)]
    assert sum(view.end for view in world.ends(pipeline).values()) == 0
    with pytest.raises(BadInput, match="is the topic of the pipeline"):
        _examined(world, pipeline, write=pipeline.contract.topic)


def test_a_topic_to_write_to_that_is_not_there_is_not_created(world: World) -> None:
    found = _examined(world, write="no-such-topic")
    assert any("could not be written to no-such-topic: missing" in one.what for one in found)
    assert "no-such-topic" not in world.admin().list_topics(timeout=20).topics


def test_a_healthy_stack_is_examined_and_no_password_is_shown(world: World) -> None:
    answer = tidegate("doctor", "-o", "json")
    assert answer.code == 0, answer.document
    assert answer.document["counts"]["error"] == 0
    areas = {one["area"] for one in answer.document["findings"]}
    assert areas >= {"kafka", "topics", "postgres", "ledger", "dagster", "spark", "java", "disk", "clock"}
    assert (urlsplit(world.endpoints.postgres_url).password or "none") not in answer.stdout + answer.stderr
    assert answer.packages.isdisjoint(HEAVY - {"requests"})


def test_servers_that_are_away_are_errors_and_their_passwords_are_not_shown() -> None:
    kafka, database = f"127.0.0.1:{closed_port()}", f"127.0.0.1:{closed_port()}"
    answer = tidegate(
        "doctor",
        TIDEGATE_KAFKA_BOOTSTRAP_SERVERS=kafka,
        TIDEGATE_KAFKA_SASL_PASSWORD=HIDDEN,
        TIDEGATE_POSTGRES_URL=f"postgresql://tidegate:{HIDDEN}@{database}/tidegate",
        TIDEGATE_SPARK_MASTER=f"spark://127.0.0.1:{closed_port()}",
    )
    assert answer.code == 1
    assert f"TIDEGATE_KAFKA_BOOTSTRAP_SERVERS contains {kafka}. Nothing listens on that port" in answer.stdout
    assert "Postgres cannot be used" in answer.stdout
    assert "which cannot be reached (Connection refused)" in answer.stdout
    assert HIDDEN not in answer.stdout + answer.stderr


def test_a_stack_that_is_not_running_is_an_error_with_the_command_that_starts_it(tmp_path: Path) -> None:
    answer = tidegate("doctor", "-o", "json", TIDEGATE_HOME=str(tmp_path))
    errors = [one for one in answer.document["findings"] if one["severity"] == "error"]
    assert answer.code == 1
    assert [one["area"] for one in errors] == ["kafka", "postgres"]
    assert all(one["do"].startswith("Start it (tidegate stack up)") for one in errors)


def test_a_bootstrap_address_that_is_none_is_bad_input() -> None:
    answer = tidegate("doctor", "--bootstrap", "kafka:port")
    assert answer.code == 1
    assert answer.stderr.startswith("(--bootstrap): kafka:port is not an address like kafka-1.example.com:9092")


def test_a_role_is_told_which_rights_it_lacks_on_the_ledger(world: World) -> None:
    world.ledger.migrate()
    with DagsterInstance.from_config(str(PROJECT_ROOT)):  # its schema is there, and closed to the role as well
        role = f"clerk_{uuid4().hex[:8]}"
    world.rows(f"create role {role} login password 'secret'")
    given = urlsplit(world.endpoints.postgres_url)
    url = given._replace(netloc=f"{role}:secret@{given.netloc.rpartition('@')[2]}").geturl()

    def said() -> tuple[Severity, str]:
        seen = look(url)
        found = list(ledger(seen.ledger, seen.vitals))[-1]
        return found.severity, found.what

    try:
        assert said() == (Severity.ERROR, f"The role {role} may not read the ledger.")
        world.rows(f"grant usage on schema tidegate to {role}; grant select on tidegate.migration to {role}")
        assert said()[0] is Severity.ERROR
        assert "may not read the tables" in said()[1]
        world.rows(f"grant select on all tables in schema tidegate to {role}")
        assert said()[0] is Severity.WARNING
        world.rows(f"grant insert on all tables in schema tidegate to {role}")
        world.rows(f"grant usage, create on schema tidegate_staging to {role}")
        assert said() == (Severity.OK, f"The role {role} may read and write the ledger.")
    finally:
        world.rows(f"drop owned by {role}; drop role {role}")
