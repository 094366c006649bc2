"""What became of a contract's columns in the contracts after it."""

from platform_defs.contract.column_types import STRING
from platform_defs.contract.model import Column, Contract, Table
from platform_defs.verification.eras import Step, names_now


def step(version: str, *dropped: str, **columns: str) -> Step:
    """A contract of columns by name, each with the name that it is renamed from."""
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


def test_a_column_that_the_contract_lost_is_renamed_as_long_as_the_table_has_it() -> None:
    assert names(step("1", a="", k=""), step("2", k=""), step("3", k="", b="a"))[0] == {"a": "b", "k": "k"}


def test_a_column_that_was_dropped_is_not_the_one_that_has_its_name_later() -> None:
    assert names(step("1", a="", k=""), step("2", "a", k=""), step("3", a="", k=""))[0] == {"k": "k"}
    assert names(step("1", a="", k=""), step("2", k=""), step("3", a="", k=""))[0] == {"a": "a", "k": "k"}
