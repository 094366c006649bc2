"""The topic and the consumer groups of a demo: created for it, and deleted at its end in every case."""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from platform_defs.errors import BadInput, BrokerAway, TidegateError, TopicMissing
from platform_defs.kafka.client.admin_client import admin_client
from platform_defs.kafka.client.refusals import refusal
from platform_defs.kafka.client.rights import Right
from platform_defs.topics.admin import TopicAdmin
from platform_defs.topics.steps import Create

EMPTY = 30.0  # seconds until a group whose consumers have ended has no members: more than their session timeout
ANSWER = 20.0  # seconds for one request, after which its future has an error
BETWEEN = 0.2  # seconds between two tries

Show = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class DemoTopic:
    """A topic and the groups that read it. `options` are librdkafka's. Raises BrokerAway, AccessDenied."""

    options: Mapping[str, str] = field(repr=False)  # they may contain a password
    name: str
    partitions: int
    groups: Sequence[str]

    @contextmanager
    def made(self, show: Show, left: list[str], *, keep: bool = False) -> Generator[str]:
        """Create the topic, yield its id, and delete it and the groups after the block, unless `keep`.

        Failures to delete are shown, and added to `left` as sentences. Raises BadInput for a topic that exists.
        """
        if TopicAdmin(self.options).topic_id(self.name) is not None:
            raise BadInput(
                f"the topic {self.name} exists: another demo is running on this Kafka, or one was killed before it "
                "could delete the topic. Wait until the other has ended, or delete the topic: "
                f"tidegate topics delete {self.name} --confirm {self.name}"
            )
        self.delete_groups()  # of a killed run: their offsets belong to another topic
        topic_id = self._create()
        try:
            yield topic_id
        finally:
            if not keep:
                show(f"deleting the topic {self.name} and its consumer groups")
                delete_or_note(lambda: self.delete_topic(topic_id), show, left)
                delete_or_note(self.delete_groups, show, left)

    def delete_topic(self, topic_id: str) -> None:
        """Delete the topic of that id, if it exists."""
        with suppress(TopicMissing):
            TopicAdmin(self.options).delete(self.name, topic_id)

    def delete_groups(self) -> None:
        """Delete the groups that exist. Waits until groups whose consumers have just ended have no members.

        Raises BadInput for a group that has members after EMPTY seconds.
        """
        admin, until = admin_client(self.options), time.monotonic() + EMPTY
        while left := self._existing_groups(admin, until):
            answers: Mapping[str, Future[None]] = admin.delete_consumer_groups(left, request_timeout=ANSWER)
            for group in left:
                if (reason := _failure(answers[group])) is None:
                    continue
                needed, place = (right_on_group(group),), f"to delete the consumer group {group}"
                refused = refusal(reason, place, needed, self.options)
                if refused is not None or time.monotonic() > until:
                    if refused is None and reason.name() == "NON_EMPTY_GROUP":
                        what = f"the consumer group {group} has members: another demo is running on this Kafka"
                        raise BadInput(f"{what}. Wait until it ends")
                    raise refused or BrokerAway(f"Kafka did not delete the consumer group {group}: {reason.str()}")
            time.sleep(BETWEEN)

    def _existing_groups(self, admin: Any, until: float) -> list[str]:
        """Return the `groups` that exist. Raises BrokerAway if a broker does not answer.

        librdkafka ends the process if it deletes a group whose coordinator it does not find within the request's
        time-out (https://github.com/confluentinc/librdkafka/issues/4605). A listed group has one.
        """
        while True:
            try:
                found = admin.list_consumer_groups(request_timeout=ANSWER).result()
            except KafkaException as error:
                raise BrokerAway(f"Kafka did not list its consumer groups: {error.args[0].str()}") from error
            if not found.errors:
                return sorted({one.group_id for one in found.valid} & {*self.groups})
            if time.monotonic() > until:
                raise BrokerAway(f"Kafka did not list its consumer groups: {found.errors[0]}")
            time.sleep(BETWEEN)

    def _create(self) -> str:
        admin = TopicAdmin(self.options)
        try:
            admin.apply([Create(topic=self.name, partitions=self.partitions)])
            if (topic_id := admin.topic_id(self.name)) is None:
                raise BrokerAway(f"Kafka created {self.name} but does not describe it yet. Run the command again")
            return topic_id
        except BadInput:  # Kafka has not created it
            raise
        except BaseException:  # Kafka may have created it before it could answer
            if (topic_id := admin.topic_id(self.name)) is not None:
                self.delete_topic(topic_id)
            raise


def delete_or_note(delete: Callable[[], None], show: Show, left: list[str]) -> None:
    """Call `delete`. If it fails, show the error and add it to `left`, so that the demo's result is not lost."""
    try:
        delete()
    except TidegateError as error:
        left.append(f"Not deleted: {error}")
        show(left[-1])


def right_on_group(group: str) -> Right:
    """Return a demo's rights on a group: to join it, to commit its offsets, to delete it."""
    return Right("group", group, ("Read", "Delete"))


def _failure(future: Future[None]) -> KafkaError | None:
    """Return why a group is not deleted; None if it is, or does not exist."""
    try:
        future.result()
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        return None if reason.name() == "GROUP_ID_NOT_FOUND" else reason
    return None
