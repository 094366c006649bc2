"""The end of `tidegate`: by an error, by a signal and by its child's exit."""

import json
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from platform_defs.cli.main import app
from tests.support.waiting import wait_for

pytestmark = pytest.mark.long


STARTS = """
import os, signal
from contextlib import suppress
from platform_defs.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a parent ignores it

def app(prog_name):
    with suppress(KeyboardInterrupt):
        {before}
    raise ValueError("expected an option to be a string")

main.app = app
main.main()
"""


def ended(before: str) -> "subprocess.CompletedProcess[str]":
    """Run the command; it executes `before`, then its client raises an error."""
    return subprocess.run(
        [sys.executable, "-c", STARTS.format(before=before)], capture_output=True, text=True, check=False
    )


def test_an_interrupt_that_a_client_answers_with_an_error_of_its_own_is_an_interrupt() -> None:
    done = ended("os.kill(os.getpid(), signal.SIGINT)")
    assert done.returncode == 130
    assert "interrupted, and then: ValueError: expected an option to be a string" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_an_error_without_an_interrupt_is_shown_as_it_is() -> None:
    done = ended("pass")
    assert done.returncode == 1
    assert "ValueError: expected an option to be a string" in done.stderr


VERIFIES = """
import logging, os, signal, sys
from platform_defs.cli import main
from platform_defs.offsets import READING

def app(prog_name):
    logging.getLogger(READING).info("partition %d of %s, from offset %d", 3, "t", 70)
    {then}

main.app = app
sys.argv = ["tidegate", "verify", "p", *{options}]
main.main()
"""


def verified(then: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run `tidegate verify`; it executes `then` once it reads."""
    text = VERIFIES.format(then=then, options=options)
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("number", "advice"),
    [(signal.SIGSEGV, "one of these messages crashes a library"), (signal.SIGKILL, "when memory is low")],
)
def test_a_command_that_a_signal_ends_says_so_and_what_it_was_reading(number: signal.Signals, advice: str) -> None:
    done = verified(f"os.kill(os.getpid(), {number.value})")
    assert done.returncode == 128 + number
    message = " ".join(done.stderr.split())
    assert f"{number.name} ({signal.strsignal(number)}) ended `tidegate verify p`" in message
    assert "It was last reading: partition 3 of t, from offset 70" in message
    assert advice in message
    assert done.stdout == ""


@pytest.mark.parametrize("option", [["-o", "json"], ["--output=json"]])
def test_json_of_a_command_that_a_signal_ends_is_one_document(option: list[str]) -> None:
    document = json.loads(verified("os.kill(os.getpid(), signal.SIGSEGV)", *option).stdout)
    assert (document["ok"], document["ended_by"]) == (False, "SIGSEGV")
    assert document["reading"] == ["partition 3 of t, from offset 70"]


def test_a_command_in_a_child_exits_as_the_child_does() -> None:
    done = verified("print('an answer'); sys.exit(10)")
    assert (done.returncode, done.stdout, done.stderr) == (10, "an answer\n", "")


STAYS = "print(os.getpid(), flush=True); signal.pause()"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_ends_the_command_ends_its_child(number: signal.Signals) -> None:
    listens = (  # even if its parent ignores them
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
    )
    text = listens + VERIFIES.format(then=STAYS, options=())
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = psutil.Process(int(process.stdout.readline()))
        try:
            process.send_signal(number)
            with suppress(psutil.NoSuchProcess):
                child.wait(30)
            assert process.wait(30) != 0
        finally:
            process.kill()


SLOW_PARENT = """
import os, time

fork = os.fork
os.fork = lambda: (child := fork()) and (time.sleep(1) or child)
"""


@pytest.mark.parametrize("before", ["", SLOW_PARENT], ids=["at once", "before the parent waits"])
def test_what_stops_the_command_stops_its_child_and_both_go_on(before: str) -> None:
    text = before + VERIFIES.format(
        then="print(os.getpid(), flush=True); sys.exit(int(sys.stdin.readline()))", options=()
    )
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    # Its own process group, as in a shell: the system does not stop an orphaned group.
    with subprocess.Popen([sys.executable, "-c", text], text=True, process_group=0, **pipes) as process:
        try:
            assert process.stdout is not None
            both = psutil.Process(process.pid), psutil.Process(int(process.stdout.readline()))
            for _ in range(2):
                process.send_signal(signal.SIGTSTP)
                wait_for(lambda: {one.status() for one in both} == {psutil.STATUS_STOPPED}, "both are stopped")
                process.send_signal(signal.SIGCONT)
                wait_for(lambda: psutil.STATUS_STOPPED not in {one.status() for one in both}, "both go on")
            process.communicate("7\n", timeout=30)
        finally:
            process.kill()
    assert process.returncode == 7


@pytest.mark.parametrize(
    ("command", "meant"),
    [("peek t --count 3", "--limit"), ("dlq list p --count 3", "--limit"), ("produce p --limit 3", "--count")],
)
def test_an_option_by_its_name_in_another_command_is_answered_with_its_name_in_this_one(
    command: str, meant: str
) -> None:
    done = CliRunner().invoke(app, command.split())
    assert done.exit_code == 2
    assert f"(Possible options: {meant})" in " ".join(done.stderr.split())
