"""Where Tidegate connects to: variables first, then the embedded stack."""

import dataclasses
import importlib
import os
import pkgutil
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka.admin import AdminClient
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

import platform_defs
import resources
from platform_defs.cli import stack as cli
from platform_defs.cli.output import Output
from platform_defs.errors import BadInput
from resources.endpoints import Endpoints, connection
from resources.local import processes, stack, state
from resources.postgres.connection import session_uri, session_url
from resources.postgres.tls import address_of
from resources.postgres_address import masked
from resources.settings import PROJECT_ROOT, SETTINGS, Settings, settings, unknown_variables
from resources.spark.session import SparkResource

PIECE = "Hu7xQ"  # of a password
HARMLESS = {  # these are of no client
    "platform_defs.contract.keys.TypeEntry.options",
    "platform_defs.operations.measuring.faults.Fault.options",
    "platform_defs.producing.chosen.Chosen.options",
    "platform_defs.producing.chosen.Producing.options",
    "platform_defs.producing.presets.Preset.options",
    "resources.local.dagster.UiStatus.url",
}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("TIDEGATE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))


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
        ("postgresql://me:p%zz@db/shop", r"TIDEGATE_DAGSTER_URL.*percent-encoded"),
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
        ("postgresql://me@db.example.com/shop?sslmode=disable", False),  # they have said so
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
        "log_level": "3",
        "security.protocol": "SSL",
    }


def test_a_stack_that_does_not_run_is_said_with_the_command_that_starts_it() -> None:
    with pytest.raises(BadInput, match="tidegate stack up"):
        connection()


def test_the_password_is_not_shown_when_endpoints_are_printed() -> None:
    assert "hush" not in repr(Endpoints("postgresql://me:hush@db/shop", "b:9092", {"sasl.password": "hush"}))


def test_a_pid_that_another_process_has_now_is_no_server(tmp_path: Path) -> None:
    state.save(tmp_path, state.State(kafka=(state.Server(20001, 20002, 20003, os.getpid()),)))
    (kept,) = state.load(tmp_path).kafka
    assert kept.port == 20001
    assert not kept.runs_over(state.kafka_properties(tmp_path))


def test_a_home_of_a_version_that_knew_of_one_broker_has_one(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text('{"kafka": {"port": 1, "controller_port": 2, "pid": 3}, "postgres": {}}')
    assert state.load(tmp_path).kafka == (state.Server(1, 2, None, 3),)
    data = state.kafka_folder(tmp_path) / "data"
    assert state.brokers_of(tmp_path) == 0
    data.mkdir(parents=True)
    (data / "meta.properties").touch()
    assert state.brokers_of(tmp_path) == 1


def test_brokers_are_not_started_where_another_kafka_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", "broker:9092")
    with pytest.raises(BadInput, match=r"names your own \(broker:9092\). Leave out --brokers"):
        stack.up(brokers=3)


def test_a_cluster_keeps_its_number_of_brokers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", "postgresql://me@db/shop")
    state.save_cluster(tmp_path, state.Cluster("c", ("1@127.0.0.1:21000:x",)))
    with pytest.raises(BadInput, match=r"has 1 broker, and 3 were asked for.*tidegate stack reset"):
        stack.up(brokers=3)


def test_a_new_port_is_none_that_is_reserved() -> None:
    reserved = range(20_000, 31_900)
    assert processes.kept_or_free_port(None, lambda _: None, reserved) >= 31_900


def test_a_state_file_that_was_cut_off_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text('{"kafka": {"po')
    assert state.load(tmp_path) == state.State()


def test_only_the_owner_can_read_the_password(tmp_path: Path) -> None:
    assert state.password(tmp_path) == state.password(tmp_path)
    assert (tmp_path / "postgres.password").stat().st_mode & 0o777 == 0o600


def test_a_disk_without_space_is_said_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="Free some space"):
        processes.require_space(tmp_path, needed=10**18)


