"""Every block of docs/how-to/production.md is run, in order, against real servers with TLS, logins and ACLs.

The environment has the variables of the page's reader, and nothing else of TIDEGATE_* or libpq's.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.support.kafka.kafka_scripts import ARGUMENTS, write_scripts
from tests.support.kafka.secured_kafka import ADMIN, PASSWORDS, SecuredKafka, secured_kafka
from tests.support.postgres.tls_postgres import DATABASE, TlsPostgres, tls_postgres

pytestmark = pytest.mark.longest
ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "how-to" / "production.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", re.DOTALL)
PROPERTIES = """\
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="{user}" password="{word}";
ssl.truststore.type=PEM
ssl.truststore.location={authority}
"""


@dataclass(frozen=True)
class Walked:
    """The output of each block of the page, and the server that it was run with."""

    said: list[str]
    postgres: TlsPostgres
    arguments: str  # for Kafka's scripts
    passwords: list[str]

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Return a query's rows, as the administrator, in the page's database."""
        with psycopg.connect(self.postgres.url().replace(f"/{DATABASE}?", "/warehouse?")) as session:
            return session.execute(query.encode()).fetchall()


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walked]:
    if shutil.which("psql") is None:
        pytest.skip("the page calls psql, which is not installed (Debian: apt install postgresql-client)")
    home = tmp_path_factory.mktemp("production")
    with tls_postgres(tmp_path_factory.mktemp("postgres")) as postgres, secured_kafka(home) as kafka:
        environment = _environment(home, postgres, kafka)
        # One shell, as a reader has it: later blocks use what earlier ones have set.
        script = "\n".join(["set -eu -o pipefail", *(f"echo '{_mark(n)}'\n{text}" for n, text in enumerate(BLOCKS))])
        done = subprocess.run(
            ["bash", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=420, check=False
        )
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-4000:]}"
        message = re.split("|".join(_mark(n) for n in range(len(BLOCKS))), done.stdout)[1:]
        passwords = [
            (home / "secrets" / name).read_text().strip() for name in ("kafka", "owner", "publisher", "reader")
        ]
        yield Walked(message, postgres, (home / "scripts" / ARGUMENTS).read_text(), passwords)


def _mark(number: int) -> str:
    return f"--- block {number} ---"


def _environment(home: Path, postgres: TlsPostgres, kafka: SecuredKafka) -> dict[str, str]:
    """Return the environment: the names that the page uses, and Kafka's scripts on the PATH."""
    secrets, scripts = home / "secrets", home / "scripts"
    secrets.mkdir(mode=0o700)
    scripts.mkdir()
    write_scripts(scripts)
    authority = home / "authorities.pem"
    authority.write_text("".join(CERTIFICATE.findall(postgres.authority.read_text() + kafka.authority.read_text())))
    word = PASSWORDS[ADMIN]
    (secrets / "admin.properties").write_text(PROPERTIES.format(user=ADMIN, word=word, authority=authority))
    (secrets / "kafka-admin").write_text(word)
    path = os.pathsep.join([str(Path(sys.executable).parent), str(scripts), os.environ["PATH"]])
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEGATE_", "DAGSTER_", "PG"))}
    named = {"DB": f"localhost:{postgres.port}", "BROKERS": f"127.0.0.1:{kafka.port}", "CA": str(authority)}
    named |= {"SECRETS": str(secrets), "ADMIN": postgres.url(), "REPLICAS": "1", "STATE": str(home / "state")}
    contracts = home / "contracts"
    shutil.copytree(ROOT / "assets" / "bank", contracts / "bank")
    return {**kept, **named, "TIDEGATE_CONTRACTS": str(contracts), "PATH": path}


def _block(words: str) -> int:
    (number,) = [number for number, text in enumerate(BLOCKS) if words in text]
    return number


def test_every_block_of_the_page_works_with_the_rights_that_the_page_gives(walked: Walked) -> None:
    assert len(walked.said) == len(BLOCKS) > 6
    assert "Created: bank.postings, bank.balances, dagster" in walked.said[_block("migrate --tables")]
    assert walked.rows("SELECT sum(balance), count(*) > 0 FROM bank.balances") == [(0, True)]
    assert walked.rows("SELECT sum(messages) FROM tidegate.batch") == [(1000,)]


def test_the_doctor_finds_every_connection_encrypted_and_every_right_there(walked: Walked) -> None:
    message = walked.said[_block("<<END")]
    assert "The connection is encrypted (TLS)." in message
    assert "The role tidegate_publisher may read and write the ledger." in message
    assert "\n0 errors, " in message


def test_a_reader_sees_what_there_is_to_watch(walked: Walked) -> None:
    message = walked.said[_block("url reader")]
    assert "bank_transfers: 0 messages behind bank.transfers, active" in message
    assert "may read the ledger but not write" in message


def test_no_role_is_more_than_it_says_and_the_owner_owns_what_lasts(walked: Walked) -> None:
    more = " OR ".join(f"rol{name}" for name in ("super", "createrole", "createdb", "bypassrls", "replication"))
    assert walked.rows(f"SELECT count(*) FROM pg_roles WHERE rolname ~ '^tidegate_' AND NOT ({more})") == [(3,)]
    owners = "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname IN"
    assert walked.rows(f"{owners} ('tidegate', 'bank', 'crm', 'web', 'dagster')") == [("tidegate_owner",)]


def test_no_password_is_an_argument_of_a_command(walked: Walked) -> None:
    assert "--entity-name tidegate" in walked.arguments
    assert [word for word in walked.passwords if word in walked.arguments] == []
