"""Each scenario of `make chaos` once, with few kills."""

import random

import pytest

from tests.chaos.catalogue import SCENARIOS
from tests.chaos.scenario import Chaos
from tests.world import World


@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_is_lost_or_doubled(world: World, name: str) -> None:
    verdict = SCENARIOS[name](Chaos(world, random.Random(name), kills=2))
    assert verdict.kept, verdict
