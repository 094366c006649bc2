"""The end of a benchmark: what it started is stopped, also when it is interrupted or ended by a time limit."""

import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from shutil import rmtree

from rich.console import Console

from platform_defs.cli.signals import handled
from platform_defs.settings.settings import settings
from platform_defs.stack import stack

say = Console(stderr=True).print  # the progress of a benchmark; stdout gets its answer
CUT_OFF = (signal.SIGTERM, signal.SIGHUP)  # sent by `timeout` and a closed terminal; Ctrl-C raises by itself


def ended_by_signals() -> AbstractContextManager[None]:
    """Let SIGTERM and SIGHUP run every `finally` inside, as Ctrl-C does."""
    return handled(CUT_OFF, _leave)


def undisturbed() -> AbstractContextManager[None]:
    """Ignore further signals inside, so that they do not cut the stopping short."""
    return handled((signal.SIGINT, *CUT_OFF), signal.SIG_IGN)


@contextmanager
def own_home(name: str, first: Callable[[Path], None] = lambda _home: None) -> Generator[Path]:
    """Set TIDEGATE_HOME to a folder below the one that was set; delete it at the end. `first` tidies it."""
    before, home = os.environ.get("TIDEGATE_HOME"), settings().home / name
    os.environ["TIDEGATE_HOME"] = str(home)
    try:
        first(home)
        yield home
    finally:
        with undisturbed():
            rmtree(home, ignore_errors=True)
        os.environ.pop("TIDEGATE_HOME")
        if before is not None:
            os.environ["TIDEGATE_HOME"] = before


@contextmanager
def stack_up(progress: Callable[[str], None]) -> Generator[None]:
    """Run the stack; stop it at the end unless it was running before."""
    before = stack.status()
    ours = before.kafka.address is None or before.postgres.address is None
    try:
        stack.up(progress)
        yield
    finally:
        if ours:
            with undisturbed():
                stack.down()


def _leave(number: int, _frame: object) -> None:
    sys.exit(128 + number)
