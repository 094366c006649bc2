"""The last error of a connection to Kafka: a record batch above the client's limit, or another protocol's answer."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from confluent_kafka import Consumer, KafkaError

from platform_defs.errors import BadInput
from platform_defs.kafka.client.connection_log import ConnectionLog
from tests.support.waiting import wait_for

pytestmark = pytest.mark.long


@contextmanager
def server(answer: bytes) -> Iterator[str]:
    """Yield the address of a server that answers each request with `answer`."""

    class Answering(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(4096)
            self.request.sendall(answer)
            with suppress(ConnectionResetError):
                self.request.recv(4096)  # until the client closes

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Answering) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{listening.server_address[1]}"
        listening.shutdown()


def heard(answer: bytes) -> ConnectionLog:
    """Return what a client records when it refuses an answer for its size."""
    errors = list[KafkaError]()
    with server(answer) as address:
        consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "error_cb": errors.append})
        consumer.subscribe(["t"])
        wait_for(lambda: consumer.poll(0.1) is None and any("Invalid response size" in e.str() for e in errors))
        consumer.close()
    kept = ConnectionLog()
    kept(next(error for error in errors if "Invalid response size" in error.str()))
    return kept


def test_a_response_above_the_limit_names_the_setting() -> None:
    with pytest.raises(BadInput, match=r"134217728 bytes for t\[0\].*RECEIVE_MESSAGE_MAX_BYTES to at least 134218240"):
        heard((2**27).to_bytes(4) + bytes(60)).refuse_too_large("t[0]")


@pytest.mark.parametrize(
    "answer",
    [b"\x15\x03\x01\x00\x02\x02\x46", b"\x15\x03\x03\x00\x02\x02\x46", b"\x16\x03\x03\x00\x7a", b"HTTP/1.1 400 Bad"],
)
def test_an_answer_in_tls_or_http_is_no_response_above_the_limit(answer: bytes) -> None:
    heard(answer + bytes(60)).refuse_too_large("t[0]")
