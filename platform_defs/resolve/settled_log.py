"""The resolution of a halt caused by the log: where each partition resumes, which offsets are skipped, what is
recorded.

Nothing is changed here (resolve/settlement.py). The decision needs a broker's answer that knows of all that was read,
so no offset is skipped because of a stale one.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import inf
from typing import Protocol

from platform_defs.engine.interfaces.broker_and_auditor import Broker
from platform_defs.errors import BadInput, TopicMissing
from platform_defs.errors.halts import (
    ClusterSwitched,
    HaltDetail,
    LogCut,
    PartitionMissing,
    PartitionSpan,
    TopicChanged,
    TopicRecreated,
)
from platform_defs.errors.words import plural
from platform_defs.kafka.leader_epochs import LeaderEpochs
from platform_defs.ledger.answers import EpochRead
from platform_defs.ledger.ledger import Ledger
from platform_defs.offsets import PartitionView, TopicView, spell
from platform_defs.resolve.choices import ResumeAt
from platform_defs.resolve.ledger import LogPosition, PartitionChange

Positions = tuple[tuple[int, LogPosition], ...]


@dataclass(frozen=True)
class Decision:
    """The change that resolves a halt, or a batch that fails its checks."""

    explanation: str
    steps: tuple[PartitionChange, ...] = ()
    accept: bool = False  # the dead letters of the pending batch
    keep_pending: bool = False
    checks_accepted: tuple[str, ...] = ()  # blocking checks that the pending batch may fail
    set_aside: str | None = None  # why every message of the pending batch becomes a dead letter
    log: tuple[str, str] | None = None  # cluster id and topic id of the log in which the pipeline continues, if new
    registry: str | None = None  # whose next generation of schemas begins at the positions
    without_schemas: bool = False  # messages of the pending batch without a schema become dead letters


class Log(Broker, Protocol):
    """The broker, with access to a log's leader epochs."""

    def leader_epochs(self, topic: str) -> AbstractContextManager[LeaderEpochs]:
        """Open a reader of single messages of the topic, for their leader epochs."""
        ...


