"""Step 8: the events that report a committed batch to Dagster, or one that a gate stopped.

A run drains many batches, and Dagster keeps one evaluation for each check and run. So an evaluation sums up the run so
far: the next batch does not hide a failure in an earlier one, and its samples stay. The history by batch is in the
ledger.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from platform_defs.contract.model.contract import CheckResult, Contract, Table
from platform_defs.dagster.keys import is_row_table, table_key
from platform_defs.engine.commit.audit import SAMPLES, row_check_descriptions
from platform_defs.errors.words import plural
from platform_defs.ledger.published import Published, SchemaCount
from platform_defs.offsets import whole_spans
from platform_defs.pipelines.reporting.collected import changes, filtered

SEVERITIES = {"blocking": dg.AssetCheckSeverity.ERROR, "warning": dg.AssetCheckSeverity.WARN}
PLACE = ("partition", "offset")
MAX_SCHEMAS = 20  # that a batch counts separately
MAX_PARTITIONS = 20  # with rows of their own: Dagster stores and loads each


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
    published: bool = True  # True if that batch was committed

    def add(self, result: CheckResult, batch_id: int, *, published: bool = True) -> None:
        self.batches += 1
        self.messages += result.observed.get("messages", 0)
        if result.passed and self.failed_batches:
            return  # keep showing the batch that failed
        self.latest, self.batch_id, self.published = result, batch_id, published
        self.failed_batches += not result.passed
        self.failed += result.observed.get("failed", 0)
        self.samples = (self.samples + (result.observed.get("samples") or []))[:SAMPLES]


def materializations(
    contract: Contract,
    batch: Published,
    lags: Mapping[int, int] | None,
    row_counts: Mapping[str, int | None],
    batches: int | None = None,
) -> list[dg.AssetMaterialization]:
    """Return one materialization for each table; they commit together. Dagster plots every number, so only measures are
    numbers; ids are text, offsets and timings are tables.

    `lags`: unread offsets by partition. `batches`: how many, if several are reported together as one `batch`.
    """
    what = f"Batch {batch.batch_id}" if (batches or 1) == 1 else f"{batches} batches up to {batch.batch_id}"
    lag = None if lags is None else sum(lags.values())
    return [
        dg.AssetMaterialization(
            table_key(table.name, contract.asset_prefix),
            description=f"{what}: {plural(batch.messages, 'message')} of {contract.topic}",
            metadata=_known(
                {
                    "lag": lag,
                    **_of_batch(contract, table, batch, lags or {}),
                    "dagster/row_count": row_counts.get(table.name),
                    "batches": None if batches is None else str(batches),
                }
            ),
        )
        for table in contract.tables
    ]


def sentence(batches: Sequence[Published]) -> str:
    """Return what was published, for a run's log: a batch, or several."""
    first, last = batches[0].batch_id, batches[-1].batch_id
    which = f"batch {last}" if len(batches) == 1 else f"{len(batches)} batches, {first} to {last}"
    messages, rows, dead = (sum(getattr(b, name) for b in batches) for name in ("messages", "rows", "dead_letters"))
    upsert, left = changes(batches), filtered(batches)
    written = (
        f"{plural(upsert.upserted, 'row')} upserted, {upsert.deleted:,} deleted" if upsert else plural(rows, "row")
    )
    skipped = sum(batch.skipped_records for batch in batches)
    seconds = sum(sum(batch.timings.values()) for batch in batches)
    return (
        f"{which}: {plural(messages, 'message')}, {written}{f', {left:,} filtered' if left else ''}, "
        f"{plural(dead, 'dead letter')}{f', {skipped:,} skipped' if skipped else ''} in {seconds:.2f} s"
    )


def evaluation(contract: Contract, tally: Tally) -> dg.AssetCheckEvaluation:
    """Return the check for this run so far. If it failed, it has samples of the failed messages: their partitions and
    offsets.
    """
    result, failed = tally.latest, tally.failed_batches
    shown: dict[str, Any] = {
        "failed": tally.failed if "failed" in result.observed else None,
        "messages": tally.messages or None,
        "observed_value": result.observed.get("observed_value"),
        "batches": str(tally.batches),
        "failed_batches": str(failed),
        "batch_id": str(tally.batch_id),
        "samples": samples_table(tally.samples) if tally.samples else None,
        "rule": result.observed.get("rule") or None,
    }
    return dg.AssetCheckEvaluation(
        asset_key=table_key(result.table, contract.asset_prefix),
        check_name=result.name,
        passed=not failed,
        severity=SEVERITIES[result.severity],
        description=_sentence(tally),
        metadata=_known(shown | (_remedy(contract, tally) if failed else {})),
    )


def _remedy(contract: Contract, tally: Tally) -> dict[str, Any]:
    """Return the limit of a failed check, the outcome of the batch, and the next command with its page."""
    result, batch = tally.latest, f"Batch {tally.batch_id}"
    of_messages = row_check_descriptions(contract)
    of_batch = {(rule.table, rule.name): rule for rule in contract.batch_rules}.get((result.table, result.name))
    given = ", ".join(f"{name}={value}" for name, value in of_batch.arguments.items()) if of_batch else ""
    limit = f"{of_batch.expectation}({given})" if of_batch else of_messages.get(result.name)
    command, page = None, "docs/how-to/failed-check.md"
    if not tally.published:
        now = f"{batch} was not committed; its offsets are unchanged. The next run checks it again."
        command = f"tidegate resolve {contract.pipeline}"
    elif result.name in of_messages:
        now = "These messages became dead letters. The other messages of the batch were committed."
        command, page = f"tidegate dlq list {contract.pipeline}", "docs/how-to/dead-letters.md"
    elif result.severity == "blocking":
        now = f"{batch} was committed: tidegate resolve accepted it despite this check."
    else:
        now = f"{batch} was committed: the check has severity warning."
    return {"limit": limit, "what_happens_now": now, "next_command": command, "page": page}


