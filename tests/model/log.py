"""The topic of the model: a log in memory that is written, loses its beginning, is created again, or leads elsewhere.

It is the model's environment and no mock: the engine is handed its broker and source (engine.ports.Broker, Source), and
this is one of each, as simple as they come. What the real broker does is tested in tests/integration/test_traps_*.py.
It keeps every log that there ever was, so that the model can tell what each message must have become.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from platform_defs.errors import LogTruncated, OffsetsUnavailable
from platform_defs.formats.block import Block, message_blocks
from platform_defs.offsets import OffsetRange, PartitionView, TopicView

Kind = Literal[
    "row", "bad", "gone", "gap"
]  # a good message, a dead letter, one that deletes its key, no message at all


@dataclass(frozen=True)
class Record:
    """A message (formats.block.Message), and what must become of it."""

    at: int
    number: int  # counts all that was ever produced: the later, the higher
    name: str  # its key
    kind: Kind

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
        return 0


@dataclass
class Part:
    """A partition: its messages by offset, also those that retention has deleted since."""

    records: dict[int, Record] = field(default_factory=dict)
    low: int = 0
    end: int = 0
    leaders: list[int] = field(default_factory=lambda: [0])  # by leader epoch: where the log ended when it began

    @property
    def epoch(self) -> int:
        return len(self.leaders) - 1

    def end_of(self, epoch: int) -> int:
        """Where the log of that epoch ends, as a leader answers OffsetForLeaderEpoch."""
        return self.end if epoch == self.epoch else self.leaders[epoch + 1]


@dataclass
class Generation:
    """One log of the topic's name, from its creation to its deletion."""

    cluster_id: str
    topic_id: str
    parts: list[Part]


class Log:
    """All generations of one topic; the last in `generations` is not always the one that the address leads to."""

    def __init__(self, partitions: int) -> None:
        self.generations: dict[str, Generation] = {}
        self._produced = 0
        self.now = self.create("here", partitions)

    def create(self, cluster: str, partitions: int) -> Generation:
        """A new, empty log, to which the address leads from now on."""
        topic_id = f"topic {len(self.generations)}"
        self.now = Generation(cluster, topic_id, [Part() for _ in range(partitions)])
        self.generations[topic_id] = self.now
        return self.now

    def produce(self, partition: int, key: str, kind: Kind) -> None:
        part = self.now.parts[partition]
        if kind != "gap":
            self._produced += 1
            part.records[part.end] = Record(part.end, self._produced, key, kind)
        part.end += 1

    def describe(self, topic: str) -> TopicView:
        held = {number: PartitionView(part.low, part.end, part.epoch) for number, part in enumerate(self.now.parts)}
        return TopicView(topic, self.now.cluster_id, self.now.topic_id, held)

    def read(
        self,
        wanted: OffsetRange,
        cluster_id: str | None = None,  # noqa: ARG002  # the port's
    ) -> Iterator[Block]:
        """What the log of now holds: as a consumer, it does not notice that it is not the one of a moment ago."""
        if not self.holds(wanted):
            raise OffsetsUnavailable(f"{wanted} cannot be read")
        part = self.now.parts[wanted.partition]
        asked = wanted.leader_epoch if wanted.new_leader else None
        if asked is not None and part.end_of(asked) < wanted.from_offset:
            raise LogTruncated(f"{wanted} begins behind the end of epoch {asked}")
        found = [part.records[at] for at in range(wanted.from_offset, wanted.until_offset) if at in part.records]
        yield from message_blocks(found)

    def holds(self, wanted: OffsetRange) -> bool:
        if wanted.partition >= len(self.now.parts):
            return False
        part = self.now.parts[wanted.partition]
        return part.low <= wanted.from_offset and wanted.until_offset <= part.end

    def epochs(self) -> dict[int, int]:
        """The leader epoch of each partition now."""
        return {number: part.epoch for number, part in enumerate(self.now.parts)}

    def add_partition(self) -> None:
        self.now.parts.append(Part())
