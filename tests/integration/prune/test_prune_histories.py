"""Prunes of generated histories: verify reads the same from the ledger after them as before."""

from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.ledger.ledger import Ledger
from platform_defs.offsets import PartitionView, TopicView
from platform_defs.prune import ledger as prune_ledger
from platform_defs.prune.prune import prune
from platform_defs.settings.contracts import find_all
from platform_defs.verify.source.snapshot import take_snapshot
from platform_defs.verify.source.spans import tiling, united
from tests.support.world import World, renamed

pytestmark = pytest.mark.usefixtures("small_pages")


@st.composite
def histories(draw: st.DrawFn) -> dict[str, Any]:
    """Generate a ledger's history of a pipeline: batches that read on, skip, or read lost offsets again."""
    at, batches, lost, skips = {0: 0, 1: 0}, list[list[tuple[int, int, int]]](), list[tuple[int, int, int, int]](), []
    for number in range(1, draw(st.integers(2, 9)) + 1):
        ranges = []
        for partition in sorted(draw(st.sets(st.integers(0, 1), min_size=1))):
            what = draw(st.sampled_from(["on", "on", "on", "skip", "cut"]))
            if what == "skip":
                skips.append((partition, at[partition], at[partition] + 2))
                at[partition] += 2
            if what == "cut" and at[partition] > 1:
                cut = draw(st.integers(1, at[partition] - 1))
                lost.append((partition, cut, at[partition], number - 1))
                at[partition] = cut
            start, at[partition] = at[partition], at[partition] + draw(st.integers(1, 4))
            ranges.append((partition, start, at[partition]))
        batches.append(ranges)
    lows = {partition: draw(st.integers(0, end)) for partition, end in at.items()}
    replaced = draw(st.integers(0, len(batches)))
    return {"at": at, "batches": batches, "lost": lost, "skips": skips, "lows": lows, "replaced": replaced}


def written(session: psycopg.Connection[Any], name: str, history: dict[str, Any]) -> None:
    """Write that history to the ledger's own tables."""
    many = session.cursor().executemany
    session.execute("insert into tidegate.pipeline (name) values (%s)", [name])
    many(
        "insert into tidegate.source_position (pipeline, topic, partition, cluster_id, topic_id, start_offset,"
        " next_offset) values (%s, %s, %s, 'c', 'id', 0, %s)",
        [(name, name, partition, end) for partition, end in history["at"].items()],
    )
    replayed = (
        "insert into tidegate.replay (pipeline, from_batch, fingerprint, executed_at) values (%s, 1, '', now())"
        " returning replay_id"
    )
    (replay,) = session.execute(replayed, [name]).fetchone() or (0,)
    many_ids = "select nextval('tidegate.batch_id') from generate_series(1, %s)"
    ids = [number for (number,) in session.execute(many_ids, [len(history["batches"])])]
    for number, (batch, ranges) in enumerate(zip(ids, history["batches"], strict=True), 1):
        session.execute(
            "insert into tidegate.batch (batch_id, pipeline, epoch, owner, messages, rows, dead_letters,"
            " unknown_fields, contract_version, timings, committed_at, reported_at, contract_digest, replaced_by)"
            " values (%s, %s, 1, gen_random_uuid(), 1, 1, 0, 0, '1', '{}', now() - interval '60 days', now(), %s, %s)",
            [batch, name, f"d{number % 2}", replay if number == history["replaced"] else None],
        )
        many(
            "insert into tidegate.batch_range (batch_id, topic, topic_id, partition, from_offset, until_offset,"
            " messages, gaps) values (%s, %s, 'id', %s, %s, %s, %s, %s::int8multirange)",
            [(batch, name, p, low, high, high - low - 1, f"{{[{high - 1},{high})}}") for p, low, high in ranges],
        )
    settled = (
        "insert into tidegate.settlement (pipeline, halt_code, halt_detail, actions, epoch, reason, settled_by)"
        " values (%s, '', '{}', '{}', 1, '', '') returning settlement_id"
    )
    (settlement,) = session.execute(settled, [name]).fetchone() or (0,)
    for number, (partition, low, high, until) in enumerate(history["lost"]):
        session.execute(
            "insert into tidegate.settlement overriding system value select %s, pipeline, halt_code, halt_detail,"
            " actions, epoch, reason, settled_by from tidegate.settlement where settlement_id = %s",
            [10**6 * settlement + number, settlement],
        )
        session.execute(
            "insert into tidegate.lost_history values (%s, %s, %s, %s, %s, %s)",
            [10**6 * settlement + number, name, partition, low, high, ids[until - 1]],
        )
    many(
        "insert into tidegate.declared_skip (pipeline, topic_id, partition, from_offset, until_offset, reason,"
        " declared_by) values (%s, 'id', %s, %s, %s, '', '') on conflict do nothing",
        [(name, *skip) for skip in history["skips"]],
    )


