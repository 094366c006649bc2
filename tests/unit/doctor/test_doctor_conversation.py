"""Anything may answer at an address: each answer is Kafka's or a trouble, and never another error."""

import socket
import struct
import time
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from platform_defs.doctor.findings.addresses import Address, Answer, Broker, Trouble
from platform_defs.doctor.probes.conversation import Conversation, Stopped

ASKED: list[Callable[[Conversation], object]] = [
    Conversation.api_versions,
    Conversation.metadata,
    lambda conversation: conversation.mechanisms("PLAIN"),
    lambda conversation: conversation.authenticate(b"token"),
    lambda conversation: conversation.settings_of_the_one_that_answers([1, 2], ["listeners"]),
]


def _heard(asked: Callable[[Conversation], object], answer: bytes) -> object:
    """Return the answer or the trouble that `asked` makes of these bytes."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(answer)
        theirs.shutdown(socket.SHUT_WR)
        try:
            return asked(Conversation(ours, time.monotonic() + 5))
        except Stopped as stopped:
            return stopped.trouble


@given(st.sampled_from(ASKED), st.binary(max_size=200), st.booleans())
def test_any_bytes_are_an_answer_or_a_trouble(
    asked: Callable[[Conversation], object], data: bytes, framed: bool
) -> None:
    found = _heard(asked, struct.pack(">ii", len(data) + 4, 1) + data if framed else data)
    if isinstance(found, Trouble):
        assert found.kind in ("not_kafka", "closed", "kafka_error", "login_refused")


def test_the_brokers_of_an_answer_are_read_with_the_clusters_id() -> None:
    broker = struct.pack(">ih5si", 7, 5, b"kafka", 9092) + struct.pack(">h1s", 1, b"a")
    body = struct.pack(">iii", 1, 0, 1) + broker + struct.pack(">h7s", 7, b"cluster") + struct.pack(">ii", 7, 0)
    found = _heard(Conversation.metadata, struct.pack(">i", len(body)) + body)
    assert found == Answer("cluster", (Broker(7, Address("kafka", 9092)),))


def test_what_a_web_server_answers_is_not_kafkas() -> None:
    found = _heard(Conversation.metadata, b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert found == Trouble("not_kafka", "the answer begins with b'HTTP'")
