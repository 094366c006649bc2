"""The model's topic: a log in memory that is written, truncated, created again or moved to another cluster. Its broker
may be behind.

It is the model's environment, not a mock: the engine takes a broker and a source (Broker, Source), and this class is
the simplest of each. tests/integration/test_traps_*.py test the real broker. It keeps every log that ever existed, so
that the model can tell what each message must have become.
"""

import json
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal

from platform_defs.errors import LogTruncated, OffsetsUnavailable
from platform_defs.formats.blocks.block import Block, message_blocks
from platform_defs.kafka.leader_epochs import LeaderEpochs
from platform_defs.offsets import OffsetRange, PartitionView, TopicView

Kind = Literal[
    "row", "bad", "gone", "gap"
]  # a good message, a dead letter, one that deletes its key, no message at all


@dataclass(frozen=True)
class Record:
    """A message (formats.blocks.block.Message) and its expected outcome."""

    at: int
    number: int  # counts all messages ever produced: a later one has a higher number
    name: str  # its key
    kind: Kind
    epoch: int  # of the leader that wrote it

    @property
    def columns(self) -> tuple[int, str]:
        return self.number, f"account {self.number % 3}"

    def key(self) -> bytes | None:
        return self.name.encode()

    def value(self) -> bytes | None:
        number, account = self.columns
        good = json.dumps({"number": number, "account": account}).encode()
        return {"row": good, "bad": b"not json", "gone": None}[self.kind]

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, self.number

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return None

    def leader_epoch(self) -> int | None:
        return self.epoch


@dataclass
class Part:
    """A partition: its messages by offset, including those that retention has deleted."""

    records: dict[int, Record] = field(default_factory=dict)
    low: int = 0
    end: int = 0
    leaders: list[int] = field(default_factory=lambda: [0])  # by leader epoch: the end of the log when it began

    @property
    def epoch(self) -> int:
        return len(self.leaders) - 1

    def end_of(self, epoch: int) -> int:
        """Return the end offset of that leader epoch, as a leader responds to OffsetForLeaderEpoch."""
        return self.end if epoch == self.epoch else self.leaders[epoch + 1]

    def cut(self, end: int) -> None:
        """Simulate an unclean election: the new leader only has the messages below `end`."""
        self.records = {at: record for at, record in self.records.items() if at < end}
        self.leaders = [*(min(at, end) for at in self.leaders), end]
        self.end = end

    def last_epoch(self, wanted: OffsetRange) -> int:
        """Return the leader epoch of the last message in `wanted`, or -1 if it has none."""
        found = [self.records[at].epoch for at in range(wanted.from_offset, wanted.until_offset) if at in self.records]
        return found[-1] if found else -1


@dataclass
class Generation:
    """One log under the topic's name, from its creation to its deletion."""

    cluster_id: str
    topic_id: str
    parts: list[Part]


class Log:
    """All generations of the topics that a contract has named; `now` is the current one of `topic`."""

    def __init__(self, topic: str, partitions: int) -> None:
        self.generations: dict[str, Generation] = {}  # by topic id
        self.topics: dict[str, Generation] = {}  # by name: the log at the address
        self.topic = topic
        self.behind = False  # True if the broker that responds does not know the last partition yet
        self._produced = 0
        self.create("here", partitions)

    @property
    def now(self) -> Generation:
        return self.topics[self.topic]

    def create(self, cluster: str, partitions: int) -> None:
        """Create an empty log and make it the current one."""
        topic_id = f"topic {len(self.generations)}"
        self.generations[topic_id] = Generation(cluster, topic_id, [Part() for _ in range(partitions)])
        self.lead_to(topic_id)

    def lead_to(self, topic_id: str) -> None:
        self.topics[self.topic], self.behind = self.generations[topic_id], False

    def rename(self, topic: str, partitions: int) -> bool:
        """Make the contract name another topic; return True if it is a new one."""
        self.topic, self.behind = topic, False
        if new := topic not in self.topics:
            self.create("here", partitions)
        return new

    def produce(self, partition: int, key: str, kind: Kind) -> None:
        part = self.now.parts[partition]
        if kind != "gap":
            self._produced += 1
            part.records[part.end] = Record(part.end, self._produced, key, kind, part.epoch)
        part.end += 1

    def describe(
        self,
        topic: str,
        partitions: Collection[int] | None = None,
        *,
        configured: bool = True,  # noqa: ARG002  # the port's
    ) -> TopicView:
        log = self._log(topic)
        held = {number: PartitionView(part.low, part.end, part.epoch) for number, part in enumerate(log.parts)}
        if self.behind:
            del held[len(log.parts) - 1]
        asked = {number: of for number, of in held.items() if partitions is None or number in partitions}
        return TopicView(topic, log.cluster_id, log.topic_id, asked)

    def leader_epochs(self, topic: str) -> AbstractContextManager[LeaderEpochs]:
        raise AssertionError(f"{topic} is never cut")

    def read(
        self,
        wanted: OffsetRange,
        cluster_id: str | None = None,  # noqa: ARG002  # the port's
    ) -> Iterator[Block]:
        """Yield blocks from the current log. Like a consumer, it does not notice that the log was just replaced."""
        if not self.holds(wanted):
            raise OffsetsUnavailable(f"{wanted} cannot be read")
        part = self._log(wanted.topic).parts[wanted.partition]
        asked = wanted.leader_epoch if wanted.new_leader else None
        if asked is not None and part.end_of(asked) < wanted.from_offset:
            raise LogTruncated(f"{wanted} begins behind the end of epoch {asked}")
        found = [part.records[at] for at in range(wanted.from_offset, wanted.until_offset) if at in part.records]
        yield from message_blocks(found)

    def holds(self, wanted: OffsetRange) -> bool:
        parts = self._log(wanted.topic).parts
        if wanted.partition >= len(parts):
            return False
        part = parts[wanted.partition]
        return part.low <= wanted.from_offset and wanted.until_offset <= part.end

    def _log(self, topic: str) -> Generation:
        return self.topics.get(topic, self.now)

    def epochs(self) -> dict[int, int]:
        """Return the current leader epoch of each partition."""
        return {number: part.epoch for number, part in enumerate(self.now.parts)}

    def add_partition(self) -> None:
        self.now.parts.append(Part())