def seen(world: World, pipeline: Pipeline, lows: dict[int, int]) -> list[Any]:
    """Return all that verify reads: below the log's start, the covered offsets and the gaps; above it, everything."""
    found = list[Any]()
    with take_snapshot(world.endpoints.postgres_url, pipeline.contract) as snapshot:
        for number, part in sorted(snapshot.partitions.items()):
            low = lows[number]
            assert part.forgotten <= low, "what the log still has is compared"
            tiles = tiling([*part.covered, *part.skips], part.start, part.next)
            found += [number, tiles, united(part.gaps), part.skips]
            found += [list(part.by_contract(min(low, part.next), part.next))]
            found += [[item for item in part.counted if item.until > low]]
    return found


@pytest.mark.longest
@settings(max_examples=20, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories())
def test_of_any_history_verify_is_told_the_same_after_a_prune_as_before(world: World, history: dict[str, Any]) -> None:
    Ledger(world.endpoints.postgres_url).migrate()
    shipped = next(p for p in find_all().pipelines if p.name == "web_page_views")
    pipeline = Pipeline(renamed(shipped.contract, f"t{uuid4().hex[:10]}"), None)
    with world.session() as session, session.transaction():
        written(session, pipeline.name, history)
    before = seen(world, pipeline, history["lows"])
    held = {number: PartitionView(low, history["at"][number]) for number, low in history["lows"].items()}
    view = TopicView(pipeline.name, "c", "id", held)
    read = world.ledger.read_before(pipeline.name, "id")
    found = prune(world.endpoints.postgres_url, pipeline.contract, lambda _: view, execute=True)
    event(f"{found.batches} batches pruned")
    assert seen(world, pipeline, history["lows"]) == before
    assert world.ledger.read_before(pipeline.name, "id") == read or history["replaced"]
    assert sum(found.kept.values()) + found.batches == len(history["batches"])


def test_what_is_read_of_batches_to_be_pruned_does_not_grow_with_their_gaps(world: World) -> None:
    """In a topic whose producer commits each message by itself, there are as many gaps as messages."""
    Ledger(world.endpoints.postgres_url).migrate()
    name = f"t{uuid4().hex[:10]}"
    history = {"at": {0: 50_000}, "batches": [[(0, 0, 50_000)]], "lost": [], "skips": [], "replaced": 0}
    with world.session() as session, session.transaction():
        written(session, name, history)
        gaps = "select range_agg(int8range(n, n + 1)) from generate_series(0, 49999, 2) as n"
        session.execute(f"update tidegate.batch_range set gaps = ({gaps}) where topic = %s".encode(), [name])
    (batch,) = world.rows("select batch_id from tidegate.batch where pipeline = %s", name)
    with world.session() as connection:
        ledger = prune_ledger.PruneLedger(connection, name, 0.0, "id", {0: 50_000}, known=True)
        with ledger.page() as same_log:
            assert same_log
            (read,) = ledger.ranges([batch["batch_id"]])
        assert read["spans"] == 25_000
        assert len(repr(read)) < 1_000
