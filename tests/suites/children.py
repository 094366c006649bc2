"""Child processes that answer one request at a time, and are started again after a crash: a crash is an answer."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")
_SPAWN = multiprocessing.get_context("spawn")
PATIENCE = 120  # seconds for one answer; a reader that needs longer hangs

Answer = Callable[[Any], Any]  # a function of a module, so that a child can import it


class DiedError(Exception):
    """The child gave no answer; the text says how it ended: `SIGSEGV`, `exit 1` or `hangs`."""


class Child:
    """A process that answers requests by `answer`."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._start()

    def _start(self) -> None:
        self._pipe, end = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(end, self._answer), daemon=True)
        self._process.start()
        end.close()

    def ask(self, request: Any) -> Any:
        """Return the answer. Raise DiedError if the process ended over it; the next request has a new process."""
        try:
            self._pipe.send(request)
            if self._pipe.poll(PATIENCE):
                return self._pipe.recv()
            how = "hangs"
        except (EOFError, OSError):
            how = ""
        self.close()
        code = self._process.exitcode or 0
        self._start()
        raise DiedError(how or (signal.Signals(-code).name if code < 0 else f"exit {code}"))

    def close(self) -> None:
        """End the process, whatever it does."""
        self._pipe.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


@contextmanager
def child(answer: Answer) -> Iterator[Child]:
    """Yield a child, and end it afterwards."""
    process = Child(answer)
    try:
        yield process
    finally:
        process.close()


def ask_in_halves(
    ask: Callable[[Sequence[T]], Sequence[U]], cases: Sequence[T], alone: Callable[[T, DiedError], U]
) -> Sequence[U]:
    """Return `ask(cases)`. Cases over which the process dies are halved until one is found, whose result is `alone`."""
    try:
        return ask(cases)
    except DiedError as died:
        if half := len(cases) // 2:
            return [*ask_in_halves(ask, cases[:half], alone), *ask_in_halves(ask, cases[half:], alone)]
        return [alone(cases[0], died)]


def _serve(pipe: Connection, answer: Answer) -> None:
    while True:
        try:
            request = pipe.recv()
        except EOFError:
            return
        pipe.send(answer(request))
