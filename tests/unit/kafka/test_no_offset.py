"""librdkafka's answer if a partition's leader has just died: OFFSET_INVALID, without an error."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, OFFSET_INVALID, TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo

from platform_defs.errors import BrokerAway
from platform_defs.kafka import broker
from platform_defs.kafka.topic_views import KafkaTopics

PLACE = TopicPartition("payments", 2)
ASKED = broker._Asked(None, {}, "to describe payments", ())


def answered(offset: int) -> "Future[Any]":
    future = Future[Any]()
    future.set_result(ListOffsetsResultInfo(offset, -1, -1))
    return future


def test_a_run_asks_again_where_no_offset_came() -> None:
    with pytest.raises(broker._Transient, match="partition 2 of payments has no leader that answers"):
        broker._found(ASKED, PLACE, answered(OFFSET_INVALID))
    assert broker._found(ASKED, PLACE, answered(0)).offset == 0


def test_by_time_the_end_is_an_answer_and_no_offset_is_none() -> None:
    assert broker._found(ASKED, PLACE, answered(OFFSET_END), least=OFFSET_END).offset == OFFSET_END
    with pytest.raises(broker._Transient):
        broker._found(ASKED, PLACE, answered(OFFSET_INVALID), least=OFFSET_END)


def test_a_look_at_many_topics_takes_it_for_a_broker_that_is_away() -> None:
    looking = KafkaTopics({"bootstrap.servers": "127.0.0.1:1"})
    assert isinstance(looking._offset(answered(OFFSET_INVALID), "payments"), BrokerAway)
    assert looking._offset(answered(7), "payments").offset == 7