def test_status_loads_neither_spark_nor_dagster_nor_great_expectations() -> None:
    heavy = "{'pyspark', 'dagster', 'great_expectations', 'pandas', 'jgo'}"
    program = f"""
import sys
sys.argv = ["tidegate", "stack", "status", "-o", "json"]
from platform_defs.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code
assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_a_variable_that_is_no_setting_is_a_warning_with_the_one_that_was_meant(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URI", "postgresql://me@db/shop")
    monkeypatch.setenv("TIDEGATE_KAFKA_SSL_CA_LOCATION", "/ca.pem")
    monkeypatch.setenv("TIDEGATE_CRASH_POINT", "")
    assert unknown_variables() == ["TIDEGATE_POSTGRES_URI"]
    settings()
    settings()
    said = [record.getMessage() for record in caplog.records if "TIDEGATE_POSTGRES_URI" in record.getMessage()]
    assert said == [
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


def test_a_registry_of_ones_own_is_shown_without_its_password(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_REGISTRY_URL", "https://me:hush@one:8081, https://two:8081")
    status = stack.status()
    assert status.as_json()["registry"] == {"url": "https://one:8081, https://two:8081", "pid": None, "embedded": False}
    assert status.registry.address == "https://me:hush@one:8081, https://two:8081"


_SPECIAL = "/?#@:%&=[] ,;+'\\\"äx"


@given(password=st.text("abc1" + _SPECIAL, min_size=1), user=st.text("ab" + _SPECIAL, min_size=1))
def test_an_encoded_password_is_read_as_it_is_by_every_client(password: str, user: str) -> None:
    url = f"postgresql://{quote(user, safe='')}:{quote(password, safe='')}@db.example.com:5432/shop?sslmode=require"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_POSTGRES_URL", url)
        given_url = settings().postgres_url or ""
    for spelt in (given_url, session_url(given_url, "t"), session_uri(given_url, "t")):
        read = conninfo_to_dict(spelt)
        assert (read["user"], read["password"], read["dbname"]) == (user, password, "shop")
    assert masked(given_url) == f"postgresql://{quote(user, safe='')}:***@db.example.com:5432/shop?sslmode=require"


@given(parts=st.lists(st.sampled_from(_SPECIAL), min_size=1, max_size=4))
def test_a_password_that_is_not_encoded_is_refused_without_a_piece_of_it(parts: list[str]) -> None:
    password = "".join(f"{PIECE}{one}" for one in parts) + PIECE
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_POSTGRES_URL", f"postgresql://me:{password}@db:5432/shop")
        try:
            read = conninfo_to_dict(session_url(settings().postgres_url or "", "t"))
        except BadInput as refused:
            said = "".join(traceback.format_exception(refused))
            assert PIECE not in said
            assert "TIDEGATE_POSTGRES_URL" in said
        else:
            assert (read["password"], read["dbname"], read["host"]) == (password, "shop", "db")


@pytest.mark.parametrize(
    "query", ["password=a&b", "password=a=b", f"password={PIECE}&{PIECE}", "password=%zz", "pass word=x", f"{PIECE}"]
)
def test_parameters_that_libpq_would_quote_are_refused(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", f"postgresql://me@db/shop?{query}")
    with pytest.raises(BadInput) as refused:
        settings()
    assert PIECE not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://",
        "postgresql:///shop",
        "postgresql://db",
        "postgresql://me@db:/shop",
        "postgresql://me:p@[::1]:5432,db-2:5433,%2Fvar%2Frun/shop?sslmode=verify-full&target_session_attrs=read-write",
        "postgresql:///shop?host=/var/run/postgresql&user=me&",
        "postgresql://me@db/shop?options=-c%20search_path%3Dx",
    ],
)
def test_what_libpq_takes_is_taken(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", url)
    assert settings().postgres_url == url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://me:{PIECE}@db/shop", "postgresql://me:***@db/shop"),
        (f"postgresql://me:a/{PIECE}@b?{PIECE}#{PIECE}@db/shop", "***"),
        (f"postgresql://db/shop?user=me&password={PIECE}", "postgresql://db/shop?user=me&password=***"),
        (
            f"postgresql://db/shop?sslpassword={PIECE}&sslmode=require&PASSWORD={PIECE}",
            "postgresql://db/shop?sslpassword=***&sslmode=require&PASSWORD=***",
        ),
        ("postgresql://me@db/shop", "postgresql://me@db/shop"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert masked(url) == shown


def test_the_status_of_ones_own_database_hides_its_password_in_both_forms(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"postgresql://me:{PIECE}@db/shop?sslpassword={PIECE}"
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", url)
    for output in Output:
        cli.status(show_password=False, output=output)
        assert PIECE not in capsys.readouterr().out
        cli.status(show_password=True, output=output)
        assert url in capsys.readouterr().out


def _dataclasses() -> Iterator[type]:
    for package in (platform_defs, resources):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name not in ("resources.spark.daemon",):
                module = importlib.import_module(found.name)
                yield from (
                    one
                    for one in vars(module).values()
                    if isinstance(one, type) and dataclasses.is_dataclass(one) and one.__module__ == found.name
                )


def test_nothing_that_holds_an_address_or_a_clients_options_prints_them() -> None:
    """Whatever is printed of an object (a traceback, a log, a debugger) has no password in it."""
    shown = {
        f"{one.__module__}.{one.__name__}.{field.name}"
        for one in _dataclasses()
        for field in dataclasses.fields(one)
        if field.repr and field.name in ("url", "postgres_url", "ledger_url", "options", "librdkafka", "conninfo")
    }
    assert shown == HARMLESS
    assert PIECE not in repr(Settings(postgres_url=f"postgresql://me:{PIECE}@db", registry_url=f"http://u:{PIECE}@r"))


@pytest.mark.parametrize(
    "password", [f"{PIECE}/{PIECE}", f"1/{PIECE}", f"{PIECE}@{PIECE}", f"{PIECE}#{PIECE}", f"{PIECE},x"]
)
def test_a_registrys_password_that_is_not_encoded_is_refused_unseen(
    password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_REGISTRY_URL", f"https://me:{password}@registry:8081")
    with pytest.raises(BadInput, match="TIDEGATE_REGISTRY_URL") as refused:
        settings()
    assert PIECE not in "".join(traceback.format_exception(refused.value))


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
    assert said() == f"({name}_FILE): the file {path} is not text in UTF-8"
    path.write_text("hush")
    monkeypatch.setenv(name, "hush")
    assert said() == f"({name}_FILE): {name} is given as well; unset one of the two"


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
