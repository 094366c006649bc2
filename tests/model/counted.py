"""The model's prediction of an audit: the share of dead letters in recent messages, and multiples of thirteen."""

from collections import Counter
from dataclasses import dataclass, field

from platform_defs.engine.commit import audit
from tests.model.log import Log, Record
from tests.model.runs import Run
from tests.model.seen import Place

COUNTED = 8  # the latest messages that count: four dead letters are half of them


@dataclass
class CountedMessages:
    """The audit history of one pipeline."""

    before: list[tuple[int, int]] = field(default_factory=list)  # (messages, dead letters) by batch, newest last
    tries: Counter[int] = field(default_factory=Counter)  # by batch: how often it failed its checks
    aside: set[Place] = field(default_factory=set)  # messages of manually dead-lettered batches

    def verdict(self, log: Log, run: Run) -> str | None:
        """Return the expected outcome of a staged batch's audit: a halt's code, "gate failed", or None."""
        assert run.pending
        records, pending = _records(log, run), run.pending
        if pending.set_aside:
            return None
        if not pending.dead_letters_accepted and self._too_many(_counted(records)):
            return "too_many_dead_letters"
        if run.lost == "rows" or pending.checks_accepted or not _red(records, keyed=run.keyed):
            return None
        self.tries[pending.batch_id] += 1
        return "blocking_check_failed" if self.tries[pending.batch_id] >= audit.GATE_TRIES else "gate failed"

    def published(self, log: Log, run: Run) -> None:
        """Record a committed batch. If a user accepted its dead letters, counting begins again."""
        assert run.pending
        records, pending = _records(log, run), run.pending
        if pending.set_aside:
            self.aside |= {(pending.topic_id, partition, record.at) for partition, record in records}
        if pending.set_aside or pending.dead_letters_accepted:
            self.before.clear()
        else:
            self.before.append(_counted(records))

    def _too_many(self, batch: tuple[int, int]) -> bool:
        if _exceeds(*batch):
            return True
        messages, dead = batch
        for before, bad in reversed(self.before):
            if messages >= COUNTED:
                break
            part = min(before, COUNTED - messages) if messages else before
            messages, dead = messages + part, dead + bad * part // max(1, before)
        return _exceeds(messages, dead)


def _exceeds(messages: int, dead: int) -> bool:
    return dead >= 4 and 2 * dead > messages


def _records(log: Log, run: Run) -> list[tuple[int, Record]]:
    """Return the records that a staged batch has read, with their partitions."""
    assert run.pending
    parts = log.generations[run.read_of].parts
    return [
        (item.partition, parts[item.partition].records[at])
        for item in run.pending.ranges
        for at in range(item.from_offset, item.until_offset)
        if at in parts[item.partition].records
    ]


def _counted(records: list[tuple[int, Record]]) -> tuple[int, int]:
    return len(records), sum(record.kind == "bad" for _, record in records)


def _red(records: list[tuple[int, Record]], *, keyed: bool) -> bool:
    """Return True if a row to be written has a multiple of thirteen."""
    good = [record for _, record in records if record.kind != "bad"]
    if keyed:
        newest = {record.name: record for record in sorted(good, key=lambda record: record.number)}
        good = list(newest.values())
    return any(record.kind == "row" and record.number % 13 == 0 for record in good)
