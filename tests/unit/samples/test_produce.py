"""`tidegate produce` if it cannot produce: one sentence, soon, and no needless import."""

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from platform_defs.cli.main import app
from platform_defs.cli.output import Output
from platform_defs.errors import BadInput, BrokerAway
from platform_defs.producers.producer import Producer
from platform_defs.samples.cli import produce
from platform_defs.samples.cli.produce import chosen_for
from platform_defs.samples.mixture import Mixture, Sending
from platform_defs.samples.samples import Samples
from platform_defs.settings import contracts
from platform_defs.topics import admin as topic_admin
from platform_defs.topics.steps import Create
from tests.support.shipped import ASSETS

pytestmark = pytest.mark.long


NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}  # as Endpoints.kafka_options


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the shipped contracts and transforms, which produce reads instead."""
    for path in [*ASSETS.glob("*/*.odcs.yaml"), *ASSETS.glob("*/*.py")]:
        (tmp_path / path.parent.name).mkdir(exist_ok=True)
        shutil.copy(path, tmp_path / path.parent.name)
    monkeypatch.setattr(contracts, "find_contract", partial(contracts.find_contract, folder=tmp_path))
    return tmp_path


def refused(*arguments: str) -> str:
    error = CliRunner().invoke(app, ["produce", *arguments]).exception
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
        topic_admin.made_topic(NOWHERE, "t", lambda: Create("t", 4))
    assert capfd.readouterr().err == ""


def test_it_ends_with_the_first_message_that_is_not_acknowledged_and_says_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    contract = contracts.find_contract("bank_transfers")
    chosen = contract.producing.chosen(given={"message.timeout.ms": 1, "linger.ms": 0})
    sending = Sending(Producer(NOWHERE, "t", chosen, partitions=4), Mixture(Samples(contract, seed=1), 0.0))
    sending.send(3)
    sending.finish()
    sent = produce._answer(contract, sending, 0)
    assert sent["failed"] == {"_MSG_TIMED_OUT": sent["produced"]}
    assert (sent["delivered"], sent["latency_ms"]) == (0, {"p50": None, "p99": None, "max": None})
    with pytest.raises(typer.Exit) as ended:
        produce._report(sent, Output.json, "")
    assert ended.value.exit_code == 1
    assert f"Kafka did not acknowledge {sent['produced']} of" in capsys.readouterr().err
    with pytest.raises(typer.Exit):
        produce._report(
            {**sent, "delivered": 356, "failed": {"_MSG_TIMED_OUT": 407}, "produced": 763}, Output.human, ""
        )
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith(f"356 of 763 messages to topic {contract.topic} acknowledged in ")
    assert [line.split() for line in shown[1:4]] == [
        ["handed", "over", "763"],
        ["acknowledged", "356"],
        ["not", "acknowledged", "407"],
    ]
    assert not [line for line in shown if "good" in line]
    assert sent["messages_per_second"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--option linger.ms", "is NAME=VALUE, such as linger.ms=50"),
        ("--option acks=2", "acks must be one of 0, 1, all"),
        ("--partitioner hashed", "partitioner must be one of keyed"),
    ],
)
def test_an_option_that_cannot_be_is_wrong_usage(arguments: str, message: str) -> None:
    contract = contracts.find_contract("bank_transfers")
    kind, value = arguments.split(" ")
    options, partitioner = ([value], None) if kind == "--option" else ([], value)
    with pytest.raises(typer.BadParameter) as refused:
        chosen_for(contract, None, partitioner, options, {})
    assert message in str(refused.value)


def test_options_of_the_command_line_come_last() -> None:
    contract = contracts.find_contract("bank_transfers")
    chosen = chosen_for(contract, "leader", "round-robin", ["linger.ms=7"], {"linger.ms": "6", "retries": "1"})
    assert (chosen.preset.name, chosen.partitioner) == ("leader", "round-robin")
    assert (chosen.options["linger.ms"], chosen.options["retries"]) == (7, 100)


def test_it_imports_neither_spark_nor_dagster() -> None:
    code = """
import sys
from platform_defs.settings.contracts import find_contract
from platform_defs.samples.cli import produce
from platform_defs.samples.mixture import Mixture
from platform_defs.stack.endpoints import connection
from platform_defs.samples.mixture import Sending
from platform_defs.producers.producer import Producer
print(*sorted({"pyspark", "dagster", "pandas", "great_expectations", "openlineage", "requests"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_what_is_kept_is_said_also_where_an_error_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BrokerAway), produce.telling(lambda: "3 messages are kept"):
        raise BrokerAway("Kafka is away")
    assert capsys.readouterr().err == "3 messages are kept\n"
