"""The cluster of three brokers, if a scenario asked for it, ends with the session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.kafka import three_brokers


@pytest.fixture(scope="session", autouse=True)
def _no_broker_is_left(home: Path) -> Iterator[None]:
    yield
    three_brokers.stop()
