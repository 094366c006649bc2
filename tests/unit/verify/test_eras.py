"""A contract's columns, followed through the contracts after it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.contract.evolution.renames import left_columns, repeated
from platform_defs.contract.model.column_types import STRING
from platform_defs.contract.model.contract import Column, Contract, Table
from platform_defs.verify.source.contract_versions import Step, names_now


def step(version: str, *dropped: str, **columns: str) -> Step:
    """Return a contract of columns by name, each with the name that it is renamed from."""
    made = tuple(Column(name, STRING, False, renamed_from=before) for name, before in columns.items())
    return Step(Contract("p", version, "d", "", "t", "json", (), (Table("s.rows", "append", made),)), dropped)


def names(*steps: Step) -> list[dict[str, str]]:
    return [dict(now) for _, now in names_now(steps)]


def test_a_column_is_followed_through_its_names() -> None:
    assert names(step("1", a=""), step("2", b="a"), step("3", c="b")) == [{"a": "c"}, {"b": "c"}, {"c": "c"}]


def test_a_new_column_of_an_old_name_is_another_one() -> None:
    after = {"b": "b", "a": "a"}
    assert names(step("1", a=""), step("2", b="a"), step("3", b="", a="")) == [{"a": "b"}, {"b": "b"}, after]
    assert names(step("1", a=""), step("2", b="a"), step("3", b="a", a="")) == [{"a": "b"}, {"b": "b"}, after]


@pytest.mark.parametrize("order", [1, -1])
def test_a_name_that_a_rename_frees_is_taken_by_another_column(order: int) -> None:
    first, chain = {"a": "", "z": ""}, {"b": "a", "a": "z"}
    second = step("2", **dict([*chain.items()][::order]))
    assert names(step("1", **first), second)[0] == {"a": "b", "z": "a"}
    added = step("2", **dict([("a", ""), ("b", "a"), ("z", "")][::order]))
    assert names(step("1", **first), added)[0] == {"a": "b", "z": "z"}


def test_what_a_contract_left_is_known_by_the_name_that_it_gets_later() -> None:
    steps = [step("1", a="", k=""), step("2", k=""), step("3", b="a", k=""), step("4", k="")]
    assert names(*steps)[1] == {"a": "b", "k": "k"}
    contracts = [(item.contract, item.dropped) for item in steps]
    assert [left_columns(contracts[: n + 1]) for n in range(4)] == [set(), {"a"}, set(), {"b"}]
    dropping = (contracts[1][0], ["a"])
    assert left_columns([contracts[0], dropping]) == set(), "one made again by hand is the operator's own"
    assert left_columns([contracts[0], dropping, contracts[3]]) == set()


def test_a_column_that_the_contract_lost_is_renamed_as_long_as_the_table_has_it() -> None:
    assert names(step("1", a="", k=""), step("2", k=""), step("3", k="", b="a"))[0] == {"a": "b", "k": "k"}


def test_a_contract_that_comes_again_leaves_what_it_left_before() -> None:
    with_a, without_a = step("1", a="", k=""), step("2", "a", k="")
    steps = [with_a, without_a, with_a, replace(without_a, dropped=())]
    contracts = [(item.contract, item.dropped) for item in steps]
    assert [left_columns(contracts[: n + 1]) for n in range(4)] == [set(), set(), set(), {"a"}]
    assert names(*steps) == [{"k": "k"}, {"k": "k"}, {"a": "a", "k": "k"}, {"a": "a", "k": "k"}]


def test_a_column_that_was_dropped_is_not_the_one_that_has_its_name_later() -> None:
    assert names(step("1", a="", k=""), step("2", "a", k=""), step("3", a="", k=""))[0] == {"k": "k"}
    assert names(step("1", a="", k=""), step("2", k=""), step("3", a="", k=""))[0] == {"a": "a", "k": "k"}


NAMES = ("a", "b", "c")
applied = st.lists(
    st.builds(
        lambda columns, dropped: step("".join(f"{n}<{old} " for n, old in columns.items()), *dropped, **columns),
        st.dictionaries(st.sampled_from(NAMES), st.sampled_from(("", *NAMES)), min_size=1, max_size=2),
        st.sets(st.sampled_from(NAMES), max_size=1) | st.just(set[str]()),
    ),
    min_size=2,
    max_size=3,
).flatmap(lambda few: st.lists(st.sampled_from(few), max_size=16))


@given(applied)
def test_applications_that_changed_no_column_are_lost_without_a_trace(steps: list[Step]) -> None:
    kept = _kept(steps)
    assert {(item.version, frozenset(now.items())) for item, now in names_now(kept)} == {
        (item.version, frozenset(now.items())) for item, now in names_now(steps)
    }
    for again in steps:
        then = [(again.contract, ())]
        assert left_columns([(s.contract, s.dropped) for s in kept] + then) == left_columns(
            [(s.contract, s.dropped) for s in steps] + then
        )


@given(applied)
def test_the_next_application_of_a_contract_has_the_names_of_one_that_is_lost(steps: list[Step]) -> None:
    log = _log(steps)
    kept = dict(zip(log, names(*log.values()), strict=True))
    for number, (item, then) in enumerate(zip(steps, names(*steps), strict=True)):
        later = (n for n in kept if n >= number and steps[n].contract.version == item.contract.version)
        assert kept[next(later)] == then


def test_contracts_that_take_turns_leave_three_applications_each_at_most() -> None:
    steps = [step("1", a="", k=""), step("2", "a", k="", b="")]
    turns = [steps[0], steps[1], *[steps[0], replace(steps[1], dropped=())] * 50]
    assert [item.contract.version for item in _kept(turns)] == ["1", "2", "1", "1", "2"]


def _kept(steps: Sequence[Step]) -> list[Step]:
    """Return the log after these applications."""
    return [*_log(steps).values()]


def _log(steps: Sequence[Step]) -> dict[int, Step]:
    """Return the log by number."""
    log: dict[int, Step] = {}
    for number, item in enumerate(steps):
        rows = [(n, known.contract.version, known.contract, known.dropped) for n, known in log.items()]
        for lost in [] if item.dropped else repeated(rows, item.contract.version):
            del log[lost]
        log[number] = item
    return log
