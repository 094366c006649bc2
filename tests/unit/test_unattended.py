"""Which changed contract a run takes by itself, and what it says where a person has to apply it."""

from dataclasses import replace
from typing import Literal

import pytest

from platform_defs.contract.model import Contract
from platform_defs.errors import BadInput
from platform_defs.evolution.plan import ChangePlan, plan
from platform_defs.evolution.unattended import refuse_attended, refuse_version
from tests.unit.test_evolution import good

Evolution = Literal["manual", "additive"]


def changed(change: str, evolution: Evolution) -> ChangePlan:
    old = replace(good(), evolution=evolution)
    return plan(old, _changed(old, change))


def _changed(old: Contract, change: str) -> Contract:
    table = old.row_table
    match change:
        case "a description":
            return replace(old, description="Orders of the shop.")
        case "an optional column":
            column = replace(table.columns[-1], name="channel", required=False)
            return replace(old, tables=(replace(table, columns=(*table.columns, column)), *old.accumulates))
        case _:
            return replace(old, fields=tuple(replace(item, required=True) for item in old.fields))


@pytest.mark.parametrize("evolution", ["manual", "additive"])
def test_a_run_takes_words_by_itself(evolution: Evolution) -> None:
    refuse_attended(changed("a description", evolution), published=True)


def test_a_run_adds_a_column_by_itself_only_where_the_contract_says_so() -> None:
    refuse_attended(changed("an optional column", "additive"), published=True)
    with pytest.raises(BadInput, match="tidegate contract apply") as refused:
        refuse_attended(changed("an optional column", "manual"), published=True)
    assert 'ADD COLUMN "channel"' in str(refused.value)


def test_a_change_that_is_not_free_is_a_persons_where_runs_alter_tables() -> None:
    with pytest.raises(BadInput, match="tidegate contract apply"):
        refuse_attended(changed("required fields", "additive"), published=True)


def test_rows_that_would_have_other_keys_are_replayed_once_there_are_some() -> None:
    plain = good()
    old = replace(plain, tables=(replace(plain.row_table, disposition="upsert"),))
    found = plan(old, replace(old, wire=replace(old.wire, key_format="avro")))
    assert found.found_otherwise
    refuse_attended(found, published=False)
    with pytest.raises(BadInput, match="tidegate replay"):
        refuse_attended(found, published=True)


def test_a_version_counts_once_a_person_has_applied_one_or_where_runs_alter_tables() -> None:
    refuse_version(changed("an optional column", "manual"), "a run", by_command=False)
    with pytest.raises(BadInput, match="by anna"):
        refuse_version(changed("an optional column", "manual"), "anna", by_command=True)
    with pytest.raises(BadInput, match="by a run"):
        refuse_version(changed("an optional column", "additive"), "a run", by_command=False)
