"""The addresses that Tidegate connects to: variables first, directly or from files, then the embedded stack."""

import traceback
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from platform_defs.errors import BadInput
from platform_defs.producer_options.options import OPTIONS
from platform_defs.settings.settings import PROJECT_ROOT, SETTINGS, settings, unknown_variables
from platform_defs.settings.tls import address_of
from platform_defs.settings.variables import KAFKA_OPTIONS
from platform_defs.spark.resource import SparkResource
from platform_defs.stack.endpoints import Endpoints, connection
from tests.support.kafka.librdkafka import Configuration

pytestmark = pytest.mark.usefixtures("no_variables")


def test_without_variables_everything_is_embedded_under_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_HOME")
    read = settings()
    assert read.home == PROJECT_ROOT / ".tidegate"
    assert read.embeds_kafka
    assert read.embeds_postgres
    assert read.spark_master is None


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", "")
    monkeypatch.setenv("TIDEGATE_KAFKA_SECURITY_PROTOCOL", "")
    assert settings().embeds_postgres
    assert settings().librdkafka_options == {}


def test_one_given_endpoint_leaves_the_other_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", "postgresql://me@db/shop")
    assert not settings().embeds_postgres
    assert settings().embeds_kafka


def test_kafka_variables_become_librdkafka_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", "broker:9092")
    monkeypatch.setenv("TIDEGATE_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("TIDEGATE_KAFKA_SASL_PASSWORD", "secret_1")
    assert settings().librdkafka_options == {"security.protocol": "SASL_SSL", "sasl.password": "secret_1"}


@pytest.mark.parametrize("given", ["postgres://me@db/shop", "postgresql+psycopg2://me@db/shop"])
def test_every_spelling_of_the_uri_becomes_the_one_all_drivers_accept(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", given)
    assert settings().postgres_url == "postgresql://me@db/shop"


def test_an_unusable_uri_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", "db.example.com:5432")
    with pytest.raises(BadInput, match=r"TIDEGATE_POSTGRES_URL.*postgresql://user:password@host"):
        settings()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("postgresql://me:p%zz@db/shop", r"TIDEGATE_DAGSTER_URL.*percent-encode each"),
        ("postgresql://me@db/shop?sslmod=require", "invalid URI query parameter"),
        ("postgresql://me@db/shop?sslrootcert=system", "SSL_CERT_FILE"),
    ],
)
def test_a_uri_that_no_client_could_go_by_is_refused_without_its_password(
    given: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.setenv("TIDEGATE_DAGSTER_URL", given)
    with pytest.raises(BadInput, match=words) as refused:
        settings()
    assert "p%zz" not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(
    ("given", "warned"),
    [
        ("postgresql://me@db.example.com/shop", True),
        ("postgresql://me@localhost:1,10.0.0.7:2/shop?sslmode=allow", True),
        ("postgresql://me@db.example.com/shop?sslmode=require", False),
        ("postgresql://me@db.example.com/shop?gssencmode=require", False),
        ("postgresql://me@db.example.com/shop?sslmode=disable", False),  # explicitly without encryption
        ("postgresql://me@127.0.0.1,[::1]/shop", False),
        ("postgresql:///shop?host=/run/postgresql", False),
    ],
)
def test_a_database_elsewhere_that_need_not_be_encrypted_is_a_warning_once(
    given: str, warned: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", f"{given}{'&' if '?' in given else '?'}application_name={warned}")
    for _ in range(2):
        settings()
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["TIDEGATE_POSTGRES_URL"] * warned
    assert ("sslmode=verify-full" in caplog.text) is warned


def test_a_variable_of_libpqs_counts_where_the_uri_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert address_of("postgresql://me@db/shop").unprotected
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    assert not address_of("postgresql://me@db/shop").unprotected


def test_spark_connect_is_refused_with_what_to_set_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_SPARK_REMOTE", "sc://spark:15002")
    with pytest.raises(BadInput, match=r"TIDEGATE_SPARK_REMOTE.*TIDEGATE_SPARK_MASTER"):
        settings()


def test_given_endpoints_are_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", "postgresql://me@db/shop")
    monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", "one:9092,two:9092")
    monkeypatch.setenv("TIDEGATE_KAFKA_SECURITY_PROTOCOL", "SSL")
    assert connection() == Endpoints("postgresql://me@db/shop", "one:9092,two:9092", {"security.protocol": "SSL"})
    assert connection().kafka_options() == {
        "bootstrap.servers": "one:9092,two:9092",
        "log_level": "0",
        "security.protocol": "SSL",
    }


def test_a_variable_that_is_no_setting_is_a_warning_with_the_one_that_was_meant(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URI", "postgresql://me@db/shop")
    monkeypatch.setenv("TIDEGATE_KAFKA_SSL_CA_LOCATION", "/ca.pem")
    monkeypatch.setenv("TIDEGATE_CRASH_POINT", "")
    assert unknown_variables() == ["TIDEGATE_POSTGRES_URI"]
    settings()
    settings()
    message = [record.getMessage() for record in caplog.records if "TIDEGATE_POSTGRES_URI" in record.getMessage()]
    assert message == [
        "TIDEGATE_POSTGRES_URI is not a setting of Tidegate and is ignored; did you mean TIDEGATE_POSTGRES_URL?"
    ]


def test_every_setting_has_a_description_and_an_example_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {setting.variable for setting in SETTINGS} == {
        "TIDEGATE_HOME",
        "TIDEGATE_CONTRACTS",
        "TIDEGATE_POSTGRES_URL",
        "TIDEGATE_DAGSTER_URL",
        "TIDEGATE_KAFKA_BOOTSTRAP_SERVERS",
        "TIDEGATE_REGISTRY_URL",
        "TIDEGATE_REGISTRY_NAME",
        "TIDEGATE_SPARK_MASTER",
        "TIDEGATE_SPARK_SECRET",
        "TIDEGATE_SPARK_UNENCRYPTED",
        "TIDEGATE_SPARK_REMOTE",
        "TIDEGATE_BATCH_TIMEOUT_SECONDS",
        "TIDEGATE_DAGSTER_RETENTION_DAYS",
        "TIDEGATE_KAFKA_*",
        "TIDEGATE_REGISTRY_*",
        "TIDEGATE_*_FILE",
    }
    for setting in SETTINGS:
        assert setting.description.endswith(".")
        if setting.example and "*" not in setting.variable:
            monkeypatch.setenv(setting.variable, setting.example)
    assert not settings().embeds_kafka
    assert not settings().embeds_postgres
    assert settings().home == Path("/var/lib/tidegate")


def test_options_of_the_registrys_client_are_read_without_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_REGISTRY_URL", "http://one, http://two")
    monkeypatch.setenv("TIDEGATE_REGISTRY_NAME", "bank")
    monkeypatch.setenv("TIDEGATE_REGISTRY_BASIC_AUTH_USER_INFO", "me:hush")
    assert settings().registry_options == {"basic.auth.user.info": "me:hush"}
    assert (settings().registry_url, settings().registry_name) == ("http://one, http://two", "bank")
    monkeypatch.setenv("TIDEGATE_REGISTRY_URL", "registry:8081")
    with pytest.raises(BadInput, match=r"TIDEGATE_REGISTRY_URL.*not an address like https"):
        settings()


def test_a_secret_may_be_in_a_file_and_is_read_each_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secrets = {
        "TIDEGATE_POSTGRES_URL": "postgres://me:hush@db/shop",
        "TIDEGATE_KAFKA_SASL_PASSWORD": "hush hush",
        "TIDEGATE_REGISTRY_BASIC_AUTH_USER_INFO": "me:hush",
    }
    for name, secret in secrets.items():
        (tmp_path / name).write_text(f"{secret}\n")
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / name))
    assert settings().postgres_url == "postgresql://me:hush@db/shop"
    assert settings().librdkafka_options == {"sasl.password": "hush hush"}
    assert settings().registry_options == {"basic.auth.user.info": "me:hush"}
    assert unknown_variables() == []
    (tmp_path / "TIDEGATE_KAFKA_SASL_PASSWORD").write_text("another\r\n")
    assert settings().librdkafka_options == {"sasl.password": "another"}


@pytest.mark.parametrize("name", ["TIDEGATE_POSTGRES_URL", "TIDEGATE_KAFKA_SASL_PASSWORD"])
def test_a_secret_in_a_file_that_cannot_be_used_is_said_without_what_is_in_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    def said() -> str:
        with pytest.raises(BadInput) as found:
            _ = settings().librdkafka_options
        return str(found.value)

    path = tmp_path / "secret"
    monkeypatch.setenv(f"{name}_FILE", str(path))
    assert said() == f"({name}_FILE): the file {path} cannot be read: No such file or directory"
    path.write_bytes(b"\n")
    assert said() == f"({name}_FILE): the file {path} is empty"
    path.write_bytes(b"hush\xff")
    assert said() == f"({name}_FILE): the file {path} is not UTF-8 text"
    path.write_text("hush")
    monkeypatch.setenv(name, "hush")
    assert said() == f"({name}_FILE): {name} is also set; unset one of the two"


def test_a_setting_of_a_file_that_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "url").write_text("mysql://me:hush@db/shop")
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL_FILE", str(tmp_path / "url"))
    with pytest.raises(BadInput, match=r"TIDEGATE_POSTGRES_URL\): not a connection URI") as found:
        settings()
    assert "hush" not in str(found.value)
    monkeypatch.setenv("TIDEGATE_POSTGRES_URI_FILE", str(tmp_path / "url"))
    assert unknown_variables() == ["TIDEGATE_POSTGRES_URI_FILE"]


