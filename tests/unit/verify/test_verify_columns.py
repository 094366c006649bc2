"""A comparison in columns finds what a comparison row by row finds."""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Aggregate, Column, Table
from platform_defs.verify.compare.accumulates import Accumulated
from platform_defs.verify.compare.differences import PIECE, differences
from platform_defs.verify.compare.newest import Newest, equal_rows, without_waste
from platform_defs.verify.compare.report import Findings
from platform_defs.verify.source.ahead import ahead, read_ahead

ROWS = pa.schema([("v", pa.string()), ("f", pa.float64()), ("_partition", pa.int32()), ("_offset", pa.int64())])
Made = tuple[str | None, float | None, int]  # v, f, _offset
MADE = st.lists(
    st.tuples(st.none() | st.sampled_from("ab"), st.none() | st.sampled_from([0.5, float("nan")]), st.integers(0, 5)),
    max_size=8,
)


def rows_of(made: Sequence[Made]) -> pa.Table:
    columns = [[v for v, _, _ in made], [f for _, f, _ in made], [3] * len(made), [offset for *_, offset in made]]
    return pa.table([pa.array(one, kind) for one, kind in zip(columns, ROWS.types, strict=True)], schema=ROWS)


def plain(made: Sequence[Made]) -> Counter[tuple[Any, ...]]:
    return Counter((offset, v, "NaN" if f is not None and f != f else f) for v, f, offset in made)


@given(MADE, MADE, st.randoms(use_true_random=False))
def test_differences_are_those_of_multisets(want: list[Made], have: list[Made], random: Any) -> None:
    have = [*have, *random.sample(want, len(want))]
    found = differences(rows_of(want), rows_of(have))
    missing, extra = plain(want) - plain(have), plain(have) - plain(want)
    assert Counter((at, *row) for at, (gone, _) in found.items() for row in gone) == missing
    assert Counter((at, *row) for at, (_, more) in found.items() for row in more) == extra
    assert [*found] == sorted({at for at, *_ in [*missing, *extra]})


