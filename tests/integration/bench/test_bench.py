"""The benchmarks as a user starts them: what they leave behind, and what they print."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bench.paths import QUICK_AIMS
from bench.peers.measured import STARTS
from platform_defs.settings.settings import PROJECT_ROOT
from platform_defs.stack import dagster_dev as dagster
from platform_defs.stack import kafka_servers as kafka
from platform_defs.stack import postgres_server as postgres

pytestmark = pytest.mark.slow  # each starts its own stack

WITH_PEERS = os.environ.get("TIDEGATES_TEST_PEERS") == "1"
VERDICTS = {"met", "short"}


def bench(home: Path, *arguments: str) -> "subprocess.Popen[str]":
    own = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=PROJECT_ROOT,
        env={**own, "TIDEGATE_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def left(home: Path) -> list[object]:
    """Return the processes that run in this home."""
    return [*kafka.running(home), *postgres.running(home), *dagster.running(home)]


def verdict(message: str, figure: str) -> str:
    """Return the last column of that figure's row in the table."""
    (line,) = [line for line in message.splitlines() if line.startswith(f"| {figure} |")]
    return line.split("|")[-2].strip()


@pytest.mark.longest
def test_a_benchmark_that_a_time_limit_cuts_off_leaves_no_stack(tmp_path: Path) -> None:
    running = bench(tmp_path, "bench", "1000", "1")
    while not (kafka.running(tmp_path) and postgres.running(tmp_path)):
        assert running.poll() is None, running.communicate()
        time.sleep(0.1)
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=120)
    assert running.returncode == 128 + signal.SIGTERM
    assert left(tmp_path) == []


@pytest.mark.longest
@pytest.mark.timeout(900)
def test_verify_is_measured_and_nothing_is_left(tmp_path: Path) -> None:
    message, errors = bench(tmp_path, "bench.verify", "2000", "1").communicate(timeout=280)
    assert "2,000 messages of about 180 bytes" in message, errors
    assert sum(line.startswith(("| bank.transfers", "| append", "| upsert")) for line in message.splitlines()) == 3
    assert left(tmp_path) == []


@pytest.mark.longest
@pytest.mark.timeout(900)
def test_the_first_figures_are_measured_against_their_aims_and_nothing_is_left(tmp_path: Path) -> None:
    message, errors = bench(tmp_path, "bench", "1000", "1", "--quick").communicate(timeout=550)
    assert "1,000 messages of about 180 bytes" in message, errors
    assert {verdict(message, aim.what) for aim in QUICK_AIMS} <= VERDICTS
    assert verdict(message, "produce to row visible, idle before, a run that has just started, p50") in VERDICTS
    assert left(tmp_path) == []
    assert left(tmp_path / "bench-latency") == []


@pytest.mark.skipif(not WITH_PEERS, reason="installs Spark 4.0.0 and others: TIDEGATES_TEST_PEERS=1 runs it")
@pytest.mark.longest
@pytest.mark.timeout(900)
def test_peers_carry_the_same_topic_or_it_is_said_why_not_and_nothing_is_left(tmp_path: Path) -> None:
    message, errors = bench(tmp_path, "bench.peers", "1000", "1").communicate(timeout=850)
    assert verdict(message, "staged ÷ by hand") in VERDICTS, errors
    for peer in STARTS:
        assert f"| {peer} |" in message or f"left out: {peer}" in " ".join(errors.split()), errors
    assert left(tmp_path) == []
    assert [one for one in psutil.process_iter() if str(tmp_path) in " ".join(_command(one))] == []


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.longest
@pytest.mark.timeout(1_800)  # on a busy machine the first round alone may take its limit of ten minutes
def test_many_pipelines_at_once_are_measured_and_nothing_is_left(tmp_path: Path) -> None:
    message, errors = bench(tmp_path, "bench.many", "--pipelines", "5", "--minutes", "0.7", "--idle", "1").communicate()
    assert "5 pipelines over 5 topics of 10 partitions" in message, errors
    assert "| oldest unread message of a pipeline: median, worst |" in message
    assert "| pipelines that committed a batch |" in message, message
    assert "| a tick over all pipelines, 0 of them" not in message, message
    assert left(tmp_path / "bench-many") == []
    assert not (tmp_path / "bench-many").exists()


@pytest.mark.longest
@pytest.mark.timeout(900)
def test_weeks_of_a_trickle_are_measured_and_nothing_is_left(tmp_path: Path) -> None:
    message, errors = bench(tmp_path, "bench.growth", "--days", "2", "--batches", "200", "--rounds", "1").communicate(
        timeout=550
    )
    assert "400 batches of 10 messages" in message, errors
    assert "| after so many batches | batches kept |" in message
    assert left(tmp_path / "bench-growth") == []
    assert not (tmp_path / "bench-growth").exists()
