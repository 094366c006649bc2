"""Reports the signal that ended a command: the command runs in a child process, and its parent waits for it.

A C library that crashes ends its process, and so does the system if memory is short: nothing is left that could raise
an error. The child records what it reads in a file that outlives it.
"""

import ctypes
import faulthandler
import json
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Collection, Sequence
from tempfile import TemporaryFile
from typing import IO

from typing_extensions import override

from platform_defs.cli.output import print_error, print_json
from platform_defs.offsets import READING

KEPT = 4  # lines: others are read while one is compared
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_STOPPING = (*_FORWARDED, signal.SIGTSTP)
_PDEATHSIG = 1  # of prctl(2)


def continue_in_a_child(arguments: Sequence[str]) -> None:
    """Return in a child process. The parent waits for it, and exits with its exit code or, after it has reported what
    the child was reading, with 128 + the signal's number. The child has its own process group, so that a signal from
    the terminal reaches it once: forwarded. So are Ctrl-Z and the signal that continues the command after it.
    """
    note = TemporaryFile()  # noqa: SIM115  # open until both processes end
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # a signal that is ignored may not be waited for
    waited = {signal.SIGCHLD, *(number for number in _STOPPING if signal.getsignal(number) is not signal.SIG_IGN)}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, waited)  # before there is a child, so that none is missed
    child = os.fork()
    os.setpgid(child, child)  # in both processes: neither can go on before it
    if child:
        code = _wait(child, waited)
        if code < 0:
            _explain(signal.Signals(-code), json.loads(os.pread(note.fileno(), 1 << 16, 0) or b"[]"), arguments)
        sys.stdout.flush()
        os._exit(code if code >= 0 else 128 - code)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if sys.platform == "linux":  # ends with its parent, however that ends
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
    faulthandler.enable()  # writes the stack of Python to stderr
    logger = logging.getLogger(READING)
    logger.setLevel(logging.INFO)
    logger.addHandler(_Note(note))


class _Note(logging.Handler):
    """Keeps the last lines of a logger in a file."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file, self._lines = file, deque[str](maxlen=KEPT)

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())
        written = json.dumps([*self._lines]).encode()
        os.pwrite(self._file.fileno(), written.ljust(1 << 12), 0)


def _wait(child: int, waited: Collection[signal.Signals]) -> int:
    """Wait for the child, and pass on the other signals `waited` for, which are blocked: one that comes between two
    instructions is not missed, as it would be by a handler. Return the exit code, or -N if signal N ended the child.
    """
    while True:
        number = signal.sigwait(waited)
        if number == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
        elif number == signal.SIGTSTP:
            os.killpg(child, number)  # also the JVM, if the child has started one
            os.kill(os.getpid(), number)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})  # returns when the shell continues this process
            signal.pthread_sigmask(signal.SIG_BLOCK, {number})
            os.killpg(child, signal.SIGCONT)
        else:
            os.kill(child, number)  # it exists until it is waited for


def _explain(number: signal.Signals, reading: Sequence[str], arguments: Sequence[str]) -> None:
    read = f"It was last reading: {'; '.join(reading)}. " if reading else "It had not read any messages. "
    match number:
        case signal.SIGKILL:
            advice = (
                "The system usually does this when memory is low (see `dmesg`): free some memory, and run the "
                "command again"
            )
        case _ if number in _FORWARDED:
            advice = "Run the command again"
        case _:
            advice = (
                "Run the command again. If it ends at the same offsets, one of these messages crashes a library: "
                "report these offsets and the Python stack above"
            )
    command = f"tidegate {' '.join(arguments)}"
    text = f"{number.name} ({signal.strsignal(number)}) ended `{command}`. No table was changed. {read}{advice}."
    if any(one in " ".join(arguments) for one in ("-o json", "-ojson", "--output json", "--output=json")):
        print_json({"ok": False, "explanation": text, "ended_by": number.name, "reading": reading})
    print_error(text)
