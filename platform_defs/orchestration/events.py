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
from platform_defs.halts import PartitionSpan
from platform_defs.offsets import whole_spans
from platform_defs.orchestration.keys import is_row_table, table_key
from platform_defs.words import plural

SEVERITIES = {"blocking": dg.AssetCheckSeverity.ERROR, "warning": dg.AssetCheckSeverity.WARN}
PLACE = ("partition", "offset")
MOST_SCHEMAS = 20  # whose messages a batch counts apart
MOST_PARTITIONS = 20  # with rows of their own: Dagster stores and loads each


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
    lags: Mapping[int, int] | None,
    row_counts: Mapping[str, int | None],
    batches: int | None = None,
) -> list[dg.AssetMaterialization]:
    """Return one for each table of the pipeline: they commit together. Dagster plots numbers, so that only what a plot
    is of use for is one; the rest is text and tables.

    `lags`: unread messages by partition. `batches`: of so many, where several are reported together as one `batch`.
    """
    what = f"Batch {batch.batch_id}" if (batches or 1) == 1 else f"{batches} batches up to {batch.batch_id}"
    lag = None if lags is None else sum(lags.values())
    return [
        dg.AssetMaterialization(
            table_key(table.name),
            description=f"{what}: {plural(batch.messages, 'message')} of {contract.topic}",
            metadata=_of_batch(contract, table, batch, lags or {})
            | _known(
                {
                    "lag": lag,
                    "dagster/row_count": row_counts.get(table.name),
                    "batches": None if batches is None else str(batches),
                }
            ),
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


def evaluation(contract: Contract, tally: Tally, *, published: bool = True) -> dg.AssetCheckEvaluation:
    """Return the check for this run so far. One that failed has what is required and what was observed, samples with
    their partitions and offsets, what becomes of the batch now, and the command and the page that go on from there.
    """
    result, failed = tally.latest, tally.failed_batches
    shown: dict[str, Any] = {
        "failed": tally.failed if "failed" in result.observed else None,
        "messages": tally.messages or None,
        "observed_value": result.observed.get("observed_value"),
        "batches": str(tally.batches),
        "failed batches": str(failed),
        "batch": str(tally.batch_id),
        "samples": samples_table(tally.samples) if tally.samples else None,
        "rule": result.observed.get("rule") or None,
    }
    if failed:
        shown |= _what_now(contract, tally, published=published)
    return dg.AssetCheckEvaluation(
        asset_key=table_key(result.table),
        check_name=result.name,
        passed=not failed,
        severity=SEVERITIES[result.severity],
        description=_sentence(tally, published=published),
        metadata=_known(shown),
    )


def _what_now(contract: Contract, tally: Tally, *, published: bool) -> dict[str, Any]:
    """What a person on call needs after what failed."""
    result, batch_id = tally.latest, tally.batch_id
    rule = next((rule for rule in contract.batch_rules if rule.name == result.name), None)
    if rule is None:  # of single messages
        limit = next((rule.description for rule in contract.row_rules if rule.name == result.name), None)
        now = "The messages are dead letters. The others of the batch were committed, and the pipeline goes on."
        command, page = f"tidegate dlq list {contract.pipeline}", "docs/how-to/dead-letters.md"
    else:
        limit = f"{rule.expectation}({', '.join(f'{name}={value}' for name, value in rule.arguments.items())})"
        page = "docs/how-to/failed-check.md"
        if result.severity == "blocking" and not published:
            now = f"Batch {batch_id} was not committed; offsets are unchanged. The next run checks the same rows again."
            command = f"tidegate ack {contract.pipeline}"
        else:
            now = f"Batch {batch_id} was committed, and the pipeline goes on: this check only warns."
            command = None
    return {"limit": limit, "what happens now": now, "next command": command, "page": page}


def samples_table(samples: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """What failed, as a table in Dagster's UI: one row for each sample."""
    given = dict.fromkeys(name for sample in samples for name in sample)
    names = [*(name for name in PLACE if name in given), *(name for name in given if name not in PLACE)]
    columns = [dg.TableColumn(name, "int" if name in PLACE else "string") for name in names]
    records = [dg.TableRecord({name: _cell(sample.get(name)) for name in names}) for sample in samples]
    return dg.MetadataValue.table(records, dg.TableSchema(columns=columns))


def _of_batch(contract: Contract, table: Table, batch: Published, lags: Mapping[int, int]) -> dict[str, Any]:
    seconds = sum(batch.timings.values())
    found: dict[str, Any] = {"messages": batch.messages}
    if is_row_table(contract, table):
        found |= {"rows": batch.rows, "dead_letters": batch.dead_letters}
        if batch.dead_letters:
            found |= {"show dead letters": f"tidegate dlq list {contract.pipeline}"}
        if batch.unknown_fields:
            found |= {"messages with unknown fields": f"{batch.unknown_fields:,}"}
        if batch.skipped_records:
            found |= {"skipped records": f"{batch.skipped_records:,}"}
        if batch.schemas:
            found |= {"schemas": _schemas_table(batch)}
    found |= {"messages_per_second": round(batch.messages / seconds) if seconds else 0, "seconds": round(seconds, 3)}
    found |= {"seconds by step": _steps_table(batch), "offsets": _offsets_table(batch, lags)}
    found |= {"batch": str(batch.batch_id), "contract version": batch.contract_version}
    return found | {"contract digest": batch.contract_digest or "not recorded"}


def _steps_table(batch: Published) -> dg.TableMetadataValue:
    records = [dg.TableRecord({"step": step, "seconds": float(taken)}) for step, taken in batch.timings.items()]
    return _table(records, step="string", seconds="float")


def _offsets_table(batch: Published, lags: Mapping[int, int]) -> dg.TableMetadataValue:
    """From where to where each partition was read, `until` excluded, and what is unread behind it. Of more than
    MOST_PARTITIONS those with the most messages, and a row of all others.
    """
    spans = sorted(whole_spans(batch.ranges), key=_length, reverse=True)
    shown, others = sorted(spans[:MOST_PARTITIONS], key=lambda span: span.partition), spans[MOST_PARTITIONS:]
    records = [
        _offsets_row(str(s.partition), str(s.from_offset), str(s.until_offset), _length(s), lags.get(s.partition))
        for s in shown
    ]
    if others:
        left = sum(lags.get(span.partition, 0) for span in others) if lags else None
        records.append(_offsets_row(f"{len(others):,} others", "", "", sum(map(_length, others)), left))
    return _table(records, partition="string", **{"from": "string"}, until="string", offsets="int", lag="string")


def _length(span: PartitionSpan) -> int:
    return span.until_offset - span.from_offset


def _offsets_row(partition: str, start: str, until: str, offsets: int, lag: int | None) -> dg.TableRecord:
    unread = "" if lag is None else f"{lag:,}"
    return dg.TableRecord({"partition": partition, "from": start, "until": until, "offsets": offsets, "lag": unread})


def _schemas_table(batch: Published) -> dg.TableMetadataValue:
    """How many messages name each schema, of the most frequent ones; the others together."""
    most = sorted(batch.schemas, key=lambda item: -item.messages)
    named = [(schema_name(item), item.part, item.messages) for item in most[:MOST_SCHEMAS]]
    if rest := sum(item.messages for item in most[MOST_SCHEMAS:]):
        named.append((f"{len(most) - MOST_SCHEMAS} others", "", rest))
    records = [dg.TableRecord({"schema": name, "of": part, "messages": count}) for name, part, count in named]
    return _table(records, schema="string", of="string", messages="int")


def _table(records: Sequence[dg.TableRecord], **columns: str) -> dg.TableMetadataValue:
    schema = dg.TableSchema(columns=[dg.TableColumn(name, kind) for name, kind in columns.items()])
    return dg.MetadataValue.table(records, schema)


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