def samples_table(samples: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """Return the failed samples as a table in Dagster's UI, one row each."""
    given = dict.fromkeys(name for sample in samples for name in sample)
    names = [*(name for name in PLACE if name in given), *(name for name in given if name not in PLACE)]
    kinds = {name: "int" if name in PLACE else "string" for name in names}
    return metadata_table(kinds, [{name: _cell(sample.get(name)) for name in names} for sample in samples])


def _of_batch(contract: Contract, table: Table, batch: Published, lags: Mapping[int, int]) -> dict[str, Any]:
    seconds, rows = sum(batch.timings.values()), is_row_table(contract, table)
    upsert = batch.changes if rows else None
    return {
        "messages": batch.messages,
        "rows": batch.rows if rows and upsert is None else None,  # of an upsert tombstones too
        "upserted": upsert.upserted if upsert else None,
        "deleted": upsert.deleted if upsert else None,
        "filtered": batch.filtered if rows else None,
        "dead_letters": batch.dead_letters if rows else None,
        "show_dead_letters": f"tidegate dlq list {contract.pipeline}" if rows and batch.dead_letters else None,
        "unknown_fields": f"in {plural(batch.unknown_fields, 'message')}" if rows and batch.unknown_fields else None,
        "skipped_records": f"{batch.skipped_records:,}" if rows and batch.skipped_records else None,
        "schemas": _schemas_table(batch) if rows and batch.schemas else None,
        "messages_per_second": round(batch.messages / seconds) if seconds else 0,
        "seconds": round(seconds, 3),
        "seconds_by_step": metadata_table(
            {"step": "string", "seconds": "float"},
            [{"step": step, "seconds": float(taken)} for step, taken in batch.timings.items()],
        ),
        "offsets": _offsets_table(batch, lags),
        "batch_id": str(batch.batch_id),
        "contract_version": batch.contract_version,
        "contract_digest": batch.contract_digest or "not recorded",
    }


def _offsets_table(batch: Published, lags: Mapping[int, int]) -> dg.TableMetadataValue:
    """Return the offsets that were read from each partition, `until` excluded, and how many are unread after it. Of
    more than MAX_PARTITIONS: those with the most offsets, and one row for all others.
    """
    spans = sorted(whole_spans(batch.ranges), key=lambda span: -span.offsets)
    rows: list[dict[str, str | int]] = [
        {
            "partition": str(span.partition),
            "from": str(span.from_offset),
            "until": str(span.until_offset),
            "offsets": span.offsets,
            "lag": f"{lags[span.partition]:,}" if span.partition in lags else "",
        }
        for span in sorted(spans[:MAX_PARTITIONS], key=lambda span: span.partition)
    ]
    if others := spans[MAX_PARTITIONS:]:
        rows.append(
            {
                "partition": plural(len(others), "other"),
                "from": "",
                "until": "",
                "offsets": sum(span.offsets for span in others),
                "lag": f"{sum(lags.get(span.partition, 0) for span in others):,}" if lags else "",
            }
        )
    kinds = {"partition": "string", "from": "string", "until": "string", "offsets": "int", "lag": "string"}
    return metadata_table(kinds, rows)


def _schemas_table(batch: Published) -> dg.TableMetadataValue:
    """Return how many messages name each of the most frequent schemas, and all others."""
    most = sorted(batch.schemas, key=lambda item: -item.messages)
    rows: list[dict[str, str | int]] = [
        {"schema": schema_name(item), "of": item.part, "messages": item.messages} for item in most[:MAX_SCHEMAS]
    ]
    if others := most[MAX_SCHEMAS:]:
        total = sum(item.messages for item in others)
        rows.append({"schema": plural(len(others), "other"), "of": "", "messages": total})
    return metadata_table({"schema": "string", "of": "string", "messages": "int"}, rows)


def metadata_table(
    columns: Mapping[str, str], rows: Sequence[Mapping[str, str | int | float]]
) -> dg.TableMetadataValue:
    """Return a table in Dagster's UI. `columns`: their types (string, int, float), by name."""
    schema = dg.TableSchema(columns=[dg.TableColumn(name, kind) for name, kind in columns.items()])
    return dg.MetadataValue.table([dg.TableRecord(dict(row)) for row in rows], schema)


def schema_name(named: SchemaCount) -> str:
    """Return the id of a schema, with its generation if the registry was rebuilt: then its ids mean something else."""
    return named.key if named.generation == 1 else f"{named.key}_generation_{named.generation}"


def _sentence(tally: Tally) -> str:
    result = tally.latest
    if not tally.failed_batches:
        return f"Passed in {plural(tally.batches, 'batch', 'batches')} of this run."
    value = result.observed.get("observed_value")
    seen = f"{tally.failed:,} failed" if "failed" in result.observed else f"observed {value}"
    batches = plural(tally.batches, "batch", "batches")
    where = f"in {tally.failed_batches} of {batches} of this run, last in batch {tally.batch_id}"
    return f"{seen}, {where}." if tally.published else f"{seen}, {where}, which was not committed."


def _cell(value: Any) -> str | int | float | bool:
    return value if isinstance(value, str | int | float | bool) else "" if value is None else str(value)


def _known(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if value is not None}
