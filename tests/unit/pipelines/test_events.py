"""Dagster's events about a run of several batches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from platform_defs.contract.model.contract import CheckResult
from platform_defs.ledger.published import Published, RowChanges
from platform_defs.offsets import OffsetRange, PartitionView, TopicView
from platform_defs.pipelines.drain import checks_kept
from platform_defs.pipelines.reporting.collected import together
from platform_defs.pipelines.reporting.events import Tally, evaluation, materializations, sentence
from platform_defs.settings.contracts import find_pipeline
from platform_defs.topics.dagster.sensor import _observation

CONTRACT = find_pipeline("bank_transfers").contract


def result(passed: bool, failed: int = 0) -> CheckResult:
    samples = [{"partition": 0, "offset": n, "message": "no"} for n in range(failed)]
    observed = {"messages": 10, "failed": failed, "samples": samples}
    return CheckResult("currency_enum", "bank.postings", "warning", passed, observed)


def samples(shown: dg.AssetCheckResult | dg.AssetCheckEvaluation) -> Sequence[dg.TableRecord]:
    """Return the messages that a check shows."""
    found = (shown.metadata or {})["samples"]
    assert isinstance(found, dg.TableMetadataValue)
    return found.records


def test_a_later_batch_does_not_paint_over_a_failure() -> None:
    tally = Tally(result(True))
    for batch_id, found in enumerate([result(True), result(False, 3), result(True)], start=1):
        tally.add(found, batch_id)
    answered = evaluation(CONTRACT, tally)
    assert not answered.passed
    expected = {"failed": 3, "messages": 30, "batches": "3", "failed_batches": "1", "batch_id": "2"}
    assert {name: answered.metadata[name].value for name in expected} == expected
    assert len(samples(answered)) == 3


def test_samples_stay_few() -> None:
    tally = Tally(result(True))
    for batch_id in range(5):
        tally.add(result(False, 4), batch_id)
    assert len(samples(evaluation(CONTRACT, tally))) == 10
    assert evaluation(CONTRACT, tally).metadata["failed"].value == 20


GATE = CheckResult("postings_sum_to_zero", "bank.postings", "blocking", False, {"observed_value": 5})
LARGE = CheckResult("postings_of_usual_size", "bank.postings", "warning", False, {"observed_value": 5})


@pytest.mark.parametrize(
    ("failed", "published", "limit", "now", "command"),
    [
        (
            result(False, 3),
            True,
            "one of CHF",
            "These messages became dead letters.",
            "tidegate dlq list bank_transfers",
        ),
        (result(False, 3), False, "one of CHF", "Batch 7 was not committed", "tidegate resolve bank_transfers"),
        (
            GATE,
            False,
            "ExpectColumnSumToBeBetween(column=amount,",
            "its offsets are unchanged",
            "tidegate resolve bank",
        ),
        (GATE, True, "min_value=0, max_value=0)", "tidegate resolve accepted it despite this check", None),
        (LARGE, True, "ExpectColumnMaxToBeBetween", "the check has severity warning", None),
        (LARGE, False, "ExpectColumnMaxToBeBetween", "Batch 7 was not committed", "tidegate resolve bank_transfers"),
    ],
)
def test_a_failed_check_shows_its_limit_the_outcome_for_the_batch_and_the_next_command(
    failed: CheckResult, published: bool, limit: str, now: str, command: str | None
) -> None:
    tally = Tally(failed)
    tally.add(failed, 7, published=published)
    shown = {name: str(value.value) for name, value in evaluation(CONTRACT, tally).metadata.items()}
    assert limit in shown["limit"]
    assert now in shown["what_happens_now"]
    assert shown.get("next_command", "none").startswith(command or "none")


def test_a_batch_that_was_not_committed_stays_so_in_the_report_of_the_whole_run() -> None:
    tally = Tally(GATE)
    tally.add(replace(GATE, passed=True), 6)
    tally.add(GATE, 7, published=False)
    tally.add(replace(GATE, passed=True), 8)
    assert "Batch 7 was not committed" in str(evaluation(CONTRACT, tally).metadata["what_happens_now"].value)


def test_a_renamed_rule_has_no_limit() -> None:
    gone = replace(LARGE, name="gone")
    tally = Tally(gone)
    tally.add(gone, 7)
    assert "limit" not in evaluation(CONTRACT, tally).metadata


def test_only_what_a_plot_is_of_use_for_is_a_number() -> None:
    shown = _shown(3)
    numbers = {name for name, value in shown.items() if isinstance(value.value, int | float)}
    assert numbers == {"messages", "rows", "dead_letters", "messages_per_second", "seconds", "lag"}
    assert next(iter(shown)) == "lag"  # Dagster keeps the order
    assert [record.data for record in _records(shown["seconds_by_step"])] == [{"step": "stage", "seconds": 1.0}]


def test_offsets_are_one_table_and_of_many_partitions_the_largest_and_a_sum() -> None:
    (first, *_) = _records(_shown(20)["offsets"])
    assert first.data == {"partition": "0", "from": "20", "until": "30", "offsets": 10, "lag": "2"}
    many = _records(_shown(1_000)["offsets"])
    assert len(many) == 21
    assert many[-1].data == {"partition": "980 others", "from": "", "until": "", "offsets": 9_800, "lag": "1,960"}


def _shown(partitions: int, changes: RowChanges | None = None) -> Mapping[str, dg.MetadataValue[Any]]:
    """Return the metadata of the row table for a batch of ten offsets from each of so many partitions."""
    ranges = tuple(OffsetRange(CONTRACT.topic, number, 20, 30) for number in range(partitions))
    batch = Published(1, CONTRACT.pipeline, ranges, 10 * partitions, 10, 0, 0, (), {"stage": 1.0}, changes=changes)
    first, *_ = materializations(CONTRACT, batch, dict.fromkeys(range(partitions), 2), {})
    return first.metadata


def _records(value: dg.MetadataValue[Any]) -> Sequence[dg.TableRecord]:
    assert isinstance(value, dg.TableMetadataValue)
    return value.records


def test_an_observation_of_a_topic_with_many_partitions_has_totals_alone() -> None:
    view = TopicView("t", "c", "id", {number: PartitionView(0, 10) for number in range(1_000)})
    found = _observation(view, {"partitions": 1_000}, {}).metadata
    assert found["end_offsets"].value == 10_000
    rows = _records(found["offsets"])
    assert rows[0].data == {"partition": "0", "earliest": "0", "end": "10", "offsets": 10}
    assert (len(rows), rows[-1].data["partition"], rows[-1].data["offsets"]) == (21, "980 others", 9_800)


def test_an_observation_of_a_topic_shows_retention_in_days_and_plots_no_setting() -> None:
    view = TopicView("t", "c", "id", {0: PartitionView(3, 10)})
    facts = {"partitions": 1, "retention_ms": 604_800_000, "retention_bytes": -1, "cleanup_policy": "delete"}
    found = _observation(view, facts, {}).metadata
    assert (found["retention"].value, found["retention_bytes"].value) == ("7 days", "unlimited")
    assert "retention_ms" not in found
    assert {name for name, value in found.items() if isinstance(value.value, int)} == {"messages", "end_offsets"}
    assert _observation(view, {"retention_ms": -1}, {}).metadata["retention"].value == "unlimited"


def test_an_upsert_shows_rows_upserted_and_deleted_in_the_place_of_staged_rows() -> None:
    shown = _shown(1, changes=RowChanges(upserted=0, deleted=2))
    assert (shown["upserted"].value, shown["deleted"].value) == (0, 2)
    assert "rows" not in shown


def test_filtered_messages_are_shown_of_the_row_table_alone() -> None:
    batch = Published(1, CONTRACT.pipeline, (), 10, 0, 0, 0, (), {}, filtered=10)
    postings, balances = (one.metadata for one in materializations(CONTRACT, batch, None, {}))
    assert postings["filtered"].value == 10
    assert "filtered" not in balances


def test_unknown_fields_are_shown_as_a_number_of_messages() -> None:
    batch = Published(1, CONTRACT.pipeline, (), 10, 10, 0, 49_873, (), {})
    postings, balances = (one.metadata for one in materializations(CONTRACT, batch, None, {}))
    assert postings["unknown_fields"].value == "in 49,873 messages"
    assert "unknown_fields" not in balances


def test_counts_of_several_batches_are_sums_and_not_shown_where_one_is_not_known() -> None:
    batch = Published(1, CONTRACT.pipeline, (), 4, 2, 0, 0, (), {}, filtered=2, changes=RowChanges(1, 1))
    assert together([batch, batch]).filtered == 4
    assert together([batch, batch]).changes == RowChanges(2, 2)
    late = replace(batch, filtered=None, changes=None)
    assert together([batch, late]).filtered is None
    assert together([batch, late]).changes is None
    assert "8 messages, 2 rows upserted, 2 deleted, 4 filtered, 0 dead letters" in sentence([batch, batch])


def test_a_check_that_a_run_selects_and_does_not_evaluate_keeps_its_last_result() -> None:
    key = dg.AssetCheckKey(dg.AssetKey("table"), "sound")
    results = [False, None, None]

    @dg.multi_asset(
        specs=[dg.AssetSpec("table", skippable=True)],
        check_specs=[dg.AssetCheckSpec("sound", asset="table")],
        can_subset=True,
    )
    def drain(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
        with checks_kept(context):
            if (passed := results.pop(0)) is not None:
                evaluation = dg.AssetCheckEvaluation(key.asset_key, key.name, passed=passed)
                context.log_event(evaluation)  # pyright: ignore[reportArgumentType]  # accepted, though not annotated
        yield from ()

    with dg.DagsterInstance.ephemeral() as instance:
        runs = [dg.materialize([drain], instance=instance).run_id for _ in range(3)]
        shown = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
        assert (shown.run_id, shown.status) == (runs[0], AssetCheckExecutionRecordStatus.FAILED)
        for run_id in runs:
            assert not [item for item in instance.all_logs(run_id) if "did not yield" in item.user_message]
