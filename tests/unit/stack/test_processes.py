"""When a process has ended, and how long one is waited for."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from platform_defs.stack.processes import is_running, is_up
from tests.support.waiting import wait_for

# The main thread ends alone, as in a JVM that is being killed; the other waits for stdin to be closed.
HALF_ENDED = """
import ctypes, platform, sys, threading
threading.Thread(target=sys.stdin.read).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux' exit of one thread")
def test_a_zombie_whose_threads_still_hold_its_files_is_running() -> None:
    child = subprocess.Popen([sys.executable, "-c", HALF_ENDED], stdin=subprocess.PIPE)
    process = psutil.Process(child.pid)
    wait_for(lambda: process.status() == psutil.STATUS_ZOMBIE, "the main thread has ended")
    assert is_running(process)
    assert child.stdin is not None
    child.stdin.close()
    wait_for(lambda: not is_running(process), "all threads have ended")
    child.wait()


def test_a_server_that_makes_no_progress_for_a_while_is_waited_for_until_it_answers() -> None:
    child = subprocess.Popen([sys.executable, "-c", "print(1); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process, reports = psutil.Process(child.pid), list[str]()
    process.send_signal(signal.SIGSTOP)

    def report(text: str) -> None:
        reports.append(text)
        if len(reports) == 3:
            process.send_signal(signal.SIGCONT)

    def answers() -> bool:
        return len(reports) >= 3 and child.stdout is not None and child.stdout.readline() == b"1\n"

    assert is_up("It", [process], answers, report, report=0.01)
    assert all(text.startswith("It is still starting, after 0") for text in reports)
    child.communicate()
    assert not is_up("It", [process], lambda: True, report)
