"""Postgres over TLS: what each of the three client libraries accepts and refuses, and its message.

psycopg queries the ledger, ADBC copies, and SQLAlchemy serves Great Expectations (by psycopg) and Dagster (by
psycopg2). Each brings its own libpq and OpenSSL.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import adbc_driver_postgresql.dbapi as adbc
import click
import pyarrow as pa
import pytest
import sqlalchemy
from sqlalchemy.exc import OperationalError

from platform_defs.dagster.storage import Storage, storage_url
from platform_defs.engine.commit.auditor import GreatExpectationsAuditor
from platform_defs.engine.interfaces.broker_and_auditor import AuditView
from platform_defs.engine.staging.staging import PostgresStaging
from platform_defs.errors import LedgerAway
from platform_defs.postgres.connection import connect, session_uri
from platform_defs.settings.contracts import find_contract
from platform_defs.stack.endpoints import Endpoints
from tests.support.kafka.fake_servers import closed_port
from tests.support.postgres.tls_postgres import ADMINISTRATOR, PASSWORD, TlsPostgres, tls_postgres

pytestmark = pytest.mark.slow
ENCRYPTED = "SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsPostgres]:
    with tls_postgres(tmp_path_factory.mktemp("tls")) as found:
        yield found


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory, server: TlsPostgres) -> Iterator[TlsPostgres]:
    """Yield another server, which takes no writes, with the same certificate."""
    with tls_postgres(tmp_path_factory.mktemp("tls"), server.authority, default_transaction_read_only="on") as found:
        yield found


def by_psycopg(url: str) -> tuple[bool, str]:
    with connect(url) as session:
        return session.execute(ENCRYPTED).fetchone() or (False, "")


def by_adbc(url: str) -> tuple[bool, str]:
    with adbc.connect(session_uri(url, "copy")) as session, session.cursor() as cursor:
        cursor.execute(ENCRYPTED)
        return cursor.fetchone() or (False, "")


def by_sqlalchemy(url: str) -> tuple[bool, str]:
    """Connect as Great Expectations does."""
    return _by_engine(session_uri(url, "audit"), "psycopg")


def by_dagster(url: str) -> tuple[bool, str]:
    return _by_engine(storage_url(url), "psycopg2")


def _by_engine(url: str, driver: str) -> tuple[bool, str]:
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    assert engine.dialect.driver == driver
    with engine.connect() as session:
        encrypted, version = session.execute(sqlalchemy.text(ENCRYPTED)).one()
        return encrypted, version


Client = Callable[[str], tuple[bool, str]]
every_client = pytest.mark.parametrize("client", [by_psycopg, by_adbc, by_sqlalchemy, by_dagster])
REFUSED = (LedgerAway, adbc.Error, OperationalError)


@every_client
def test_a_server_of_the_right_authority_and_name_is_accepted(server: TlsPostgres, client: Client) -> None:
    assert client(server.url()) == (True, "TLSv1.3")


@every_client
def test_a_server_of_another_authority_is_refused(server: TlsPostgres, client: Client) -> None:
    with pytest.raises(REFUSED, match="certificate verify failed"):
        client(server.url(sslrootcert=server.stranger))


@every_client
def test_a_server_of_another_name_is_refused(server: TlsPostgres, client: Client) -> None:
    with pytest.raises(REFUSED, match=r'does not match host name "127\.0\.0\.1"'):
        client(server.url("127.0.0.1"))
    assert client(server.url("127.0.0.1", sslmode="verify-ca")) == (True, "TLSv1.3")  # the name is not checked


@every_client
def test_an_unencrypted_server_is_refused(endpoints: Endpoints, client: Client) -> None:
    with pytest.raises(REFUSED, match="server does not support SSL, but SSL was required"):
        client(f"{endpoints.postgres_url}?sslmode=require")


@every_client
def test_the_machines_own_authorities_are_those_of_ssl_cert_file(
    server: TlsPostgres, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(REFUSED, match="certificate verify failed"):
        client(server.url(sslrootcert="system"))
    monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))
    assert client(server.url(sslrootcert="system")) == (True, "TLSv1.3")


@every_client
def test_a_password_may_be_in_a_file_of_its_own(server: TlsPostgres, client: Client, tmp_path: Path) -> None:
    passwords = tmp_path / "pgpass"
    passwords.touch(mode=0o600)
    url = server.url(passfile=passwords).replace(f":{quote(PASSWORD)}@", "@")
    with pytest.raises(REFUSED, match="no password supplied"):
        client(url)
    passwords.write_text(f"localhost:{server.port}:*:{ADMINISTRATOR}:{PASSWORD}\n")
    assert client(url) == (True, "TLSv1.3")


@every_client
def test_of_several_hosts_the_one_that_can_be_written_to_is_taken(
    server: TlsPostgres, read_only: TlsPostgres, client: Client
) -> None:
    hosts = ",".join(f"localhost:{port}" for port in (closed_port(), read_only.port, server.port))
    for parameters in ({"target_session_attrs": "read-write"}, {}):  # without it, Tidegate requests the same
        assert client(server.url(hosts, **parameters)) == (True, "TLSv1.3")
    with pytest.raises(REFUSED, match="session is read-only"):
        client(server.url(f"localhost:{read_only.port}"))


def test_what_copies_audits_and_keeps_dagsters_state_says_why_it_cannot_and_what_to_do(
    server: TlsPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, nothing = server.url(sslrootcert=server.stranger), pa.schema([("a", pa.int64())])
    rules = find_contract("bank_transfers").batch_rules
    message = "certificate verify failed.*not signed by a CA in sslrootcert"
    with pytest.raises(LedgerAway, match=message):
        connect(url)
    with pytest.raises(LedgerAway, match=message):
        PostgresStaging(url, "a test", 1, "rows_1").copy([], nothing)
    with pytest.raises(LedgerAway, match="certificate verify failed"):
        GreatExpectationsAuditor(url).evaluate(rules, AuditView("tidegate_staging", "audit_1"))
    monkeypatch.setenv("TIDEGATE_DAGSTER_URL", url)
    with pytest.raises(click.ClickException, match=message):
        Storage.from_config_value(None, {})
