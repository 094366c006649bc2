"""The exactly-once suite with Postgres behind PgBouncer in session mode: the promises of one batch, and runs that are
killed, stopped or meet each other.
"""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from platform_defs.stack.endpoints import Endpoints
from tests.chaos.catalogue import ELSEWHERE
from tests.chaos.runs import POSTGRES, Run
from tests.chaos.scenario import Chaos
from tests.integration.engine import test_exactly_once, test_staging_tables
from tests.support.postgres.pgbouncer import needs_pgbouncer, pgbouncer
from tests.support.waiting import wait_for
from tests.support.world import World, transfers

pytestmark = [pytest.mark.slow, needs_pgbouncer, pytest.mark.timeout(900)]

# Each test of the suite, here with the world below.
SUITE = vars(test_exactly_once) | vars(test_staging_tables)
globals().update({name: test for name, test in SUITE.items() if name.startswith("test_")})

# The tests of this suite that .ci/run runs; `make test-long` runs the others (tests/order.py).
IN_CI = (
    "test_the_suite_is_behind_a_pooler",
    "test_a_run_that_is_killed_is_found_dead_within_seconds",
    "test_the_sessions_of_a_fenced_run_are_ended",
    "test_a_connection_that_dies_before_commit_leaves_nothing_and_the_next_run_goes_on",
)


@pytest.fixture(scope="module")
def pooled(endpoints: Endpoints) -> Iterator[Endpoints]:
    """Use Postgres through a pooler, also in the runs' separate processes."""
    with pgbouncer(endpoints.postgres_url) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv(POSTGRES, url)
        yield replace(endpoints, postgres_url=url)


@pytest.fixture
def world(world: World, pooled: Endpoints) -> World:
    return replace(world, endpoints=pooled)


def test_the_suite_is_behind_a_pooler(world: World) -> None:
    with world.session() as session:
        (pid,) = session.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        assert pid != session.info.backend_pid


@pytest.mark.parametrize("name", ELSEWHERE)
def test_nothing_is_lost_or_doubled_by_runs(world: World, name: str) -> None:
    verdict = ELSEWHERE[name].play(Chaos(world, random.Random(name), kills=1))
    assert verdict.kept, verdict


@pytest.mark.longest
def test_a_run_that_is_killed_is_found_dead_within_seconds(world: World) -> None:
    """Its connections end with it, and the pooler releases what they held back."""
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(80))
    run = Run(pipeline, "after_audit", "STOP", spark=world.spark())
    run.wait_until_stopped()
    assert world.ledger.status(pipeline.name).held
    run.kill()
    wait_for(lambda: not world.ledger.status(pipeline.name).held, "the run is known to be dead")
    assert Chaos(world, random.Random(0), 0).judge(pipeline, 1, "exact").kept
