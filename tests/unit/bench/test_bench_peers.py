"""`python -m bench.peers`: its conversation with a peer."""

import sys
from pathlib import Path

import psutil
import pytest

from bench.peers.asked import Task
from bench.peers.process import Asked
from platform_defs.errors import BadInput

TASK = Task(brokers="", topic="transfers", postgres_url="", table="t", messages=1)
CHATTY = """
import sys
from pathlib import Path
from bench.peers.asked import answer_each

def carry(task):
    print("a library says something")
    Path(sys.argv[1], task["table"]).write_text(task["topic"])

answer_each(carry)
"""
DIES = "from bench.peers.asked import answer_each; answer_each(lambda task: exit('no such topic'))"
WITH_A_CHILD = """
import subprocess, sys
from bench.peers.asked import answer_each

child = subprocess.Popen(["sleep", "600"])
answer_each(lambda task: None)
"""


def asked(code: str, folder: Path) -> Asked:
    return Asked([sys.executable, "-c", code], folder / "work", folder / "peer.log")


def test_a_peer_answers_whatever_its_library_prints(tmp_path: Path) -> None:
    peer = asked(CHATTY, tmp_path)
    peer.carry(TASK)
    assert (tmp_path / "work" / "t").read_text() == "transfers"
    peer.carry(Task({**TASK, "table": "again"}))
    assert (tmp_path / "work" / "again").exists()
    peer.close()
    assert "a library says something" in (tmp_path / "peer.log").read_text()
    assert not (tmp_path / "work").exists()


def test_a_peer_that_ends_is_not_waited_for_and_its_log_is_named(tmp_path: Path) -> None:
    peer = asked(DIES, tmp_path)
    with pytest.raises(BadInput, match=r"it ended; its log is .*peer\.log"):
        peer.carry(TASK)
    peer.close()
    assert "no such topic" in (tmp_path / "peer.log").read_text()


def test_what_a_peer_started_ends_with_it(tmp_path: Path) -> None:
    peer = asked(WITH_A_CHILD, tmp_path)
    (child,) = psutil.Process(peer._process.pid).children()
    peer.close()
    psutil.wait_procs([child], timeout=10)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
