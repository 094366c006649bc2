"""The engine's view of the brokers, with librdkafka's mock cluster."""

from platform_defs.kafka.broker import BrokerPoll

# Brokers inside librdkafka, none of which is the controller.
WITHOUT_CONTROLLER = {"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": "3", "log_level": "0"}


def test_brokers_that_have_no_controller_just_now_are_reachable() -> None:
    """As during an election, or if one of several brokers hangs: Spark's tasks read on."""
    poll = BrokerPoll(WITHOUT_CONTROLLER)
    assert [poll(), poll()] == [None, None]
