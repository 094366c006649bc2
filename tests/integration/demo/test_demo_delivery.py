"""`tidegate demo delivery`: each consumer shows its semantics in every run, and nothing is left behind."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from platform_defs.demo.delivery import GROUP, TOPIC
from platform_defs.demo.delivery_model import CRASHES, TRANSFERS
from platform_defs.demo.ledger import demo_schema
from platform_defs.errors import BadInput
from tests.support.kafka.secured_kafka import SecuredKafka
from tests.support.own_home import TIDEGATE
from tests.support.waiting import BOUND
from tests.support.world import World


def demo(*options: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run `tidegate demo delivery` to its end."""
    command, variables = [*TIDEGATE, "demo", "delivery", *options], {**os.environ, **environment}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def left(world: World) -> list[str]:
    """Return the topics, groups and schemas that the demo has left."""
    admin = world.admin()
    groups = [one.group_id for one in admin.list_consumer_groups().result(BOUND).valid]
    schemas = world.rows("select nspname from pg_namespace where nspname = 'tidegate_demo'")
    topics = {TOPIC} & {*admin.list_topics(timeout=20).topics}
    return [*topics, *(one for one in groups if one.startswith(GROUP)), *(row["nspname"] for row in schemas)]


@pytest.mark.longest
def test_a_crash_loses_at_most_once_repeats_at_least_once_and_does_neither_exactly_once(world: World) -> None:
    for seed, more in ((1, ["--keep"]), (2, []), (3, [])):
        ended = demo("--seed", str(seed), "-o", "json", *more)
        assert ended.returncode == 0, ended.stderr
        document = json.loads(ended.stdout)
        assert (document["seed"], len(document["crashes"]), document["left"]) == (seed, CRASHES, [])
        shows_each_semantics(document["consumers"])
        if more:
            assert {TOPIC, "tidegate_demo"} <= {*left(world)}
            assert len(world.rows("select distinct semantics from tidegate_demo.postings")) == 3
        else:
            assert left(world) == []


def shows_each_semantics(consumers: list[dict[str, Any]]) -> None:
    most, least, exactly = consumers
    assert [one["semantics"] for one in consumers] == ["at_most_once", "at_least_once", "exactly_once"]
    assert {(one["crashes"], one["transfers"], one["as_promised"]) for one in consumers} == {(CRASHES, TRANSFERS, True)}
    assert most["lost"] > 0
    assert most["duplicated"] == 0
    assert least["lost"] == 0
    assert least["duplicated"] > 0
    assert (exactly["lost"], exactly["duplicated"]) == (0, 0)
    assert [float(one["balances_sum"]) < 0 for one in consumers] == [True, True, False]
    assert exactly["balances_sum"] == "0.00"


@pytest.mark.longest
def test_nothing_is_left_of_a_demo_that_was_interrupted(world: World) -> None:
    with subprocess.Popen([*TIDEGATE, "demo", "delivery"], stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        next(line for line in running.stderr if "killed at" in line)
        running.send_signal(signal.SIGINT)
        message = running.stderr.read()
    assert running.returncode == 130, message
    assert left(world) == []


@pytest.fixture
def schema_of_a_user(world: World) -> Iterator[str]:
    world.rows("create schema tidegate_demo")
    world.rows("create table tidegate_demo.mine as select 1 as one")
    yield "tidegate_demo.mine"
    world.rows("drop schema tidegate_demo cascade")


def test_a_schema_that_the_demo_did_not_make_is_not_touched(world: World, schema_of_a_user: str) -> None:
    assert "the schema tidegate_demo exists, but `tidegate demo delivery` did not create it" in demo().stderr
    assert world.rows(f"select * from {schema_of_a_user}") == [{"one": 1}]
    assert left(world) == ["tidegate_demo"]


def test_two_demos_do_not_share_a_database(world: World) -> None:
    with demo_schema(world.endpoints.postgres_url):
        assert "another `tidegate demo delivery` is running in this database" in demo().stderr
    assert left(world) == []


@pytest.fixture
def clerk(world: World) -> Iterator[str]:
    """Yield a role that may not create schemas."""
    role = f"clerk_{uuid4().hex[:10]}"
    world.rows(f"create role {role} login password 'secret'")
    yield role
    world.rows(f"drop role {role}")


def test_the_right_to_create_a_schema_is_named(world: World, clerk: str) -> None:
    parts = urlsplit(world.endpoints.postgres_url)
    url = parts._replace(netloc=f"{clerk}:secret@{parts.netloc.rpartition('@')[2]}").geturl()
    grant = rf"{clerk} may not create the schema tidegate_demo .* GRANT CREATE ON DATABASE \w+ TO {clerk}"
    with demo_schema(url) as schema, pytest.raises(BadInput, match=grant):
        schema.make()


@pytest.mark.slow
@pytest.mark.xdist_group("secured")
def test_a_right_that_a_consumer_lacks_is_named(world: World, secured: SecuredKafka) -> None:
    operations = ("Create", "Write", "Read", "DescribeConfigs", "Delete")
    rights = " ".join(f"--operation {one}" for one in operations)
    with secured.granted(f"{rights} --topic tidegate.demo. --resource-pattern-type prefixed"):
        refused = demo(**secured.environment())
    assert refused.returncode == 1
    assert "--operation Read --operation Delete --group tidegate.demo.at_most_once" in refused.stderr
    assert left(world) == []
