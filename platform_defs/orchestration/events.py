"""Step 8: what is reported to Dagster of a committed batch, and of one that a gate stopped.

A run drains many batches, and Dagster keeps one evaluation for each check and run. So an evaluation sums up the run so
far: the next batch does not hide a failure in an earlier one, and its samples stay. The history by batch is in the
ledger.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from platform_defs.contract.model import CheckResult, Contract, Table
from platform_defs.engine.audit import SAMPLES
from platform_defs.engine.ports import Published
from platform_defs.engine.schema_ports import SchemaCount
from platform_defs.formats.writer_schema import Part
from platform_defs.offsets import whole_spans
from platform_defs.orchestration.keys import is_row_table, table_key
from platform_defs.words import plural

SEVERITIES = {"blocking": dg.AssetCheckSeverity.ERROR, "warning": dg.AssetCheckSeverity.WARN}
PLACE = ("partition", "offset")
MOST_SCHEMAS = 20  # whose messages a batch counts apart
MOST_PARTITIONS = 20  # with entries of their own: Dagster stores, loads and plots each


@dataclass
class Tally:
    """A check, summed up over the batches of a run."""

    latest: CheckResult
    batches: int = 0
    failed_batches: int = 0
    messages: int = 0
    failed: int = 0
    samples: list[dict[str, Any]] = field(default_factory=list)
    batch_id: int = 0  # of the last batch that failed; if none has, of the last one

    def add(self, result: CheckResult, batch_id: int) -> None:
        self.batches += 1
        self.messages += result.observed.get("messages", 0)
        if result.passed and self.failed_batches:
            return  # keep showing the batch that failed
        self.latest, self.batch_id = result, batch_id
        self.failed_batches += not result.passed
        self.failed += result.observed.get("failed", 0)
        self.samples = (self.samples + (result.observed.get("samples") or []))[:SAMPLES]


def materializations(
    contract: Contract,
    batch: Published,
    lag: int | None,
    row_counts: Mapping[str, int | None],
    batches: int | None = None,
) -> list[dg.AssetMaterialization]:
    """One for each table of the pipeline: they commit together. Every value that can be plotted is a number.

    `batches`: of so many, where several are reported together as one `batch`.
    """
    what = f"Batch {batch.batch_id}" if (batches or 1) == 1 else f"{batches} batches up to {batch.batch_id}"
    return [
        dg.AssetMaterialization(
            table_key(table.name),
            description=f"{what}: {plural(batch.messages, 'message')} of {contract.topic}",
            metadata=_numbers(contract, table, batch)
            | _known({"lag": lag, "dagster/row_count": row_counts.get(table.name), "batches": batches}),
        )
        for table in contract.tables
    ]


def sentence(batches: Sequence[Published]) -> str:
    """What was published, for a run's log: a batch, or several."""
    first, last = batches[0].batch_id, batches[-1].batch_id
    which = f"batch {last}" if len(batches) == 1 else f"{len(batches)} batches, {first} to {last}"
    messages, rows, dead = (sum(getattr(b, name) for b in batches) for name in ("messages", "rows", "dead_letters"))
    skipped = sum(batch.skipped_records for batch in batches)
    seconds = sum(sum(batch.timings.values()) for batch in batches)
    return (
        f"{which}: {messages:,} messages, {rows:,} rows, {dead:,} dead letters"
        f"{f', {skipped:,} skipped' if skipped else ''} in {seconds:.2f} s"
    )


def evaluation(tally: Tally, *, published: bool = True) -> dg.AssetCheckEvaluation:
    """The check for this run so far, with samples of what failed: their partitions and offsets."""
    result, failed = tally.latest, tally.failed_batches
    return dg.AssetCheckEvaluation(
        asset_key=table_key(result.table),
        check_name=result.name,
        passed=not failed,
        severity=SEVERITIES[result.severity],
        description=_sentence(tally, published=published),
        metadata=_known(
            {
                "failed": tally.failed if "failed" in result.observed else None,
                "messages": tally.messages or None,
                "observed_value": result.observed.get("observed_value"),
                "batches": tally.batches,
                "failed_batches": failed,
                "batch_id": tally.batch_id,
                "samples": samples_table(tally.samples) if tally.samples else None,
                "rule": result.observed.get("rule") or None,
            }
        ),
    )


