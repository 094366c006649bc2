"""The end of the cluster of three brokers, with the session, if a scenario started it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.kafka import three_brokers


@pytest.fixture(scope="session", autouse=True)
def _no_broker_is_left(home: Path) -> Iterator[None]:
    yield
    three_brokers.stop()
