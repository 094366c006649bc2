"""What Dagster hears of a run of several batches."""

from collections.abc import Sequence

import dagster as dg

from platform_defs.contract.model import CheckResult
from platform_defs.orchestration.events import Tally, evaluation


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
