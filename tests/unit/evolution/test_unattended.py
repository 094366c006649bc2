"""The contract changes that a run applies by itself, and the message if a person has to apply one."""

from dataclasses import replace
from typing import Literal

import pytest

from platform_defs.contract.evolution.changes import Bump
from platform_defs.contract.evolution.plan import ChangePlan, plan
from platform_defs.contract.evolution.statements import Given
from platform_defs.contract.evolution.unattended import refuse_attended, refuse_version
from platform_defs.contract.model.column_types import JSON, STRING
from platform_defs.contract.model.contract import Column, Contract, Field
from platform_defs.errors import BadInput
from tests.unit.evolution.test_evolution import good

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


def test_a_field_is_a_persons_to_add_where_messages_may_have_it_already_with_another_type() -> None:
    old = replace(good(), evolution="additive")
    found = plan(old, replace(old, fields=(*old.fields, Field("channel", STRING, False, ()))))
    refuse_attended(found, published=True)
    with pytest.raises(BadInput, match=r"7 messages.*did not read.*--messages.*tidegate contract apply"):
        refuse_attended(found, published=True, unknown_fields=7)
    refuse_attended(changed("a description", "additive"), published=True, unknown_fields=7)


@pytest.mark.parametrize("evolution", ["manual", "additive"])
def test_a_run_does_not_show_what_was_classified(evolution: Evolution) -> None:
    shown = replace(good(), evolution=evolution)
    hidden = replace(shown, fields=(replace(shown.fields[0], classification="pii"), *shown.fields[1:]))
    name = shown.fields[0].name
    refuse_attended(plan(shown, hidden), published=True)
    found = plan(hidden, replace(shown, version="2.0.0"))
    assert not found.empty
    assert found.bump is Bump.MAJOR
    assert found.declassified[0].what == f"field {name} is no longer classified"
    assert any(change.table and change.column == name for change in found.declassified), "the column is shown as well"
    assert "--allow declassify" in found.refusals[0]
    with pytest.raises(BadInput, match=f"field {name} is no longer classified"):
        refuse_attended(found, published=True)
    allowed = plan(hidden, replace(shown, version="2.0.0"), given=Given(declassify=True))
    assert allowed.refusals == ()


def test_a_field_that_is_renamed_does_not_lose_its_classification_unnoticed() -> None:
    old = good()
    first = replace(old.fields[0], classification="pii")
    renamed = replace(first, name="other", classification="", physical_path=first.path)
    found = plan(replace(old, fields=(first, *old.fields[1:])), replace(old, fields=(renamed, *old.fields[1:])))
    assert found.declassified[0].what.startswith("field other")


def shown(old: Contract, new: Contract) -> list[str]:
    """Return what the new contract declassifies."""
    return [change.what for change in plan(old, new).declassified]


def test_a_field_that_contains_a_classified_one_shows_it() -> None:
    old, email = good(), Field("email", STRING, False, (), classification="pii", physical_path=("customer", "email"))
    whole = Field("customer", JSON, False, ())
    before = replace(old, fields=(*old.fields, email))
    assert shown(before, replace(old, fields=(*old.fields, whole))) == ["field customer is no longer classified"]


def test_a_part_of_a_field_that_was_classified_shows_it() -> None:
    old, whole = good(), Field("customer", JSON, False, ())
    email = Field("email", STRING, False, (), classification="pii", physical_path=("customer", "email"))
    name = Field("name", STRING, False, (), physical_path=("customer", "name"))
    after, found = replace(old, fields=(*old.fields, name)), ["field name (customer.name) is no longer classified"]
    assert shown(replace(old, fields=(*old.fields, replace(whole, classification="pii"))), after) == found
    columns = (*old.row_table.columns, Column("customer", JSON, False, classification="pii"))
    of_its_column = replace(old, fields=(*old.fields, whole), tables=(replace(old.row_table, columns=columns),))
    assert set(found) <= set(shown(of_its_column, after))
    beside = replace(old, fields=(*old.fields, email))
    assert shown(beside, replace(beside, fields=(*beside.fields, name))) == []


def test_a_protobuf_field_that_is_renamed_by_its_number_is_the_same_value() -> None:
    old, other = good(), Field("phone", STRING, False, (), classification="pii", number=4)
    email = Field("email", STRING, False, (), classification="pii", number=3)
    mail = Field("mail", STRING, False, (), number=3)
    before = replace(old, fields=(*old.fields, email, other))
    assert shown(before, replace(old, fields=(*old.fields, mail, other))) == ["field mail is no longer classified"]


def test_the_last_classified_field_is_not_removed_unnoticed() -> None:
    """Its column stays in the table, and its values in dead letters and in the topic: from then on they are shown."""
    old = good()
    one, other = (Field(name, STRING, False, (), classification="pii") for name in ("email", "phone"))
    both = replace(old, fields=(*old.fields, one, other))
    assert shown(both, replace(old, fields=(*old.fields, one))) == []
    assert shown(both, old) == ["email, phone: no longer in the contract, which now classifies nothing"]
    assert "--allow declassify" in plan(both, old).refusals[0]


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
