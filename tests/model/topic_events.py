"""Events that may happen to the topic under a pipeline, and their registration for the state machine (machine.py)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st

from platform_defs.contract.evolution.statements import Given
from platform_defs.contract_changes import evolve
from platform_defs.engine.lease.lease import acquire
from platform_defs.errors import BadInput
from platform_defs.offsets import OffsetRange
from tests.model.expectations import Expectations
from tests.model.runs import next_version
from tests.model.seen import positions

some = st.integers(0, 5)  # index, modulo the number of candidates
Draw = Callable[..., Any]
EVENTS: dict[str, tuple[int, Callable[[Any], Any]]] = {}


def event(often: int, when: Callable[[Any], Any] = lambda _: True) -> Callable[..., Any]:
    """Register the decorated method as an event that may happen `when` it can, with weight `often`."""

    def register(method: Any) -> Any:
        EVENTS[method.__name__] = often, when
        return method

    return register


# Keys that move whenever partitions are doubled (3 from one to four, 7 to eight), more often than keys that stay.
keys = st.sampled_from([0, 1, 2, 3, 3, 7, 7])
messages = st.lists(
    st.tuples(keys, st.sampled_from(["row", "row", "row", "bad", "gone", "gap"])), min_size=1, max_size=5
)


class TopicEvents(Expectations):
    """Producers, retention, elections, and topics that are created again, renamed or moved to another cluster."""

    @event(5, lambda self: sum(part.end for part in self.log.now.parts) < 40)
    def produce(self, draw: Draw) -> None:
        where, count = draw(some), len(self.log.now.parts)
        for key, kind in draw(messages):  # a key is always in one partition
            deletes = kind == "gone" and not self.keyed
            self.log.produce((key if self.keyed else where) % count, f"key {key}", "bad" if deletes else kind)

    @event(1, lambda self: sum(part.end for part in self.log.now.parts) < 40)
    def produce_garbage(self, _draw: Draw) -> None:
        """Produce enough bad messages for a halt."""
        for _ in range(4):
            self.log.produce(0, "key 0", "bad")

    @event(1, lambda self: self._known and not self.log.behind and len(self.log.now.parts) < 5)
    def add_partitions(self, _draw: Draw) -> None:
        """Add a partition. If rows have keys, double their number: only then do keys move to new partitions and to no
        old one.
        """
        for _ in range(len(self.log.now.parts) if self.keyed else 1):
            self.log.add_partition()
        self.fired["partitions added"] += 1

    @event(2)
    def delete_records(self, draw: Draw) -> None:
        part = self.log.now.parts[draw(some) % len(self.log.now.parts)]
        part.low = min(part.end, part.low + draw(st.integers(1, 4)))

    @event(2)
    def elect(self, draw: Draw) -> None:
        """Elect a new leader, which has all that was written."""
        part = self.log.now.parts[draw(some) % len(self.log.now.parts)]
        part.leaders.append(part.end)
        self.fired["elected"] += 1

    @event(1, lambda self: self._cuttable())
    def cut_and_write_on(self, draw: Draw) -> None:
        """Elect an unclean leader between the plan of a batch and its reading: part of the planned messages is gone,
        and the new leader has written others in their place.
        """
        wanted = draw(st.sampled_from(self._cuttable()))
        part = self.log.now.parts[wanted.partition]
        more = part.end + 1 - wanted.from_offset
        part.cut(wanted.from_offset)
        for _ in range(more):
            self.log.produce(wanted.partition, f"key {wanted.partition}", "row")
        self.fired["cut and written on"] += 1

    def _cuttable(self) -> list[OffsetRange]:
        """Return the planned ranges that no task has read yet."""
        run = self.owner
        if run is None or run.pending is None or run.staged or run.guessed:
            return []
        if run.pending.topic_id != self.log.now.topic_id:
            return []
        at = {span.partition: span.until for span in positions(self.seen)}
        return [
            one for one in run.pending.ranges if self.log.holds(one) and one.from_offset >= at.get(one.partition, 0)
        ]

    @event(1, lambda self: self._known)
    def create_again(self, draw: Draw) -> None:
        """Create a new log that ends below, at, or above the old position, perhaps on another cluster."""
        partitions = draw(st.integers(1, 2))
        self.log.create(draw(st.sampled_from(["here", "there"])), partitions)
        self._fill(draw(st.integers(-1, 1)))

    @event(1, lambda self: bool(positions(self.seen)))
    def rename(self, draw: Draw) -> None:
        """Make the contract name another topic, or the previous one again. A run with the old contract ends."""
        if self.owner:
            self._end(self.owner)
        was = self.contract.topic
        topic = was.removesuffix(".v2") if was.endswith(".v2") else f"{was}.v2"
        self.contract = next_version(self.contract, topic=topic)
        if self.log.rename(topic, draw(st.integers(1, 2))):
            self._fill(draw(st.integers(-1, 1)))
        self.fired["renamed"] += 1

    @event(2, lambda self: not self.keyed)
    def change_the_contract(self, _draw: Draw) -> None:
        """Remove the accumulate from the next run's contract, or add it again."""
        self.contract = next_version(self.contract, tables=self.all_tables[: 3 - len(self.contract.tables)])
        self._start(survives=False)

    @event(1, lambda self: self._in_force and not self.applied)
    def take_turns(self, _draw: Draw) -> None:
        """Run a deployment with another contract, and then this contract again."""
        for _ in range(2):
            self.contract = replace(self.contract, version=str(int(self.contract.version) ^ 1))
            self._start(survives=False)

    @event(2, lambda self: self._in_force)
    def apply_a_contract(self, _draw: Draw) -> None:
        """Apply the next version as a person does. A running run is fenced and stays alive."""
        self.contract = next_version(self.contract)
        evolve.apply(self.url, self.contract, Given(), "nobody")
        self.owner, self.died, self.applied = None, False, True  # no run leases it now, dead or alive
        self.fired["contract applied"] += 1

    @event(1, lambda self: self.applied and self._in_force and not (self.halted or self.owner or self.died))
    def start_with_an_older_file(self, _draw: Draw) -> None:
        """Assert that an older version is refused once a person has applied a contract, even if runs have taken newer
        ones.
        """
        with pytest.raises(BadInput, match="this is an older file"):
            acquire(self.ledger.url, replace(self.contract, version=str(int(self.contract.version) - 1)))
        self.fired["older file refused"] += 1

    @property
    def _in_force(self) -> bool:
        """True if a run has taken the current contract; another topic would halt it first."""
        digest = self.seen and self.seen["pipeline"]["contract_digest"]
        return bool(digest) and self.seen["contracts"][digest] == self.contract.version

    def _fill(self, more: int) -> None:
        """Fill a new log so that it ends below, at, or above the old position."""
        at = {span.partition: span.until for span in positions(self.seen)}
        for number in range(len(self.log.now.parts)):
            for _ in range(at.get(number, 1) + more):
                self.log.produce(number, f"key {number}", "row")

    @event(2, lambda self: self.log.now.cluster_id == "there" and not self._known)
    def lead_back(self, _draw: Draw) -> None:
        """Move the topic back to the cluster of the recorded positions."""
        read = self.seen["source_position"]
        if read and read[0]["topic"] == self.log.topic:
            self.log.lead_to(read[0]["topic_id"])
            self.fired["led back"] += 1

    @event(1, lambda self: self._known and len(positions(self.seen)) == len(self.log.now.parts))
    def fall_behind(self, _draw: Draw) -> None:
        """Make the broker unaware of a partition that was read, or let it catch up."""
        self.log.behind = not self.log.behind
