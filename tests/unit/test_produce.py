"""`tidegate produce` where it cannot produce: one sentence, soon, and nothing imported that it can do without."""

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

import assets
from platform_defs.cli.produce import app
from platform_defs.errors import BadInput, BrokerAway
from platform_defs.topics.steps import Create
from resources.kafka import topic_admin

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the shipped contracts, which produce reads instead."""
    for path in assets.ASSETS.glob("*/*.odcs.yaml"):
        (tmp_path / path.parent.name).mkdir(exist_ok=True)
        shutil.copy(path, tmp_path / path.parent.name)
    monkeypatch.setattr(assets, "find_contract", partial(assets.find_contract, folder=tmp_path))
    return tmp_path


def refused(*arguments: str) -> str:
    error = CliRunner().invoke(app, list(arguments)).exception
    assert isinstance(error, BadInput)
    return str(error)


def test_an_unknown_pipeline_is_answered_with_those_there_are(folder: Path) -> None:
    assert "there is no pipeline 'nothing'; the pipelines are: bank_transfers" in refused("nothing")


def test_a_broken_contract_is_answered_with_its_mistake(folder: Path) -> None:
    broken = folder / "bank" / "transfers.odcs.yaml"
    broken.write_text(broken.read_text().replace("logicalType: timestamp", "logicalType: timestmap"))
    assert "transfers.odcs.yaml" in refused("bank_transfers")
    assert "timestmap" in refused("bank_transfers")


def test_a_broker_that_is_away_is_said_soon_and_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(topic_admin, "ANSWER", 1)
    with pytest.raises(BrokerAway, match=r"Kafka at 127\.0\.0\.1:1 did not answer within 1 s"):
        topic_admin.made_topic(NOWHERE, Create("t", 4))
    assert capfd.readouterr().err == ""


def test_it_imports_neither_spark_nor_dagster() -> None:
    code = """
import sys
from assets import find_contract
from platform_defs.cli import produce
from platform_defs.samples.mixture import Mixture
from resources.endpoints import connection
from platform_defs.samples.sending import Sending
from resources.kafka.producer import Producer
print(*sorted({"pyspark", "dagster", "pandas", "great_expectations", "openlineage", "requests"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
