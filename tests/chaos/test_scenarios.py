"""Scenarios of `make chaos`, with few kills: a quick one in `make test`, one of each fault class in `.ci/run`."""

import random
from collections import Counter

import pytest

from tests.chaos.catalogue import SCENARIOS
from tests.chaos.fault_classes import FaultClass
from tests.chaos.kafka.three_brokers import THREE_BROKERS
from tests.chaos.postgres.network import aborted_messages_for_longer_than_the_patience
from tests.chaos.scenario import Chaos, Scenario
from tests.support.world import World

QUICK = "Postgres restarted between stage and publish"
BESIDE = "lookup with a wrong value"  # beside the representative of its class
PLAYED = {name: found for name, found in SCENARIOS.items() if found.representative or name == BESIDE}


def _marks(name: str, scenario: Scenario) -> list[pytest.MarkDecorator]:
    marks = [] if name == QUICK else [pytest.mark.slow, pytest.mark.timeout(900)]  # some try a batch many times
    return [*marks, pytest.mark.xdist_group(scenario.shares)] if scenario.shares else marks


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name, found)) for name, found in PLAYED.items()])
def test_nothing_is_lost_or_doubled(world: World, name: str) -> None:
    verdict = PLAYED[name].play(Chaos(world, random.Random(name), kills=2))
    assert verdict.kept, verdict


@pytest.mark.longest
@pytest.mark.timeout(900)
@pytest.mark.xdist_group(THREE_BROKERS)
def test_50_megabytes_of_aborted_messages_are_skipped(world: World) -> None:
    verdict = aborted_messages_for_longer_than_the_patience(Chaos(world, random.Random(1), kills=2), megabytes=50)
    assert verdict.kept, verdict


def test_each_fault_class_has_one_scenario_that_stands_for_it() -> None:
    representatives = Counter(found.fault_class for found in SCENARIOS.values() if found.representative)
    assert representatives == dict.fromkeys(FaultClass, 1)
