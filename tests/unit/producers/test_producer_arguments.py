"""Arguments that a producer cannot use: refused at the call, without Kafka, with the argument's name."""

from typing import Any, cast

import pytest

import tidegate
from platform_defs.errors import BadInput
from platform_defs.producer_options.config import choose
from platform_defs.producers.message import Message
from platform_defs.producers.producer import Producer
from platform_defs.producers.undelivered import Attempt

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize("preset", ["asynchronous", "synchronous", "fire_and_forget"])
def test_a_transaction_needs_its_preset(preset: str) -> None:
    with (
        pytest.raises(BadInput, match=f"needs the preset transactional; this producer has {preset}") as refused,
        tidegate.Producer("t", preset, options=NOWHERE).transaction(),
    ):
        pass
    assert refused.value.field == "preset"


@pytest.mark.parametrize("options", [{}, {"bootstrap.servers": ""}, {"linger.ms": 5}])
def test_options_without_an_address_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"no bootstrap\.servers") as refused:
        tidegate.Producer("t", options=options)
    assert refused.value.field == "options"


def test_a_transactional_producer_needs_an_id_of_its_own() -> None:
    """With a default, the second of two programs would fence the first."""
    with pytest.raises(BadInput, match=r"needs a client_id of its own") as refused:
        tidegate.Producer("t", "transactional", options=NOWHERE)
    assert refused.value.field == "client_id"
    tidegate.Producer("t", "transactional", options=NOWHERE, client_id="shop.orders")


def test_the_alias_of_the_address_is_one() -> None:
    tidegate.Producer("t", options={"metadata.broker.list": "127.0.0.1:1"})


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("text", "message"),
        (b"bytes", "message"),
        ((b"value",), "message"),
        (None, "message"),
        (Message(b"", headers=cast("Any", {"ab": b"1"})), "headers"),
        (Message(b"", headers=cast("Any", None)), "headers"),
        (Message(b"", headers=cast("Any", "ab")), "headers"),
        (Message(b"", headers=cast("Any", [["a", b"1"]])), "headers"),
        (Message(b"", headers=cast("Any", [("a", b"1", b"2")])), "headers"),
        (Message(b"", headers=cast("Any", [("a", 1)])), "headers"),
        (Message(b"", headers=cast("Any", [(1, b"1")])), "headers"),
        (Message(b"", headers=[("\ud800", b"1")]), "headers"),
        (Message(cast("Any", 1)), "value"),
        (Message(cast("Any", {})), "value"),
        (Message(b"", cast("Any", 1)), "key"),
        (Message(b"", partition=cast("Any", "1")), "partition"),
        (Message(b"", partition=2**40), "message"),
        (Message(b"", timestamp_ms=cast("Any", 1.5)), "timestamp_ms"),
        (Message(b"", timestamp_ms=2**70), "message"),
    ],
)
def test_a_message_of_another_form_is_refused(message: Any, field: str) -> None:
    for send in ("send", "send_and_wait"):
        producer = tidegate.Producer("t", options=NOWHERE)
        with pytest.raises(BadInput) as refused:
            getattr(producer, send)(message)
        assert (refused.value.field, producer.sent) == (field, 0)


def test_a_key_of_another_type_is_refused_by_our_own_partitioner_too() -> None:
    producer = Producer(NOWHERE, "t", choose("asynchronous", {"partitioner": "keyed-crc32"}), partitions=4)
    with pytest.raises(BadInput) as refused:
        producer.send(Message(b"", cast("Any", 1)))
    assert refused.value.field == "key"


def test_headers_may_be_a_list() -> None:
    message = Message(b"", headers=[("a", b"1"), ("b", None)])
    assert Attempt(message, b"id").headers == (("a", b"1"), ("b", None), ("tidegate-id", b"id"))
    producer = tidegate.Producer("t", options=NOWHERE)
    producer.send(message)
    assert producer.sent == 1
