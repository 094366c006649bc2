"""One address of the registry, by confluent-kafka's REST client: its answers are bounded in time and in bytes."""

import logging
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.common import _httpx_compat  # pyright: ignore[reportPrivateUsage]

Answer = TypeVar("Answer")
httpx: Any = _httpx_compat.httpx  # the one of two packages that the client uses
logging.getLogger(httpx.__name__).setLevel(logging.WARNING)  # below, it logs each address with the password in it

LARGEST_ANSWER = 16_000_000  # bytes
_NUMBERS = (
    *("timeout", "cache.capacity", "cache.latest.ttl.sec"),
    *("max.retries", "retries.wait.ms", "retries.max.wait.ms"),
)


class Server:
    """One address. Connections are kept; several threads may ask."""

    def __init__(self, options: Mapping[str, str], one_try: float) -> None:
        """`one_try`: seconds for one request. Raises ValueError, TypeError or OSError for options that the client does
        not take.
        """
        self._options, self._one_try, self._lock = options, one_try, Lock()
        self._client = _client(options, one_try)

    def ask(self, question: Callable[[SchemaRegistryClient], Answer], seconds: float) -> Answer:
        """Return or raise what `question` does; TimeoutError after `seconds`."""
        client = self._client
        try:
            return within(seconds, lambda: question(client))
        except TimeoutError:  # stop reading the answer; the client's other queries will be retried
            with self._lock:
                if self._client is client:
                    self._client = _client(self._options, self._one_try)
            client.close()
            raise


def within(seconds: float, call: Callable[[], Answer]) -> Answer:
    """Return or raise what `call` does; TimeoutError after `seconds`, however slowly the answer arrives."""
    answered: SimpleQueue[tuple[bool, Any]] = SimpleQueue()

    def ask() -> None:
        try:
            answered.put((True, call()))
        except Exception as error:  # noqa: BLE001  # raised again in the caller
            answered.put((False, error))

    Thread(target=ask, daemon=True, name="tidegate-registry").start()
    try:
        good, answer = answered.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"no complete answer within {seconds:.0f} s") from None
    if not good:
        raise answer
    return answer


class Unreadable(Exception):
    """A complete answer about one schema that is not a readable schema."""


def request(client: SchemaRegistryClient, path: str, *body: Mapping[str, Any], method: str = "get") -> Any:
    """Return the registry's JSON unchanged. The client's own classes refuse what they do not know (new rules), and drop
    the registry's reasons. `body`: of a GET, the query.
    """
    rest: Any = client
    return getattr(rest._rest_client, method)(path, *body)


class _Bounded(httpx.SyncByteStream):
    """The body of an answer, decoded, within the limits of length and time."""

    def __init__(self, body: Any, seconds: float, encoding: str) -> None:
        self._body, self._seconds, self._encoding = body, seconds, encoding

    def __iter__(self) -> Iterator[bytes]:
        until, length, decoder = time.monotonic() + self._seconds, 0, None
        if self._encoding in ("gzip", "x-gzip", "deflate"):  # either, by their headers; httpx's own has no limit
            decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)
        elif self._encoding not in ("", "identity"):
            raise httpx.DecodingError(f"the answer is encoded as {self._encoding}, although identity was requested")
        for read in self._body:
            try:
                piece = decoder.decompress(read, LARGEST_ANSWER + 1 - length) if decoder else read
            except zlib.error as error:
                raise httpx.DecodingError(f"the answer is not {self._encoding}: {error}") from error
            length += len(piece)
            if length > LARGEST_ANSWER:
                raise Unreadable(f"the answer is longer than {LARGEST_ANSWER:,} bytes")
            if time.monotonic() > until:
                raise httpx.ReadError(f"the answer took longer than {self._seconds:.0f} s")
            yield piece

    def close(self) -> None:
        self._body.close()


def _client(options: Mapping[str, str], one_try: float) -> SchemaRegistryClient:
    given = {name: float(value) if name in _NUMBERS else value for name, value in options.items()}
    client = SchemaRegistryClient({"timeout": one_try, "max.retries": 0, **given})

    def bound(response: Any) -> None:
        encoding = response.headers.pop("Content-Encoding", "").strip().lower()
        response.stream = _Bounded(response.stream, one_try, encoding)

    rest: Any = client
    session = rest._rest_client.session  # there is no option for either
    session.event_hooks["response"].append(bound)
    session.headers["Accept-Encoding"] = "identity"  # an answer that is encoded nevertheless is decoded by _Bounded
    return client
