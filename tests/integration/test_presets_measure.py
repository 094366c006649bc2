"""`tidegate presets measure`, with brokers that it starts itself: real faults, and nothing left running."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from resources.local import kafka, stack, three_brokers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
MEASURE = [sys.executable, "-c", "from platform_defs.cli.main import main; main()", "presets", "measure"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of its own; nothing runs over it afterwards."""
    for name in [name for name in os.environ if name.startswith("TIDEGATE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    yield tmp_path
    stack.down()


def measured(*arguments: str) -> dict[str, dict[str, Any]]:
    """The answer by preset."""
    done = subprocess.run([*MEASURE, *arguments, "-o", "json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {one["preset"]: one for one in json.loads(done.stdout)}


def running(home: Path) -> list[int]:
    return [process.pid for process in kafka.running(home / three_brokers.FOLDER)]


def test_what_the_leader_alone_acknowledged_is_lost_with_it(home: Path) -> None:
    found = measured("--fault", "leader_loss", "--preset", "leader", "--preset", "asynchronous")
    assert {one["fired"] for one in found.values()} == {1}
    assert (found["leader"]["lost"] > 0, found["leader"]["failed"]) == (True, 0)
    assert (found["asynchronous"]["lost"], found["asynchronous"]["doubled"]) == (0, 0)
    assert running(home) == []
    assert not (home / three_brokers.FOLDER).exists()


def test_a_retry_after_a_cut_answer_doubles_unless_the_producer_is_idempotent(home: Path) -> None:
    found = measured("--fault", "cut_answers", "--preset", "at_least_once", "--preset", "asynchronous")
    assert found["at_least_once"]["doubled"] > 0
    assert (found["asynchronous"]["doubled"], found["asynchronous"]["lost"]) == (0, 0)


def test_one_request_in_flight_does_not_keep_the_order(home: Path) -> None:
    found = measured("--fault", "isr_flap", "--preset", "one_in_flight", "--preset", "asynchronous", "--rounds", "2")
    assert found["one_in_flight"]["reordered"] > 0
    assert found["asynchronous"]["reordered"] == 0


def test_half_a_transaction_of_a_fenced_producer_is_not_read(home: Path) -> None:
    (found,) = measured("--fault", "zombie").values()
    assert (found["fired"], found["ghosts"], found["lost"]) == (1, 0, 0)


def test_what_a_killed_measurement_leaves_running_is_stopped_with_the_stack(home: Path) -> None:
    arguments = [*MEASURE, "--preset", "leader", "--fault", "cut_answers", "--rounds", "1000"]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "round 2" in line)
        process.kill()
    assert len(running(home)) == 3
    stack.down()
    assert running(home) == []
    assert not (home / three_brokers.FOLDER).exists()


def test_an_interrupted_measurement_leaves_nothing_running(home: Path) -> None:
    arguments = [*MEASURE, "--preset", "leader", "--fault", "cut_answers", "--rounds", "1000"]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, process_group=0) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "round 2" in line)
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        assert process.wait(60) == 130
    assert running(home) == []
