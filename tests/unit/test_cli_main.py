"""How `tidegate` ends."""

import subprocess
import sys

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
    """The command, with what it does before its client raises an error."""
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
