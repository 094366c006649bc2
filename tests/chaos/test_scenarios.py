"""Each scenario of `make chaos` once, with few kills: one of each fault class in `make test`, unless it takes a cluster
of three brokers; the others are `slow`, and some of them `longest`.
"""

import random
from collections import Counter

import pytest

from tests.chaos.catalogue import SCENARIOS
from tests.chaos.fault_classes import FaultClass
from tests.chaos.kafka.three_brokers import THREE_BROKERS
from tests.chaos.postgres.network import aborted_messages_for_longer_than_the_patience
from tests.chaos.scenario import Chaos, Scenario
from tests.support.world import World


def _marks(scenario: Scenario) -> list[pytest.MarkDecorator]:
    soon = scenario.representative and scenario.shares != THREE_BROKERS
    slow = [] if soon else [pytest.mark.slow, pytest.mark.timeout(900)]  # some try a batch many times
    slow += [pytest.mark.longest] if scenario.longest else []
    return [*slow, pytest.mark.xdist_group(scenario.shares)] if scenario.shares else slow


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(found)) for name, found in SCENARIOS.items()])
def test_nothing_is_lost_or_doubled(world: World, name: str) -> None:
    verdict = SCENARIOS[name].play(Chaos(world, random.Random(name), kills=2))
    assert verdict.kept, verdict


@pytest.mark.longest
@pytest.mark.timeout(900)
@pytest.mark.xdist_group(THREE_BROKERS)
def test_200_megabytes_of_aborted_messages_are_skipped(world: World) -> None:
    verdict = aborted_messages_for_longer_than_the_patience(Chaos(world, random.Random(1), kills=2), megabytes=200)
    assert verdict.kept, verdict


def test_each_fault_class_has_one_scenario_that_stands_for_it() -> None:
    representatives = Counter(found.fault_class for found in SCENARIOS.values() if found.representative)
    assert representatives == dict.fromkeys(FaultClass, 1)