@dataclass(frozen=True)
class SettledLog:
    """A halted pipeline's positions, and the current log in `view`."""

    pipeline: str
    ledger: Ledger
    broker: Log
    view: TopicView
    positions: Positions

    def decide(self, detail: HaltDetail, start: ResumeAt | None) -> Decision:
        """Return the decision. Raises BadInput if `start` is needed and missing, or not a valid choice."""
        # For any halt: offsets of one log mean nothing in another.
        if any((at.topic, at.cluster_id, at.topic_id) != self._log for _, at in self.positions):
            return self._new_generation(detail, start)
        if isinstance(detail, TopicRecreated | ClusterSwitched | TopicChanged):
            return Decision("The log that was read is back. Reading resumes where it stopped.", keep_pending=True)
        if isinstance(detail, PartitionMissing):
            return Decision("Every partition that was read still exists. Reading resumes where it stopped.")
        return self._same_log(detail, start)

    @property
    def _log(self) -> tuple[str, str, str]:
        return self.view.topic, self.view.cluster_id, self.view.topic_id

    # In the same log.

    def _same_log(self, detail: HaltDetail, start: ResumeAt | None) -> Decision:
        asked = _cuts(detail)
        steps: list[PartitionChange] = []
        for number, at in self.positions:
            held = self.view.partitions[number]
            if held.low > at.next_offset:
                becomes = at.moved_to(held.low)
                steps.append(PartitionChange(number, at, becomes, skip=(at.next_offset, held.low)))
            elif number in asked or held.end < at.next_offset:
                steps.append(self._cut(detail, number, at, asked.get(number), start))
        return Decision(_explained(steps, start), tuple(steps))

    def _cut(
        self, detail: HaltDetail, number: int, at: LogPosition, seen: int | None, start: ResumeAt | None
    ) -> PartitionChange:
        """Return the step of a partition that may have been cut, and then perhaps written to again."""
        held = self.view.partitions[number]
        read = self.ledger.epochs_read(self.pipeline, at.topic_id, number, held.low)
        with self.broker.leader_epochs(self.view.topic) as epochs:
            cut = first_changed(epochs, number, at.next_offset, read, held, seen)
        if cut == at.next_offset:
            return PartitionChange(number, at, at)
        lost, resumed = (cut, at.next_offset), min(at.next_offset, held.end)
        if cut < resumed:  # written since, at offsets whose rows are from other messages
            choices: dict[ResumeAt, str] = {
                "cut": f"continue at offset {cut}, and read everything written since the truncation",
                "position": f"continue at offset {resumed}, and skip what was written between the truncation and it",
            }
            why = f"partition {number} was truncated at offset {cut} and then written to again"
            _require(start, choices, f"{self.pipeline} is halted ({detail.code}): {why}")
            if start == "position":
                return PartitionChange(number, at, at.moved_to(resumed), skip=(cut, resumed), lost=lost)
        return PartitionChange(number, at, at.moved_to(cut), lost=lost)

    # In another log.

    def _new_generation(self, detail: HaltDetail, start: ResumeAt | None) -> Decision:
        spans = spell(PartitionSpan(n, held.low, held.end) for n, held in sorted(self.view.partitions.items()))
        choices: dict[ResumeAt, str] = {
            "beginning": "continue at its old position" if self._read_before else "read the topic from its start",
            "end": "read only messages that are written from now on",
        }
        why = f"{self.view.topic} is a different log now ({spans})"
        _require(start, choices, f"{self.pipeline} is halted ({detail.code}): {why}")
        known = dict(self.positions)
        steps: list[PartitionChange] = []
        for number in sorted({*known, *self._tails, *self.view.partitions}):
            held = self.view.partitions.get(number)
            becomes = self._resumed(number, held, start) if held else None
            step = self._left(number, known.get(number), becomes)
            if held or step.was or step.skip:
                first_to = held.written if held and number in self._read_before else None
                steps.append(replace(step, read_first_to=first_to))
        return Decision(self._generation_explained(start, steps), tuple(steps), log=self._log[1:])

    def _resumed(self, number: int, held: PartitionView, start: ResumeAt | None) -> LogPosition | None:
        """Return the position in the current log; None if a run is to add the partition.

        In a log that was read before, a run adds the unread partitions: an upsert reads the others first. It starts
        them at 0, unless retention has deleted that offset: there the run would halt.
        """
        if start == "end":
            return LogPosition(*self._log, held.end, held.end)
        if self._read_before and number not in self._read_before and not held.low:
            return None
        first = self._first(number, held)
        return LogPosition(*self._log, first, first)

    def _first(self, number: int, held: PartitionView) -> int:
        """Return the low watermark; in a log that was read before, its last position."""
        return min(self._read_before.get(number, held.low), held.end)

    @cached_property
    def _read_before(self) -> Mapping[int, int]:
        return self.ledger.read_before(self.pipeline, self.view.topic_id)

    def _left(self, number: int, was: LogPosition | None, becomes: LogPosition | None) -> PartitionChange:
        """Return the step of a partition: the offsets read in the old log, and those still unread there. A partition of
        the old log that no run has added is unread from 0.
        """
        read = was.next_offset if was else 0
        return PartitionChange(number, was, becomes, _span(read, self._tails.get(number, read)), _span(0, read))

    @cached_property
    def _tails(self) -> Mapping[int, int]:
        """The end of the old topic by partition, if the contract named another one and it still exists."""
        was = self.positions[0][1]
        if was.topic == self.view.topic:
            return {}
        try:
            old = self.broker.describe(was.topic, configured=False)
        except TopicMissing:
            return {}
        same = (old.cluster_id, old.topic_id) == (was.cluster_id, was.topic_id)
        return {number: held.written for number, held in old.partitions.items()} if same else {}

    def _generation_explained(self, start: ResumeAt | None, steps: Sequence[PartitionChange]) -> str:
        old = self.positions[0][1].topic
        resumed = f"Reading resumes at the {start} of the new log. Rows of the old one stay in the tables"
        if start == "beginning" and self._read_before:
            resumed = f"{self.view.topic} was read before: reading resumes where it stopped then"
            if any(step.becomes is None and step.partition in self.view.partitions for step in steps):
                resumed += ", and the next runs add the partitions that were not read"
        if not self._tails:
            return f"{resumed}. Anything in the old log beyond these positions was never read."
        unread = sum(step.skip[1] - step.skip[0] for step in steps if step.skip)
        if not unread:
            return f"{resumed}; {old} was read to its end."
        return (
            f"{resumed}. {plural(unread, 'offset')} of {old} that were never read will be skipped. To read them "
            f"first, change the contract back to {old}, run tidegate resolve {self.pipeline}, and change the topic in "
            "the contract again once they are read."
        )


