"""I8: the same messages in different batches give the same tables, for every disposition."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from platform_defs.contract.model.pipeline import Pipeline
from tests.support.world import World, transfer

Sent = tuple[int, bytes | None, bytes | None]  # partition, key, value

# Each example runs some ten batches on the real systems: few, fixed examples that are not shrunk.
few = settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType]  # an Enum all the same
)


@pytest.mark.longest
def test_rows_and_their_sums_do_not_depend_on_where_batches_are_cut(world: World) -> None:
    accounts = st.integers(1, 4).map("A{:05d}".format)
    cents = st.integers(1, 10**8).map(lambda n: f"{n // 100}.{n % 100:02d}")
    good = st.builds(transfer, st.integers(0, 99), cents, accounts, accounts)
    bad = st.sampled_from([b"", b"hello", transfer(1, "0.00"), transfer(2, "1.001"), transfer(3, currency="XXX")])
    message = st.tuples(st.integers(0, 3), st.none(), st.one_of(good, good, good, good, bad))
    _agree(world, "accumulate", st.lists(message, min_size=5, max_size=60))


@pytest.mark.slow
def test_the_latest_of_each_key_does_not_depend_on_where_batches_are_cut(world: World) -> None:
    keys = st.integers(1, 6)
    names = st.text("abc", min_size=1, max_size=3)
    good = st.tuples(keys, names).map(lambda made: _customer(*made))
    gone = keys.map(lambda key: (key % 4, b"C%d" % key, None))
    bad = keys.map(lambda key: (key % 4, b"C%d" % key, b"hello"))
    _agree(world, "upsert", st.lists(st.one_of(good, good, good, gone, bad), min_size=5, max_size=40))


@pytest.mark.longest
@pytest.mark.parametrize("unique", ["UNIQUE (name)", "UNIQUE (name) DEFERRABLE INITIALLY DEFERRED"])
def test_which_key_has_a_unique_value_does_not_depend_on_where_batches_are_cut(world: World, unique: str) -> None:
    good = st.tuples(st.integers(1, 4), st.sampled_from("abcde")).map(lambda made: (0, *_customer(*made)[1:]))
    gone = st.integers(1, 4).map(lambda key: (0, b"C%d" % key, None))
    bad = st.integers(1, 4).map(lambda key: (0, b"C%d" % key, b"hello"))
    _agree(world, "upsert", st.lists(st.one_of(good, good, good, gone, bad), min_size=15, max_size=40), f"ADD {unique}")


@pytest.mark.longest
def test_a_table_without_a_transform_does_not_depend_on_where_batches_are_cut(world: World) -> None:
    view = {"visitor": "v", "url": "https://a.b/", "viewed_at": "2026-11-01T10:00:00Z"}
    good = st.integers(0, 99).map(lambda n: json.dumps(view | {"event_id": f"e{n}", "duration_ms": n}).encode())
    message = st.tuples(st.integers(0, 3), st.none(), st.one_of(good, good, st.just(b'{"event_id":""}')))
    _agree(world, "append", st.lists(message, min_size=5, max_size=60))


def _agree(world: World, disposition: str, messages: st.SearchStrategy[list[Sent]], altered: str = "") -> None:
    """Assert that lists of messages give the same tables and dead letters in one batch and in several.

    `altered` is an alteration that is applied to the row table first.
    """
    cuts = st.tuples(st.integers(1, 3), st.integers(2, 3))  # how many times new messages arrive, and batches each time

    @few
    @given(messages, cuts)
    def compare(sent: list[Sent], cut: tuple[int, int]) -> None:
        whole, pieces = _altered(world, world.new_pipeline(disposition), altered), cut[0]
        _send(world, whole, sent)
        assert len(world.drain(whole)) == 1
        size = -(-len(sent) // pieces)
        parted = world.new_pipeline(disposition, batch_messages=max(1, size // cut[1]))
        parted = _altered(world, parted, altered)
        batches = 0
        for start in range(0, len(sent), size):
            _send(world, parted, sent[start : start + size])
            batches += len(world.drain(parted))
        assert batches >= 2
        assert _outcome(world, parted) == _outcome(world, whole)

    compare()


def _altered(world: World, pipeline: Pipeline, altered: str) -> Pipeline:
    if altered:
        world.drain(pipeline)  # the tables are created
        world.rows(f"ALTER TABLE {pipeline.contract.row_table.name} {altered}")
    return pipeline


def _outcome(world: World, pipeline: Pipeline) -> Any:
    letters = [
        (item["partition"], item["offset"], item["value"], item["error_class"], item["field"])
        for item in world.dead_letters(pipeline)
    ]
    return (
        [world.table(pipeline, index) for index in range(len(pipeline.contract.tables))],
        letters,
        world.position(pipeline),
    )


def _send(world: World, pipeline: Pipeline, sent: list[Sent]) -> None:
    for partition in range(4):
        mine = [(key, value) for to, key, value in sent if to == partition]
        world.send(pipeline, [value for _, value in mine], keys=[key for key, _ in mine], partition=partition)


def _customer(key: int, name: str) -> Sent:
    fields = {"customer_id": f"C{key}", "name": name, "tier": "gold", "signed_up": "2026-11-01"}
    return key % 4, b"C%d" % key, json.dumps(fields).encode()
