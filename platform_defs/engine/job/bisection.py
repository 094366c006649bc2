"""Finds the message that makes a batch fail, by trying parts of the batch as the whole was tried.

A message is found only if that is certain (Postgres or Spark reports that a value is at fault), or if it fails again
while another message, the control, passes before and after it. If none passes, the transform or what it calls is
broken, and no message is. If it is not certain, the batch waits, and the message has to be found once more
(`wait_for_suspects`, engine/batch.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from pyspark.sql import SparkSession

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.interfaces.broker_and_auditor import Broker
from platform_defs.engine.interfaces.source_and_staging import StagingArea
from platform_defs.engine.job.job import run
from platform_defs.engine.job.job_limit import JobLimit
from platform_defs.engine.job.stage import stage_frame
from platform_defs.engine.job.transform import transform_file
from platform_defs.engine.lease.lease import PostgresLease
from platform_defs.engine.task.task import TaskWork
from platform_defs.errors import NotReproduced, RowRefused, TransformBroken, TransformFailed
from platform_defs.errors.words import plural
from platform_defs.offsets import OffsetRange, PendingBatch, TopicView, nth_offset, whole_spans

SAMPLE = 5  # messages: if the transform fails on all of these, it is not single messages
NEAR = 4 * SAMPLE  # offsets tried near a batch: transactions and compaction leave some without a message

Failure = TransformFailed | RowRefused


@dataclass(frozen=True)
class Bisection:
    """Tries at parts of a batch, in the job that the batch itself runs in, each within the limit of time of one batch.

    `area`: a staging area of their own. Their rows are copied there, since COPY may be what refuses them, and deleted.
    """

    spark: SparkSession
    ledger: PostgresLease
    broker: Broker
    limit: JobLimit
    pipeline: Pipeline
    pending: PendingBatch
    work: TaskWork
    area: StagingArea
    failed: list[OffsetRange] = field(default_factory=list[OffsetRange])  # single messages, in the order of the tries

    def find_bad_message(self, failure: Failure) -> tuple[OffsetRange, Failure]:
        """Return the range of one offset that makes the batch fail, and its failure. `failure` is the whole batch's.

        Raises NotReproduced if no part fails again when tried alone: then it was not the message. Raises
        TransformBroken if no message that was tried passes the transform.
        """
        control = None
        if not certain(failure) or self.pipeline.transform:
            control = self._control(failure)
        suspect, why = self._search()
        if not certain(why) and (control := control or self._control(why)) is not None:
            self._confirm(suspect, control)
        return suspect, why

    def _failure(self, item: OffsetRange) -> Failure | None:
        """Return why `item` fails, or None. A system's failure is raised."""
        alone = replace(self.work, ranges=(item,), area=self.area)
        try:
            with self.limit.within(self.spark, self.pipeline, self.pending):
                run(stage_frame(self.spark, self.pipeline, alone), alone)
        except (TransformFailed, RowRefused) as failure:
            if len(item) == 1:
                self.failed.append(item)
            return failure
        return None

    def _passes(self, item: OffsetRange) -> bool:
        """Return True if `item` does not fail, and contains a message that reached the transform."""
        if self._failure(item) is not None:
            return False
        return any(read.rows and read.range == item for read in self.ledger.coverage(self.area.staging_id))

    def _search(self) -> tuple[OffsetRange, Failure]:
        """Search by halves. If the first half of a failing part passes, the second fails."""
        first = None
        topic, excluded = self.work.contract.topic, self.work.excluded
        suspects = [item for item in self.pending.suspects if item.place not in excluded]
        known = [OffsetRange(topic, item.partition, item.offset, item.offset + 1) for item in suspects]
        for item in (*known, *self.work.ranges):  # those that an earlier try suspected first
            first = self._failure(item)
            if first is None:
                continue
            suspect = self._halved(item)
            if (why := first if suspect == item else self._failure(suspect)) is not None:
                return suspect, why
        raise _not_reproduced(str(first or "it passes now"))

    def _halved(self, item: OffsetRange) -> OffsetRange:
        while len(item) > 1:
            middle = item.from_offset + len(item) // 2
            low = OffsetRange(item.topic, item.partition, item.from_offset, middle)
            high = OffsetRange(item.topic, item.partition, middle, item.until_offset)
            item = low if self._failure(low) else high
        return item

    def _control(self, why: Failure) -> OffsetRange | None:
        """Return a message that passes, from the batch or near it in the topic; None if there is none and none is
        needed.

        Raises TransformBroken if all of a sample fail, from the batch or near it, or if there is no control and no
        message may be blamed without one.
        """
        sample, failed = _sample(self.work.ranges), len(self.failed)
        for item in sample:
            if self._passes(item):
                return item
        if len(self.failed) - failed == SAMPLE:
            raise self._broken(why)
        near, failed = _near(self.broker.describe(self.work.contract.topic), self.work.ranges), len(self.failed)
        for item in islice(near, NEAR):
            if self._passes(item):
                return item
            if len(self.failed) - failed == SAMPLE:
                raise self._broken(why)
        if not certain(why):
            raise self._broken(why)
        return None

    def _confirm(self, suspect: OffsetRange, control: OffsetRange) -> None:
        """Try control, suspect, control: the suspect must fail, and the control must pass."""
        self._require(control)
        if self._failure(suspect) is None:
            raise _not_reproduced("it passes now")
        self._require(control)

    def _require(self, control: OffsetRange) -> None:
        if (why := self._failure(control)) is not None:
            raise self._broken(why)

    def _broken(self, why: object) -> TransformBroken:
        tried = plural(len(set(self.failed)), "message")
        return TransformBroken(
            f"{transform_file(self.pipeline)}: the transform failed on every message that it was tried on ({tried}): "
            f"{why}. Nothing was published. Correct the transform, a service that it calls, or the producer of the "
            "messages"
        )


def _not_reproduced(reason: str) -> NotReproduced:
    return NotReproduced(
        f"the job failed, but no message fails when retried by itself ({reason}); the batch will be read again"
    )


def certain(why: Failure) -> bool:
    """Return True if Postgres or Spark reports that a value is at fault."""
    return isinstance(why, RowRefused) or why.of_data


def _sample(ranges: tuple[OffsetRange, ...]) -> list[OffsetRange]:
    """Return up to SAMPLE messages from all over the batch."""
    last = sum(map(len, ranges)) - 1
    return list(dict.fromkeys(nth_offset(ranges, last * number // (SAMPLE - 1)) for number in range(SAMPLE)))


def _near(view: TopicView, ranges: tuple[OffsetRange, ...]) -> Iterator[OffsetRange]:
    """Yield single offsets outside the batch that are still in the log, the nearest first."""
    spans = {span.partition: (span.from_offset, span.until_offset) for span in whole_spans(ranges)}
    for distance in range(NEAR):
        for number, held in sorted(view.partitions.items()):
            start, until = spans.get(number, (held.end, held.end))
            for offset in (start - 1 - distance, until + distance):
                if held.low <= offset < held.end:
                    yield OffsetRange(view.topic, number, offset, offset + 1)
