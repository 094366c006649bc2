"""GroupClient in a child process, since librdkafka may end the process that asks about consumer groups.

A request to a coordinator whose broker goes away at that moment fails an assertion (`eonce->refcnt > 0`,
https://github.com/confluentinc/librdkafka/issues/4605, also in 2.16): tried with 120 groups, the death of one of three
brokers is enough. Without the child that would end Dagster's code server, or a watch.
"""

import pickle
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import IO, Any, Concatenate, ParamSpec, TypeVar, cast

from platform_defs.errors import BrokerAway, InternalError, TidegateError
from platform_defs.kafka.groups import Bounds, Group, Place
from resources.kafka.groups.client import GroupClient, Listing

COMMAND = (sys.executable, "-m", "resources.kafka.groups.worker")
TRIES = 4  # of a question, each by a new process
PAUSE = 0.5  # seconds between two of them
P = ParamSpec("P")
T = TypeVar("T")


class _Ended(Exception):  # inside this module only
    """The child has ended without an answer. The message is the signal, or what it wrote to stderr."""

    def __init__(self, message: str, *, by_signal: bool) -> None:
        super().__init__(message)
        self.by_signal = by_signal


@dataclass
class KafkaGroups:
    """GroupClient's methods, with its arguments and errors. The child starts with the first call and ends with this
    object. Where it ends without an answer, another one is asked; a change is not tried again.
    """

    options: Mapping[str, Any] = field(repr=False)  # they may hold a password
    timeout: float = 10.0
    _child: "_Child | None" = None
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
                time.sleep(PAUSE)  # brokers that come and go are often there by then
            try:
                return self._call(method, *args, **kwargs)
            except _Ended as error:
                if not error.by_signal:
                    raise InternalError.of("the process that asks about consumer groups", str(error)) from error
                reason = str(error)
        raise BrokerAway(
            f"Kafka could not be asked about consumer groups: librdkafka ended its process {TRIES} times ({reason}), "
            "as it does while a broker goes away (confluentinc/librdkafka issue 4605). Try again when the brokers are "
            "up (`tidegate stack status`)"
        )

    def _change(self, method: Callable[Concatenate[GroupClient, P], None], *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            self._call(method, *args, **kwargs)
        except _Ended as error:
            raise BrokerAway(
                f"librdkafka ended the process that changes a consumer group ({error}; confluentinc/librdkafka issue "
                "4605), so it is not known whether the group was changed: tidegate groups describe shows it"
            ) from error

    def _call(self, method: Callable[Concatenate[GroupClient, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            if self._child is None:
                self._child = _Child(self.options, self.timeout)
                weakref.finalize(self, self._child.end)
            try:
                answer, error = self._child.call(method, args, kwargs)
            except BaseException:  # also an interrupt: what the child answers later belongs to no call
                self._child.end()
                self._child = None
                raise
        if error is not None:
            raise error
        return answer


class _Child:
    """A process that runs worker.py."""

    def __init__(self, options: Mapping[str, Any], timeout: float) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the child
        self._process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for the parent, which closes stdin
        )
        self._calls, self._answers = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        self._options = dict(options), timeout

    def call(self, method: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, TidegateError | None]:
        """Return what the method returned and what it raised. Raises _Ended."""
        try:
            if self._options is not None:
                pickle.dump(self._options, self._calls)
                self._options = None
            pickle.dump((method, args, kwargs), self._calls)
            self._calls.flush()
            return pickle.load(self._answers)  # noqa: S301  # by worker.py
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise self._ended() from error

    def end(self) -> None:
        """End the process, whatever it is doing: it holds nothing that has to be kept."""
        self._process.kill()
        self._process.wait()
        for file in (self._answers, self._errors):
            file.close()
        try:
            self._calls.close()
        except OSError:  # of a call that could not be written
            return

    def _ended(self) -> _Ended:
        code = self._process.wait()
        self._errors.seek(0)
        written = self._errors.read().decode(errors="replace").strip().splitlines()
        last = written[-1] if written else ""
        return _Ended(last or f"exit code {code}", by_signal=code < 0)
