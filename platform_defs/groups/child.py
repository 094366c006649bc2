"""GroupClient in a child process, since librdkafka may end the process that queries consumer groups.

A request to a coordinator whose broker stops at that moment fails an assertion (`eonce->refcnt > 0`,
https://github.com/confluentinc/librdkafka/issues/4605, also in 2.16): tested with 120 groups, the death of one of three
brokers is enough. Without the child that would end Dagster's code server, or a watch.
"""

import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import IO, Any, Concatenate, ParamSpec, TypeVar, cast

from platform_defs.errors import BadInput, BrokerAway, InternalError, TidegateError
from platform_defs.groups.client import GroupClient, Listing
from platform_defs.kafka.group_state import Bounds, Group, Place
from platform_defs.settings.settings import settings

COMMAND = (sys.executable, "-P", "-m", "platform_defs.groups.child")  # -P: imports nothing of the working directory
TRIES = 4  # of a query, each by a new process
PAUSE = 0.5  # seconds between two of them
ISSUE = ", a known crash while a broker stops: confluentinc/librdkafka issue 4605"
P = ParamSpec("P")
T = TypeVar("T")


class _Ended(Exception):  # inside this module only
    """The child has ended without an answer. The message is its last output, or its exit code."""

    def __init__(self, message: str, *, by_signal: bool) -> None:
        super().__init__(message)
        self.by_signal = by_signal


@dataclass
class KafkaGroups:
    """GroupClient's methods, with its arguments and errors. The child starts with the first call and ends with this
    object. If it ends without an answer, another one is queried; a change is not tried again.

    Raises BadInput if no process can be started.
    """

    options: Mapping[str, Any] = field(repr=False)  # may contain a password
    timeout: float = 10.0
    _child: "_Child | None" = None
    _end: Callable[[], object] | None = None  # ends the child; runs only once
    _lock: Lock = field(default_factory=Lock, repr=False)  # one call at a time

    def listing(self) -> Listing:
        return self._ask(GroupClient.listing)

    def describe(self, names: Iterable[str]) -> dict[str, Group | TidegateError]:
        return self._ask(GroupClient.describe, [*names])

    def committed(self, names: Iterable[str], *, stable: bool = False) -> dict[str, dict[Place, int] | TidegateError]:
        return self._ask(GroupClient.committed, [*names], stable=stable)

    def bounds(self, places: Iterable[Place]) -> dict[Place, Bounds | TidegateError]:
        return self._ask(GroupClient.bounds, [*places])

    def offsets_at(
        self, bounds: Mapping[Place, Bounds], milliseconds: Mapping[Place, int]
    ) -> dict[Place, int | TidegateError]:
        return self._ask(GroupClient.offsets_at, bounds, milliseconds)

    def partitions(self, topics: Sequence[str]) -> dict[str, tuple[str, tuple[int, ...]]]:
        return self._ask(GroupClient.partitions, topics)

    def move(self, group: str, offsets: Mapping[Place, int]) -> None:
        self._change(GroupClient.move, group, offsets)

    def delete(self, group: str) -> None:
        self._change(GroupClient.delete, group)

    def _ask(self, method: Callable[Concatenate[GroupClient, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        reason = ""
        for number in range(TRIES):
            if number:
                time.sleep(PAUSE)  # brokers that come and go are often back by then
            try:
                return self._call(method, *args, **kwargs)
            except _Ended as error:
                if not error.by_signal:
                    raise InternalError.of("the process that queries consumer groups", str(error)) from error
                reason = str(error)
        raise BrokerAway(
            f"Kafka could not be queried for consumer groups: the helper process ended {TRIES} times ({reason}). "
            f"{settings().kafka_advice}"
        )

    def _change(self, method: Callable[Concatenate[GroupClient, P], None], *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            self._call(method, *args, **kwargs)
        except _Ended as error:
            raise BrokerAway(
                f"the helper process that changes the consumer group ended ({error}), so it is unknown whether the "
                "group was changed. To check: tidegate groups describe"
            ) from error

    def _call(self, method: Callable[Concatenate[GroupClient, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            if self._child is not None and self._child.has_ended:
                self._forget()
            if self._child is None:
                try:
                    self._child = _Child(self.options, self.timeout)
                except OSError as error:
                    raise BadInput(f"the helper process for consumer groups cannot be started: {error}") from error
                self._end = weakref.finalize(self, self._child.end)
            try:
                answer, error = self._child.call(method, args, kwargs)
            except BaseException:  # also an interrupt: a later answer of the child belongs to no call
                self._forget()
                raise
        if error is not None:
            raise error
        return answer

    def _forget(self) -> None:
        if self._end is not None:
            self._end()
        self._child = self._end = None


class _Child:
    """A process that runs `serve`."""

    def __init__(self, options: Mapping[str, Any], timeout: float) -> None:
        # librdkafka's log for the option debug is for the user, and unbounded.
        self._errors = None if "debug" in options else tempfile.TemporaryFile()  # noqa: SIM115  # closed by `end`
        reading, writing = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*COMMAND, str(writing)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},  # as this process imports
                stdin=subprocess.PIPE,
                stdout=2 if self._errors is None else self._errors,  # a callback's output is not an answer
                stderr=self._errors,
                pass_fds=[writing],
                start_new_session=True,  # Ctrl-C is for the parent, which closes stdin
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._calls, self._answers = cast("IO[bytes]", self._process.stdin), os.fdopen(reading, "rb")
        self._options = dict(options), timeout

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def call(self, method: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, TidegateError | None]:
        """Return what the method returned and what it raised. Raises _Ended."""
        try:
            if self._options is not None:
                pickle.dump(self._options, self._calls)
                self._options = None
            pickle.dump((method, args, kwargs), self._calls)
            self._calls.flush()
            return pickle.load(self._answers)  # noqa: S301  # by `serve`
        except (EOFError, OSError, pickle.PickleError) as error:
            raise self._ended() from error

    def end(self) -> None:
        """End the process, whatever it is doing: it has nothing that has to be kept."""
        self._process.kill()
        self._process.wait()
        self._answers.close()
        if self._errors is not None:
            self._errors.close()
        try:
            self._calls.close()
        except OSError:  # a call that could not be written
            return

    def _ended(self) -> _Ended:
        code = self._process.wait()
        last = ""
        if self._errors is not None:
            self._errors.seek(0)
            last = self._errors.read().decode(errors="replace").strip().rpartition("\n")[2]
        issue = ISSUE if code == -signal.SIGABRT else ""
        return _Ended(f"{last or f'exit code {code}'}{issue}", by_signal=code < 0)


def serve(descriptor: int) -> None:
    """Read calls of GroupClient's methods from stdin and write their results or errors to `descriptor`, pickled, until
    the parent closes its end, or has ended.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # an assertion of librdkafka leaves no core file behind
    calls = sys.stdin.buffer
    options, timeout = pickle.load(calls)  # noqa: S301  # by the parent
    client = GroupClient(options, timeout)
    with os.fdopen(descriptor, "wb") as answers:
        while True:
            try:
                method, args, kwargs = pickle.load(calls)  # noqa: S301  # by the parent
            except EOFError:
                return
            answer: Any = None
            error: TidegateError | None = None
            try:
                answer = method(client, *args, **kwargs)
            except TidegateError as raised:
                error = raised
            except Exception as raised:  # noqa: BLE001  # a mistake of ours, raised again by the parent
                error = InternalError.of("a question about consumer groups", raised)
            pickle.dump((answer, error), answers)
            answers.flush()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