def test_an_option_whose_own_name_ends_in_file_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_KAFKA_SASL_OAUTHBEARER_ASSERTION_FILE", "/run/token")
    assert settings().librdkafka_options == {"sasl.oauthbearer.assertion.file": "/run/token"}


@pytest.mark.parametrize(
    ("misspelled", "meant"),
    [
        ("TIDEGATE_KAFKA_BOOTSTRAP_SERVER", "TIDEGATE_KAFKA_BOOTSTRAP_SERVERS"),
        ("TIDEGATE_KAFKA_SASL_USER", "TIDEGATE_KAFKA_SASL_USERNAME"),
        ("TIDEGATE_KAKFA_SASL_PASSWORD", "TIDEGATE_KAFKA_SASL_PASSWORD"),
        ("TIDEGATE_KAFKA_SASL_PASWORD_FILE", "TIDEGATE_KAFKA_SASL_PASSWORD"),
        ("TIDEGATE_KAFKA_LOGLEVEL", "TIDEGATE_KAFKA_LOG_LEVEL"),
        ("TIDEGATE_REGISTRY_ULR", "TIDEGATE_REGISTRY_URL"),
        ("TIDEGATE_REGISTRY_BASIC_AUTH_USERINFO", "TIDEGATE_REGISTRY_BASIC_AUTH_USER_INFO"),
        ("TIDEGATE_SPARK_MASTERS", "TIDEGATE_SPARK_MASTER"),
    ],
)
def test_a_misspelled_variable_is_answered_with_the_one_that_was_meant(
    misspelled: str, meant: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(misspelled, "/nowhere")
    assert unknown_variables() == [misspelled]
    with suppress(BadInput):  # a _FILE that does not exist
        settings()
    assert f"{misspelled} is not a setting of Tidegate" in caplog.text
    assert f"did you mean {meant}?" in caplog.text


def test_the_options_that_are_known_are_those_of_the_installed_librdkafka() -> None:
    refusals = {name: Configuration().refusal(name, "1") for name in KAFKA_OPTIONS}
    assert {name for name, text in refusals.items() if text.startswith("No such")} == {"oauth.callback"}
    assert {name for option in OPTIONS.values() for name in (option.name, *option.aliases)} <= KAFKA_OPTIONS


def test_own_servers_and_embedded_ones_each_get_their_own_advice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    (tmp_path / "stack.json").touch()
    embedded = settings()
    for advice in (embedded.kafka_advice, embedded.postgres_advice, embedded.registry_advice):
        assert "tidegate stack up" in advice
    for name, value in {
        "KAFKA_BOOTSTRAP_SERVERS": "broker:9092",
        "POSTGRES_URL": "postgresql://me@db/shop?sslmode=require",
        "REGISTRY_URL": "http://registry:8081",
    }.items():
        monkeypatch.setenv(f"TIDEGATE_{name}", value)
        own = settings()
        advice = {"K": own.kafka_advice, "P": own.postgres_advice, "R": own.registry_advice}[name[0]]
        assert f"Check TIDEGATE_{name}" in advice
        assert "stack" not in advice


def test_the_log_level_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_KAFKA_LOG_LEVEL", "7")
    options = Endpoints("", "broker:9092", settings().librdkafka_options).kafka_options()
    assert options == {"bootstrap.servers": "broker:9092", "log_level": "7"}
    AdminClient(options)  # librdkafka takes it


def test_a_run_cannot_configure_spark() -> None:
    with pytest.raises(ValueError, match="TIDEGATE_SPARK_"):
        SparkResource(spark_config={"spark.driver.extraJavaOptions": "-XX:OnError=whatever"})


def test_what_kubernetes_says_of_services_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for service in ("TIDEGATE_CODE", "TIDEGATE_KAFKA"):
        link = f"{service}_PORT_9092_TCP"
        address = {link: "tcp://10.0.0.1:9092", f"{link}_PROTO": "tcp", f"{link}_PORT": "1", f"{link}_ADDR": "10.0.0.1"}
        ports = {f"{service}_SERVICE_PORT": "1", f"{service}_SERVICE_PORT_GRPC": "1", f"{service}_PORT": "tcp://..."}
        for name, text in {f"{service}_SERVICE_HOST": "10.0.0.1", **ports, **address}.items():
            monkeypatch.setenv(name, text)
    monkeypatch.setenv("TIDEGATE_KAFKA_CLIENT_ID", "mine")
    assert unknown_variables() == []
    assert settings().librdkafka_options == {"client.id": "mine"}
