"""The exactly-once suite with restricted rights: the publisher's role, PgBouncer in session mode, TLS with
sslmode=verify-full on both sides of it, and a Kafka with SASL_SSL and the ACLs of a run.

Actions of an owner or an administrator in the suite's tests (topics, tables, queries, faults) run as those.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import Budget
from platform_defs.ledger.published import Published
from platform_defs.stack.endpoints import Endpoints
from tests.integration.engine import test_exactly_once, test_staging_tables
from tests.support.kafka.secured_kafka import ADMIN, SecuredKafka
from tests.support.postgres.pgbouncer import needs_pgbouncer, pgbouncer
from tests.support.postgres.restricted_roles import Company, new_company
from tests.support.postgres.tls_postgres import tls_postgres
from tests.support.world import World

pytestmark = [pytest.mark.slow, needs_pgbouncer, pytest.mark.xdist_group("secured"), pytest.mark.timeout(900)]
# Names of topics and pipelines begin with t (tests/support/world.py).
RUNS = (
    "--operation Read --operation DescribeConfigs --topic t --resource-pattern-type prefixed",
    "--operation Read --group tidegate- --resource-pattern-type prefixed",
)

OTHERWISE = "test_a_table_with_rows_of_somebody_else_is_refused"  # creates the table itself, as the owner does here

# Each test of the suite, here with the world below.
SUITE = vars(test_exactly_once) | vars(test_staging_tables)
globals().update({name: test for name, test in SUITE.items() if name.startswith("test_") and name != OTHERWISE})

# The tests of this suite that .ci/run runs; `make test-long` runs the others (tests/order.py).
IN_CI = (
    "test_runs_are_the_publishers_behind_a_pooler_and_encrypted",
    "test_a_transfer_its_postings_its_balances_and_its_offset_arrive_together",
    "test_the_sessions_of_a_fenced_run_are_ended",
)


@dataclass(frozen=True)
class CompanysWorld(World):
    """The administrators' world, in which runs are the publisher's."""

    company: Company | None = None
    publishers: Endpoints | None = None

    def new_pipeline(self, *args: Any, **chosen: Any) -> Pipeline:
        assert self.company is not None
        pipeline = super().new_pipeline(*args, **chosen)
        self.company.grant(pipeline)
        return pipeline

    def open_run(self, pipeline: Pipeline) -> Any:
        return self.as_publisher().open_run(pipeline)

    def drain(self, pipeline: Pipeline, budget: Budget | None = None) -> list[Published]:
        return self.as_publisher().drain(pipeline, budget)

    def as_publisher(self) -> World:
        assert self.publishers is not None
        return World(self.publishers, self.spark)


@pytest.fixture(scope="module")
def companys(
    endpoints: Endpoints,
    spark: Callable[[], SparkSession],
    secured: SecuredKafka,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[CompanysWorld]:
    """Provide a database with three roles on a Postgres that only accepts TLS, and a pooler in front of it."""
    home = tmp_path_factory.mktemp("company")
    secured.revoke_all()
    secured.grant(*RUNS)
    with tls_postgres(home) as postgres:
        there = secured.endpoints(replace(endpoints, postgres_url=postgres.url()), secured.options(ADMIN))
        key = home / "postgres" / "server.pem"  # the pooler's user may read it
        tls = {"server_tls_sslmode": "verify-full", "server_tls_ca_file": key, "client_tls_sslmode": "require"}
        tls |= {"client_tls_key_file": key, "client_tls_cert_file": key}
        with new_company(World(there, spark)) as company, pgbouncer(company.urls["publisher"], **tls) as url:
            pooled = url.replace("@127.0.0.1:", "@localhost:")  # the name in the certificate
            publishers = secured.endpoints(replace(endpoints, postgres_url=pooled))
            as_administrator = replace(there, postgres_url=company.urls["administrator"])
            yield CompanysWorld(as_administrator, spark, company=company, publishers=publishers)
    secured.revoke_all()


@pytest.fixture
def world(companys: CompanysWorld) -> World:
    return companys


def test_runs_are_the_publishers_behind_a_pooler_and_encrypted(companys: CompanysWorld) -> None:
    assert companys.company is not None
    asked = "SELECT session_user, pg_backend_pid(), (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid())"
    with companys.as_publisher().session() as session:
        user, pid, encrypted = session.execute(asked).fetchone() or ("", 0, False)
        assert (user, encrypted) == (companys.company.roles.publisher, True)
        assert pid != session.info.backend_pid
        assert session.pgconn.ssl_in_use
