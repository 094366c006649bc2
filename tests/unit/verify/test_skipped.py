"""Messages of records that a contract skips are compared range by range, if a range is still whole."""

from platform_defs.verify.compare.report import Findings
from platform_defs.verify.compare.skipped import SkippedRecords
from platform_defs.verify.source.partitions import CountedRange

RANGES = (CountedRange(10, 20, 3, 1), CountedRange(20, 30, 2, 0))


def found(offsets: list[int], skipped: list[int]) -> list[tuple[int | None, str]]:
    findings, records = Findings("p"), SkippedRecords(RANGES)
    records.add(offsets[:2], [at for at in skipped if at in offsets[:2]])
    records.add(offsets[2:], [at for at in skipped if at in offsets[2:]])
    records.compare(0, findings)
    return [(one.offset, one.kind) for one in findings.samples]


def test_a_range_that_counts_what_the_topic_holds_is_right() -> None:
    assert found([10, 11, 19, 20, 29], [11]) == []


def test_a_range_that_counts_more_or_fewer_is_wrong() -> None:
    assert found([10, 11, 19, 20, 29], [11, 19, 20]) == [(10, "wrong"), (20, "wrong")]
    assert found([10, 11, 19, 20, 29], []) == [(10, "wrong")]


def test_a_range_whose_messages_are_partly_gone_is_not_compared() -> None:
    assert found([11, 19, 20, 29, 30], []) == []