def test_of_many_rows_the_few_that_differ_are_found() -> None:
    want: list[Made] = [("a", 0.5, n // 2) for n in range(5 * PIECE)]
    have = [one for one in want if one[2] != 700]
    have[3_000] = ("b", 0.5, have[3_000][2])
    have.append(("a", None, 10**9))
    found = differences(rows_of(want), rows_of(have))
    assert found == {
        700: ([("a", 0.5)] * 2, []),
        have[3_000][2]: ([("a", 0.5)], [("b", 0.5)]),
        10**9: ([], [("a", None)]),
    }


def column(name: str, kind: str) -> Column:
    return Column(name, column_type(kind), required=False)


SUMS = Table(
    "s.sums",
    "accumulate",
    (
        column("m_sum", "string"),
        column("total", "decimal(38,2)"),
        column("many", "integer"),
        column("least", "integer"),
        column("again", "integer"),
        column("first", "string"),
        column("last", "string"),
    ),
    group_by=("m_sum",),
    aggregates=(
        Aggregate("total", "sum", "m"),
        Aggregate("many", "count", None),
        Aggregate("least", "min", "i"),
        Aggregate("again", "min", "i"),
        Aggregate("first", "min", "t"),
        Aggregate("last", "max", "t"),
    ),
)
ROWS_OF_SUMS = ("m_sum", "string"), ("m", "decimal(20,2)"), ("i", "integer"), ("t", "string")
ROW_TABLE = Table("s.rows", "append", tuple(column(name, kind) for name, kind in ROWS_OF_SUMS))
Entry = tuple[str | None, Decimal | None, int | None, str | None]
ENTRIES = st.lists(
    st.tuples(
        st.none() | st.sampled_from("xyz"),
        st.none() | st.decimals(-(10**17), 10**17, places=2),
        st.none() | st.integers(-5, 5),
        st.none() | st.sampled_from(["a", "B", "b", "é", ""]),
    ),
    max_size=6,
)


def entries(made: Sequence[Entry]) -> pa.Table:
    kinds = [item.type.arrow for item in ROW_TABLE.columns]
    columns = [pa.array([one[n] for one in made], kind) for n, kind in enumerate(kinds)]
    return pa.table(columns, names=[item.name for item in ROW_TABLE.columns])


def as_in_a_dictionary(text: str) -> tuple[str, str]:
    """Return a key in the order of many collations: a, b, B, and é behind e. In order of bytes, B is first, é last."""
    return text.lower().replace("é", "e"), text.swapcase()


def in_order(_column: str, texts: Sequence[str]) -> list[str]:
    return sorted(texts, key=as_in_a_dictionary)


def summed(made: Sequence[Entry]) -> dict[str | None, list[Any]]:
    found = dict[str | None, list[Any]]()
    for key in {k for k, *_ in made}:
        amounts = [m for k, m, *_ in made if k == key and m is not None]
        numbers = [i for k, _, i, _ in made if k == key and i is not None]
        texts = sorted((t for k, *_, t in made if k == key and t is not None), key=as_in_a_dictionary)
        many, least = sum(k == key for k, *_ in made), min(numbers, default=None)
        total = sum(amounts, Decimal(0)) if amounts else None
        found[key] = [total, many, least, least, *((texts[0], texts[-1]) if texts else (None, None))]
    return found


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(ENTRIES, max_size=4), st.data())
def test_an_accumulate_is_compared_key_by_key(parts: list[list[Entry]], data: st.DataObject) -> None:
    wanted = summed([one for part in parts for one in part])
    there = [[key, *values] for key, values in wanted.items()]
    lost = data.draw(st.sets(st.sampled_from([*wanted]))) if wanted else set()
    there = [row for row in there if row[0] not in lost]
    wrong = data.draw(st.sets(st.sampled_from(range(len(there))))) if there else set()
    for place in wrong:
        at = data.draw(st.sampled_from([2, 5, 6]))
        there[place][at] = there[place][at] + 1 if at == 2 else f"{there[place][at]}b"
    extra = data.draw(st.lists(st.just(["new", Decimal(1), 1, 1, 1, "a", "a"]), max_size=2))
    kinds = [item.type.arrow for item in SUMS.columns]
    columns = [pa.array([row[n] for row in (*there, *extra)], kind) for n, kind in enumerate(kinds)]
    batch = pa.record_batch(columns, names=[item.name for item in SUMS.columns])
    findings, accumulated = Findings("p"), Accumulated(SUMS, ROW_TABLE, in_order)
    for part in parts:
        accumulated.add(entries(part))
    accumulated.compare(cast("Any", SimpleNamespace(accumulated=lambda _: iter([batch]))), findings)
    counts = {"keys": len(there) - len(wrong), "wrong": len(wrong) + len(extra), "lost": len(lost)}
    assert {name: findings.counts.get(name, 0) for name in counts} == counts


VALUES = pa.schema([("a", pa.int64()), ("b", pa.string())])
TUPLES = st.tuples(st.none() | st.integers(0, 1), st.none() | st.sampled_from("xy"))


@given(st.lists(st.tuples(TUPLES, TUPLES, st.integers(0, 1), st.booleans()), max_size=8), st.integers(1, 3))
def test_rows_of_blocks_are_equal_where_they_are_one_by_one(
    pairs: list[tuple[Any, Any, int, bool]], at_once: int
) -> None:
    wanted = list[Newest | None]()
    for start in range(0, len(pairs), at_once):
        some = pairs[start : start + at_once]
        columns = [pa.array([want[n] for want, *_ in some], kind) for n, kind in enumerate(VALUES.types)]
        block = pa.table(columns, schema=VALUES)
        wanted += [Newest(0, 7, place, block) if kept else None for place, (*_, kept) in enumerate(some)]
    columns = [pa.array([have[n] for _, have, *_ in pairs], kind) for n, kind in enumerate(VALUES.types)]
    offsets = [7 + moved for *_, moved, _ in pairs]
    due = [
        one is not None and one == Newest(0, at, have)
        for one, (_, have, *_), at in zip(wanted, pairs, offsets, strict=True)
    ]
    rows = pa.table(columns, schema=VALUES)
    assert equal_rows(rows, [0] * len(pairs), offsets, wanted).tolist() == due
    assert without_waste(one for one in wanted if one) == sum(one is not None for one in wanted)
    assert equal_rows(rows, [0] * len(pairs), offsets, wanted).tolist() == due


def test_work_ahead_keeps_its_order_and_is_never_more_than_a_few_pieces() -> None:
    made = list[int]()

    def items() -> Any:
        for n in range(6):
            made.append(n)
            yield n

    taken = ahead(items(), 2)
    assert (next(taken), made) == (0, [0, 1, 2])
    assert [*taken] == [1, 2, 3, 4, 5]


def test_reading_ahead_says_what_went_wrong_in_its_place_and_ends_what_it_reads() -> None:
    ended = list[bool]()

    def items() -> Any:
        try:
            yield 1
            raise ValueError("broken")
        finally:
            ended.append(True)

    found = read_ahead(items(), 3)
    assert next(found) == 1
    with pytest.raises(ValueError, match="broken"):
        next(found)
    assert ended == [True]
    unfinished = read_ahead((n for n in range(10**9)), 1)
    assert next(unfinished) == 0
    unfinished.close()
