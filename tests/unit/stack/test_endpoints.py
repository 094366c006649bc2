"""Endpoints while nothing embedded is running."""

from pathlib import Path

import pytest

from platform_defs.errors import BadInput
from platform_defs.stack.endpoints import kafka_alone, ledger_alone, ledger_if_any, registry_alone, registry_if_any


@pytest.fixture(autouse=True)
def _nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    for name in ("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", "TIDEGATE_POSTGRES_URL", "TIDEGATE_REGISTRY_URL"):
        monkeypatch.delenv(name, raising=False)


def test_what_a_command_needs_is_refused_with_how_to_start_it(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=f"Postgres in {tmp_path} is not running .*tidegate stack up.* set TIDEGATE_POSTGRES_URL"
    ):
        ledger_alone()
    with pytest.raises(BadInput, match=f"Kafka in {tmp_path} is not running .* set TIDEGATE_KAFKA_BOOTSTRAP_SERVERS"):
        kafka_alone()
    with pytest.raises(BadInput, match=r"no schema registry is configured.*tidegate stack up --registry"):
        registry_alone()


def test_what_a_command_can_do_without_is_none() -> None:
    assert (ledger_if_any(), registry_if_any()) == (None, None)