def samples_table(samples: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """What failed, as a table in Dagster's UI: one row for each sample."""
    given = dict.fromkeys(name for sample in samples for name in sample)
    names = [*(name for name in PLACE if name in given), *(name for name in given if name not in PLACE)]
    columns = [dg.TableColumn(name, "int" if name in PLACE else "string") for name in names]
    records = [dg.TableRecord({name: _cell(sample.get(name)) for name in names}) for sample in samples]
    return dg.MetadataValue.table(records, dg.TableSchema(columns=columns))


def _numbers(contract: Contract, table: Table, batch: Published) -> dict[str, Any]:
    seconds = sum(batch.timings.values())
    numbers: dict[str, Any] = {"batch_id": batch.batch_id, "messages": batch.messages}
    if is_row_table(contract, table):
        numbers |= {"rows": batch.rows, "dead_letters": batch.dead_letters, "unknown_fields": batch.unknown_fields}
        numbers |= {"skipped_records": batch.skipped_records} if contract.wire.other_records == "skip" else {}
        numbers |= _by_schema(batch, "value", "messages_of") | _by_schema(batch, "key", "keys_of")
    numbers |= {"contract_version": batch.contract_version, "contract_digest": batch.contract_digest or "not recorded"}
    numbers |= {"messages_per_second": round(batch.messages / seconds) if seconds else 0, "seconds": round(seconds, 3)}
    numbers |= {f"seconds_{step}": float(taken) for step, taken in batch.timings.items()}
    return numbers | _spans(batch)


def _spans(batch: Published) -> dict[str, int]:
    """From where to where each partition was read; of many partitions only how many, and the offsets of all."""
    spans = whole_spans(batch.ranges)
    if len(spans) > MOST_PARTITIONS:
        offsets = sum(span.until_offset - span.from_offset for span in spans)
        return {"partitions_read": len(spans), "offsets_read": offsets}
    found: dict[str, int] = {}
    for span in spans:
        found |= {f"partition_{span.partition}_from": span.from_offset}
        found |= {f"partition_{span.partition}_until": span.until_offset}
    return found


def _by_schema(batch: Published, part: Part, what: str) -> dict[str, int]:
    """How many messages name each schema with that part, of the most frequent ones; the others together."""
    most = sorted((item for item in batch.schemas if item.part == part), key=lambda item: -item.messages)
    found = {f"{what}_schema_{schema_name(item)}": item.messages for item in most[:MOST_SCHEMAS]}
    rest = sum(item.messages for item in most[MOST_SCHEMAS:])
    return found | ({f"{what}_other_schemas": rest} if rest else {})


def schema_name(named: SchemaCount) -> str:
    """The id of a schema. One of a registry that was built again says so: its ids mean something else."""
    return named.key if named.generation == 1 else f"{named.key}_generation_{named.generation}"


def _sentence(tally: Tally, *, published: bool) -> str:
    result = tally.latest
    if not tally.failed_batches:
        return f"Passed in {plural(tally.batches, 'batch', 'batches')} of this run."
    value = result.observed.get("observed_value")
    seen = f"{tally.failed:,} failed" if "failed" in result.observed else f"observed {value}"
    batches = plural(tally.batches, "batch", "batches")
    where = f"in {tally.failed_batches} of {batches} of this run, last in batch {tally.batch_id}"
    if result.severity == "blocking" and not published:
        return f"{seen}, {where}: nothing of that batch was published, and its offsets stay."
    return f"{seen}, {where}."


def _cell(value: Any) -> str | int | float | bool:
    return value if isinstance(value, str | int | float | bool) else "" if value is None else str(value)


def _known(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if value is not None}
