"""The state of one pipeline in one SQL snapshot, and its invariants.

These are the promises I1 to I6 in docs/explanation/guarantees.md.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import psycopg

from platform_defs.contract.model.contract import Contract
from tests.model.log import Log, Record

Place = tuple[str, int, int]  # topic id, partition, offset


@dataclass(frozen=True)
class Span:
    """Offsets that were read, or given up, in one partition of one log."""

    topic_id: str
    partition: int
    start: int
    until: int

    def places(self) -> Iterator[Place]:
        return ((self.topic_id, self.partition, at) for at in range(self.start, self.until))


Seen = Mapping[str, Any]  # from `look`: the pipeline's row, and the rows of each table that refers to it

# Foreign keys guarantee that each batch_id leads to its pipeline.
_LOOK = """SELECT jsonb_build_object(
  'pipeline', (SELECT to_jsonb(p) FROM tidegate.pipeline p WHERE name = %(name)s),
  'rows', (SELECT coalesce(jsonb_agg(to_jsonb(t)), '[]') FROM {rows} t),
  'contracts', (SELECT jsonb_object_agg(digest, version) FROM tidegate.contract WHERE pipeline = %(name)s),
  'applications', (SELECT coalesce(jsonb_agg(to_jsonb(a) ORDER BY number), '[]')
                     FROM tidegate.contract_application a WHERE pipeline = %(name)s),
  'sums', (SELECT coalesce(jsonb_agg(to_jsonb(t)), '[]') FROM {sums} t),
  {ledger})"""
_OWN = (
    "source_position",
    "batch",
    "dead_letter",
    "declared_skip",
    "settlement",
    "lost_history",
    "output",
    "staging",
    "staging_table",
    "pruned_range",
)
_OF_BATCH = ("batch_range", "check_result", "lineage_event")
PRUNED = ("batch", *_OF_BATCH)  # the tables whose rows the model remembers once they are pruned
_LEDGER = ",\n  ".join(
    [
        f"'{table}', (SELECT coalesce(jsonb_agg(to_jsonb(t) ORDER BY to_jsonb(t)), '[]') FROM tidegate.{table} t"
        " WHERE pipeline = %(name)s)"
        for table in _OWN
    ]
    + [
        f"'{table}', (SELECT coalesce(jsonb_agg(to_jsonb(t) ORDER BY to_jsonb(t)), '[]') FROM tidegate.{table} t"
        " JOIN tidegate.batch b USING (batch_id) WHERE b.pipeline = %(name)s)"
        for table in _OF_BATCH
    ]
)


def look(connection: psycopg.Connection[Any], contract: Contract) -> Seen:
    """Return tables and ledger in one snapshot."""
    sums = contract.accumulates[0].name if contract.accumulates else "(SELECT 1 WHERE false)"
    query = _LOOK.format(rows=contract.row_table.name, sums=sums, ledger=_LEDGER)
    return connection.execute(query, {"name": contract.pipeline}).fetchone()[0]  # pyright: ignore


def positions(seen: Seen) -> list[Span]:
    """Return the span that was read of each partition of the current log."""
    return [Span(p["topic_id"], p["partition"], p["start_offset"], p["next_offset"]) for p in seen["source_position"]]


def check(seen: Seen, log: Log, kept: Sequence[Span], aside: Set[Place], *, keyed: bool) -> None:
    """Assert I1, I2, I5 and I6. `kept` are spans of logs no longer read: their rows stay. `aside` are messages that a
    person dead-lettered.
    """
    spans = [*kept, *positions(seen)]
    skipped = {  # offsets that a settlement has since excluded are read after all
        place
        for s in seen["declared_skip"]
        for place in Span(s["topic_id"], s["partition"], s["from_offset"], s["until_offset"]).places()
    }
    read = [place for span in spans for place in span.places() if place not in skipped]
    batches = _every_offset_was_committed_once(seen, log, read)
    records = {place: _record(log, place) for place in read}
    found = {
        place: replace(record, kind="bad") if place in aside else record for place, record in records.items() if record
    }
    _rows_are_what_the_messages_say(seen, _newest(found, batches) if keyed else found, batches)
    _dead_letters_are_the_bad_messages(seen, found, batches)
    _each_batch_has_its_record(seen)
    _each_output_has_its_last_batch(seen)
    _totals_are_sums(seen)


def check_pruned(seen: Seen, left: Seen, log: Log) -> None:
    """Assert that `left`, the pruned ledger, and `seen`, which includes what was pruned, agree on each offset: how
    often it was read, if it came, and which records of lost history cover it. A range may only be pruned if its log is
    no longer read or has deleted it, or if it was recorded as lost (the topic may have returned to that log since).
    """
    assert _told_of(left) == _told_of(seen), f"{_diff(_told_of(left), _told_of(seen))}"
    there = {(item["batch_id"], item["partition"], item["from_offset"]) for item in left["batch_range"]}
    for item in seen["batch_range"]:
        if (item["batch_id"], item["partition"], item["from_offset"]) not in there:
            part = log.generations[item["topic_id"]].parts[item["partition"]]
            gone = item["topic_id"] not in {span.topic_id for span in positions(seen)}
            none_left = gone or item["until_offset"] <= part.low or _lost(seen, item)
            assert none_left, f"the log has messages of batch {item['batch_id']}"


def _lost(seen: Seen, item: Mapping[str, Any]) -> bool:
    return any(
        lost["partition"] == item["partition"]
        and item["batch_id"] <= lost["until_batch"]
        and lost["from_offset"] <= item["from_offset"]
        and item["until_offset"] <= lost["until_offset"]
        for lost in seen["lost_history"]
    )


def _told_of(seen: Seen) -> Counter[Any]:
    ranges = [(item, item["batch_id"]) for item in seen["batch_range"]]
    ranges += [(item, item["last_batch"]) for item in seen["pruned_range"] if "pruned" not in seen]
    return Counter(
        (item["topic_id"], item["partition"], at, at in gaps, tuple(batch <= r["until_batch"] for r in lost))
        for item, batch in ranges
        for gaps in [{*_offsets(item["gaps"].replace(" ", ""))}]
        for lost in [sorted(seen["lost_history"], key=lambda r: (r["until_batch"], r["partition"]))]
        for at in range(item["from_offset"], item["until_offset"])
    )


def _totals_are_sums(seen: Seen) -> None:
    for total, of in (("messages_total", "messages"), ("rows_total", "rows")):
        assert seen["pipeline"][total] == sum(batch[of] for batch in seen["batch"]), total


def _log(row: Mapping[str, Any]) -> str:
    """Return the topic id of a dead letter, without the mark of a settlement that superseded it."""
    return row["topic_id"].partition("~")[0]


def _record(log: Log, place: Place) -> Record | None:
    topic_id, partition, at = place
    return log.generations[topic_id].parts[partition].records.get(at)


def _every_offset_was_committed_once(seen: Seen, log: Log, read: Sequence[Place]) -> dict[Place, int]:
    """Assert I2: the ranges of all batches are exactly the offsets read, each once. Return the batch of each offset."""
    batches: dict[Place, int] = {}
    covered: Counter[Place] = Counter()
    for item in seen["batch_range"]:
        span = Span(item["topic_id"], item["partition"], item["from_offset"], item["until_offset"])
        places = list(span.places())
        covered.update(places)
        batches |= dict.fromkeys(places, int(item["batch_id"]))
        gaps = [place[2] for place in places if _record(log, place) is None]
        assert _offsets(item["gaps"]) == gaps, f"gaps of {span}: {item['gaps']}, but none came at {gaps}"
    assert covered == Counter(read), f"committed {_diff(covered, Counter(read))}"
    return batches


def _offsets(multirange: str) -> list[int]:
    """Return the numbers in the text of an int8multirange, such as {[3,5),[7,8)}."""
    spans = [span.split(",") for span in multirange.strip("{}[)").split("),[") if span]
    return [number for start, until in spans for number in range(int(start), int(until))]


def _newest(found: Mapping[Place, Record], batches: Mapping[Place, int]) -> dict[Place, Record]:
    """Return the messages that decide each key (I5): the ones produced last. Across logs, the only known order is the
    one in which they were read.
    """
    topics = dict(sorted((batch_id, place[0]) for place, batch_id in batches.items()))
    visits = [list(ids) for _, ids in groupby(topics, key=topics.__getitem__)]
    visit = {batch_id: number for number, ids in enumerate(visits) for batch_id in ids}
    last: dict[str, tuple[Place, Record]] = {}
    for place, record in sorted(found.items(), key=lambda item: (visit[batches[item[0]]], item[1].number)):
        if record.kind != "bad":
            last[record.name] = place, record
    return dict(last.values())


def _rows_are_what_the_messages_say(seen: Seen, found: Mapping[Place, Record], batches: Mapping[Place, int]) -> None:
    """Assert I1: each good message is a row, with the batch that read it; the sums are the sums of these rows."""
    good = {place: record for place, record in found.items() if record.kind == "row"}
    rows = Counter((*record.columns, batches[place], *place[1:]) for place, record in good.items())
    there = Counter((r["number"], r["account"], r["_batch_id"], r["_partition"], r["_offset"]) for r in seen["rows"])
    assert there == rows, f"rows {_diff(there, rows)}"
    _sums(seen, good.values())


def _sums(seen: Seen, good: Iterable[Record]) -> None:
    sums: dict[str, tuple[int, int, int]] = {}
    for number, account in (record.columns for record in good):
        count, total, highest = sums.get(account, (0, 0, 0))
        sums[account] = count + 1, total + number, max(highest, number)
    tables = {item["table_name"] for item in seen["output"] if item["disposition"] == "accumulate"}
    if any(not left_out(seen, table) for table in tables):
        there = {row["account"]: (row["messages"], row["total"], row["highest"]) for row in seen["sums"]}
        assert there == sums


def _dead_letters_are_the_bad_messages(seen: Seen, found: Mapping[Place, Record], batches: Mapping[Place, int]) -> None:
    bad = Counter((*place, batches[place]) for place, record in found.items() if record.kind == "bad")
    letters = Counter((_log(d), d["partition"], d["offset"], d["batch_id"]) for d in seen["dead_letter"])
    assert letters == bad, f"dead letters {_diff(letters, bad)}"


def _each_batch_has_its_record(seen: Seen) -> None:
    """Assert I6. Foreign keys ensure that nothing refers to a batch that did not commit."""
    ids = sorted(batch["batch_id"] for batch in seen["batch"])
    assert sorted(row["batch_id"] for row in seen["lineage_event"]) == ids
    assert sorted({row["batch_id"] for row in seen["check_result"]}) == ids
    for batch in seen["batch"]:
        ranges = [item for item in seen["batch_range"] if item["batch_id"] == batch["batch_id"]]
        assert ranges, f"batch {batch['batch_id']} has no range"
        assert batch["dead_letters"] == sum(d["batch_id"] == batch["batch_id"] for d in seen["dead_letter"])


def _written(event: Mapping[str, Any]) -> set[str]:
    """Return the tables that a batch wrote to, by its lineage event."""
    return {output["name"] for output in event["event"]["outputs"]}


def left_out(seen: Seen, table: str) -> bool:
    """Return True if a batch was committed by a contract that does not name the table."""
    return any(table not in _written(event) for event in seen["lineage_event"])


def _each_output_has_its_last_batch(seen: Seen) -> None:
    """Assert that each output records its last batch, even if it is behind its pipeline."""
    for output in seen["output"]:
        batches = [event["batch_id"] for event in seen["lineage_event"] if output["table_name"] in _written(event)]
        assert output["batch_id"] == max(batches, default=None), output["table_name"]


def _diff(found: Counter[Any], wanted: Counter[Any]) -> str:
    return f"too many: {dict(found - wanted)}, missing: {dict(wanted - found)}"