def first_changed(
    epochs: LeaderEpochs,
    partition: int,
    position: int,
    read: Sequence[EpochRead],
    held: PartitionView,
    seen: int | None,
) -> int:
    """Return the first offset below `position` at which the log no longer has what was read; `position` if there is
    none.

    Kafka's clients use OffsetForLeaderEpoch for that (KIP-320), which confluent_kafka has no call for. But messages
    carry their leader epoch, and epochs only grow along a log: a bisection that reads single messages finds the end of
    an epoch in the current log. Offsets read in that epoch or before, and beyond its end, were cut off. After two
    unclean elections in a row the cut may be below the result, as for Kafka's clients.

    `read` is what was read, ascending; `seen` is an end of the log below `position` that was observed before it was
    written to again. Reads some twenty messages for each leader epoch that it examines: those since the cut, and one
    before.
    """
    cut = min(position, held.end, position if seen is None else seen)

    def epoch_at(offset: int) -> float:
        found = epochs.at_or_after(partition, offset)
        return inf if found is None else found.leader_epoch

    @cache
    def end_of(epoch: int) -> int:
        """Return the offset after the log's last message of `epoch` or an earlier one."""
        return held.low + bisect_right(range(held.low, held.written), epoch, key=epoch_at)

    for newest, item in enumerate(reversed(read)):
        if end_of(item.leader_epoch) >= item.until_offset:
            return cut if newest else max(cut, item.until_offset)  # it refutes a lower end that was observed
        cut = min(cut, end_of(item.leader_epoch))
    return cut


def _cuts(detail: HaltDetail) -> dict[int, int | None]:
    """Return the partitions that a halt reports as cut, with the end observed then, if that showed the cut."""
    if not isinstance(detail, LogCut):
        return {}
    return {**dict.fromkeys(detail.partitions), **{span.partition: span.from_offset for span in detail.ranges}}


def _explained(steps: Sequence[PartitionChange], start: ResumeAt | None) -> str:
    messages: list[str] = []
    if any(step.skip and not step.lost for step in steps):
        messages.append("The offsets that retention deleted are skipped; reading resumes at the first remaining one.")
    if any(step.lost for step in steps):
        between = " Messages written between the cut and that point are skipped." if start == "position" else ""
        where = "where it stopped" if between else "where the log was cut"
        messages.append(
            f"Reading resumes {where}.{between} Rows of the truncated offsets stay in the tables, but can no "
            "longer be verified against a log."
        )
    return " ".join(messages) or "Everything that was read is still in the log. Reading resumes where it stopped."


def _require(start: ResumeAt | None, choices: Mapping[ResumeAt, str], why: str) -> None:
    if start not in choices:
        width = max(map(len, choices))
        options = [f"  --from {name:<{width}}  {effect}" for name, effect in choices.items()]
        raise BadInput("\n".join([f"{why}. Choose where to start:", *options]))


def _span(start: int, until: int) -> tuple[int, int] | None:
    return (start, until) if start < until else None
