"""Kafka's protocol without a client, for `tidegate doctor`: a few requests over a connection that the caller opened.

A Kafka client goes on to advertised addresses, retries, and reports only the last error; the doctor has to know what
one address answers. The request versions have no tagged fields, and Kafka 1.0 to 4.3 understand them (KIP-896).
https://kafka.apache.org/43/design/protocol/
"""

import socket
import ssl
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from platform_defs.doctor.findings.addresses import Address, Answer, Broker, Kind, Trouble

LONGEST = 16 * 1024 * 1024  # bytes of an answer; a longer one is not Kafka's
TLS_ALERT = b"\x15\x03"  # the first bytes of a TLS server's answer to a plaintext client
BROKER = 4  # the resource type of a broker's configuration
T = TypeVar("T")


class Stopped(Exception):  # inside resources/ only: the address is of no use
    """Carries the trouble."""

    def __init__(self, kind: Kind, message: object, more: Sequence[str] = ()) -> None:
        super().__init__(kind, message)
        self.trouble = Trouble(kind, str(message), tuple(more))


class Conversation:
    """Sends requests over `connection` and waits for the answers, until `deadline` (of time.monotonic()) at the latest.

    Every method raises Stopped.
    """

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection, self._deadline, self._asked = connection, deadline, 0

    def api_versions(self) -> None:
        """Request what every Kafka broker answers to everyone, before any login."""
        if (code := self._ask(18, 0).number("h")) != 0:
            raise Stopped("kafka_error", f"error {code} in response to ApiVersions")

    def mechanisms(self, wanted: str) -> tuple[int, tuple[str, ...]]:
        """Return the error code of SaslHandshake, 0 if the mechanism may be used, and the listener's mechanisms."""
        answer = self._ask(17, 1, _text(wanted))
        return answer.number("h"), tuple(name or "" for name in answer.many(answer.text))

    def authenticate(self, token: bytes) -> bytes:
        """Return the server's answer to one step of SASL."""
        answer = self._ask(36, 0, struct.pack(">i", len(token)) + token)
        if code := answer.number("h"):
            raise Stopped("login_refused", answer.text() or f"error {code}")
        answer.text()
        return answer.blob()

    def metadata(self) -> Answer:
        """Return the cluster's id and each broker's advertised address. Asks about no topic."""
        answer = self._ask(3, 4, struct.pack(">i?", 0, False))
        answer.number("i")
        brokers = answer.many(lambda: _broker(answer))
        return Answer(answer.text(), tuple(brokers))

    def settings_of_the_one_that_answers(
        self, brokers: Sequence[int], names: Sequence[str]
    ) -> tuple[int, dict[str, str]] | None:
        """Return the number of the broker that answers here, and these settings of it.

        A broker describes itself and refuses to describe any other (INVALID_REQUEST), so the request names all. None if
        that is inconclusive: without the right DescribeConfigs on the cluster, or if one answers for others.
        """
        keys = struct.pack(">i", len(names)) + b"".join(map(_text, names))
        wanted = (struct.pack(">b", BROKER) + _text(str(number)) + keys for number in brokers)
        answer = self._ask(32, 1, struct.pack(">i", len(brokers)) + b"".join(wanted) + b"\0")
        answer.number("i")
        described = [one for one in answer.many(lambda: _described(answer)) if one is not None]
        return described[0] if len(described) == 1 else None

    def _ask(self, key: int, version: int, body: bytes = b"") -> "Reader":
        self._asked += 1
        request = struct.pack(">hhi", key, version, self._asked) + _text("tidegate-doctor") + body
        try:
            self._connection.settimeout(self._left())
            self._connection.sendall(struct.pack(">i", len(request)) + request)
            return self._answer()
        except TimeoutError as error:
            raise Stopped("silent", error) from error
        except ssl.SSLError as error:  # an alert that comes only with the first answer, as for a missing certificate
            raise Stopped("tls", error.reason or error) from error
        except OSError as error:
            raise Stopped("closed", error.strerror or error) from error

    def _answer(self) -> "Reader":
        head = self._receive(4)
        (length,) = struct.unpack(">i", head)
        if head.startswith(TLS_ALERT):
            raise Stopped("closed", "a TLS alert")
        if not 4 <= length <= LONGEST:
            raise Stopped("not_kafka", f"the answer begins with {head!r}")
        answer = Reader(self._receive(length))
        if answer.number("i") != self._asked:
            raise Stopped("not_kafka", "the answer belongs to another request")
        return answer

    def _receive(self, length: int) -> bytes:
        found = bytearray()
        while len(found) < length:
            self._connection.settimeout(self._left())
            if not (piece := self._connection.recv(min(length - len(found), 65_536))):
                raise Stopped("closed", "the connection was closed")
            found += piece
        return bytes(found)

    def _left(self) -> float:
        if (left := self._deadline - time.monotonic()) <= 0:
            raise TimeoutError("no answer in time")
        return left


@dataclass
class Reader:
    """Takes the fields of an answer in their order. Raises Stopped for an answer that is not Kafka's."""

    data: bytes
    at: int = 0

    def number(self, form: str) -> int:
        """Return a big-endian number: `b`, `h` or `i` for 1, 2 or 4 bytes."""
        (found,) = struct.unpack(f">{form}", self._take(struct.calcsize(form)))
        return found

    def text(self) -> str | None:
        """Return a nullable string."""
        return None if (length := self.number("h")) < 0 else self._take(length).decode(errors="replace")

    def blob(self) -> bytes:
        """Return bytes that have their length in front."""
        return self._take(max(0, self.number("i")))

    def many(self, one: Callable[[], T]) -> list[T]:
        return [one() for _ in range(self.number("i"))]

    def _take(self, length: int) -> bytes:
        taken = self.data[self.at : self.at + length]
        if len(taken) < length:
            raise Stopped("not_kafka", "the answer is cut off")
        self.at += length
        return taken


def _text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _broker(answer: Reader) -> Broker:
    number, host, port = answer.number("i"), answer.text(), answer.number("i")
    answer.text()  # its rack
    return Broker(number, Address(host or "", port))


def _described(answer: Reader) -> tuple[int, dict[str, str]] | None:
    code = answer.number("h")
    answer.text()
    answer.number("b")
    number = answer.text()
    settings = dict(answer.many(lambda: _setting(answer)))
    return (int(number), settings) if code == 0 and number is not None and number.isdecimal() else None


def _setting(answer: Reader) -> tuple[str, str]:
    name, value = answer.text(), answer.text()
    for form in "bbb":  # read-only, source, sensitive
        answer.number(form)
    answer.many(lambda: (answer.text(), answer.text(), answer.number("b")))  # synonyms
    return name or "", value or ""
