"""What Dagster hears of a run of several batches."""

from collections.abc import Sequence

import dagster as dg

from assets import find_pipeline
from platform_defs.contract.model import CheckResult, Contract
from platform_defs.engine.ports import Published
from platform_defs.offsets import OffsetRange, PartitionView, TopicView
from platform_defs.orchestration.events import Tally, evaluation, materializations
from platform_defs.orchestration.topics import _observation


def result(passed: bool, failed: int = 0) -> CheckResult:
    samples = [{"partition": 0, "offset": n, "message": "no"} for n in range(failed)]
    observed = {"messages": 10, "failed": failed, "samples": samples}
    return CheckResult("currency_enum", "bank.postings", "warning", passed, observed)


def samples(shown: dg.AssetCheckResult | dg.AssetCheckEvaluation) -> Sequence[dg.TableRecord]:
    """The messages that a check shows."""
    found = (shown.metadata or {})["samples"]
    assert isinstance(found, dg.TableMetadataValue)
    return found.records


def test_a_later_batch_does_not_paint_over_a_failure() -> None:
    tally = Tally(result(True))
    for batch_id, found in enumerate([result(True), result(False, 3), result(True)], start=1):
        tally.add(found, batch_id)
    answered = evaluation(tally)
    assert not answered.passed
    expected = {"failed": 3, "messages": 30, "batches": 3, "failed_batches": 1, "batch_id": 2}
    assert {name: answered.metadata[name].value for name in expected} == expected
    assert len(samples(answered)) == 3


def test_samples_stay_few() -> None:
    tally = Tally(result(True))
    for batch_id in range(5):
        tally.add(result(False, 4), batch_id)
    assert len(samples(evaluation(tally))) == 10
    assert evaluation(tally).metadata["failed"].value == 20


def test_of_many_partitions_an_event_has_totals_alone() -> None:
    contract = find_pipeline("bank_transfers").contract
    numbers = _numbers_of(contract, 20)
    assert numbers["partition_19_until"] == 30
    many = _numbers_of(contract, 1_000)
    assert (many["partitions_read"], many["offsets_read"]) == (1_000, 10_000)
    assert len(many) < len(numbers)


def _numbers_of(contract: Contract, partitions: int) -> dict[str, object]:
    """What the row table's materialization says of a batch of ten offsets of so many partitions."""
    ranges = tuple(OffsetRange(contract.topic, number, 20, 30) for number in range(partitions))
    batch = Published(1, contract.pipeline, ranges, 10 * partitions, 10, 0, 0, (), {"stage": 1.0})
    first, *_ = materializations(contract, batch, None, {})
    return {name: value.value for name, value in first.metadata.items()}


def test_an_observation_of_a_topic_with_many_partitions_has_totals_alone() -> None:
    view = TopicView("t", "c", "id", {number: PartitionView(0, 10) for number in range(1_000)})
    found = _observation(view, {"partitions": 1_000}).metadata
    assert found["end_offsets"].value == 10_000
    assert len(found) == 4
