"""The topic as it is now, from brokers that may lag: a stale answer is never used."""

from collections.abc import Sequence

from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_attempt, wait_exponential

from platform_defs.contract.model.contract import Contract
from platform_defs.engine.interfaces.broker_and_auditor import Broker
from platform_defs.errors import BrokerAway, Halt
from platform_defs.offsets import PendingBatch, Position, TopicView, halt_for_log, outdated

TRIES = 4
SECONDS = 0.5  # before the second try; then twice as long each time


def describe(
    broker: Broker, topic: str, read: Sequence[Position], *, others: bool = True, configured: bool = True
) -> TopicView:
    """Return the topic from an answer that includes everything that was `read`; ask again if it does not.

    Without `others` it has no partitions but those; `configured`: with what `Broker.describe` reads of its
    configuration.

    Raises BrokerAway if no such answer comes, and what `Broker.describe` raises.
    """
    partitions = None if others else {at.partition for at in read}
    retrying = Retrying(
        retry=retry_if_result(lambda view: outdated(read, view) is not None),
        stop=stop_after_attempt(TRIES),
        wait=wait_exponential(SECONDS),
        retry_error_callback=lambda state: _give_up(topic, read, state),
    )
    return retrying(broker.describe, topic, partitions, configured=configured)


def describe_with_halt(
    broker: Broker, contract: Contract, positions: Sequence[Position], pending: PendingBatch | None
) -> tuple[TopicView, Halt | None]:
    """Return the topic as `describe` does, and the halt that follows from it whatever else has halted the pipeline:
    messages at `positions`, or of the batch that is `pending`, can no longer be read. The topic's configuration is not
    needed for that.
    """
    read = [*positions, *(map(pending.position, pending.ranges) if pending else ())]
    view = describe(broker, contract.topic, read, configured=False)
    return view, halt_for_log(contract.pipeline, positions, pending, view)


def _give_up(topic: str, read: Sequence[Position], state: RetryCallState) -> TopicView:
    assert state.outcome is not None  # noqa: S101  # it has been tried
    view: TopicView = state.outcome.result()
    raise BrokerAway(
        f"Kafka's metadata of {topic} is stale: {outdated(read, view)}. Kafka was queried {TRIES} times. If this "
        "persists, look for a broker that is cut off from the others"
    )
