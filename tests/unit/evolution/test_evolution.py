"""From one contract to the next: the class of each change, the version that it needs, and the statements."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from platform_defs.contract.evolution.changes import Bump, ChangeClass, version_mistake
from platform_defs.contract.evolution.plan import ChangePlan, plan, unused
from platform_defs.contract.evolution.statements import Given, fills, shape_of
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.reader.odcs import load
from platform_defs.errors import BadInput
from tests.unit.contract.contract_mistakes import GOOD

ORDERS = 'ALTER TABLE "shop"."orders"'
WORDS, FREE, CHECKED, VALUE = ChangeClass.WORDS, ChangeClass.FREE, ChangeClass.CHECKED, ChangeClass.VALUE
KEEP, REPLAY, READERS = ChangeClass.KEEP, ChangeClass.REPLAY, ChangeClass.BREAKS_READERS
PRODUCERS, OTHER = ChangeClass.BREAKS_PRODUCERS, ChangeClass.NEW_PIPELINE
KIND_FIELD = "      - name: kind\n        logicalType: string\n"
KIND_COLUMN = "      - {name: kind, logicalType: string}\n"


@dataclass(frozen=True)
class Case:
    """A change to a contract's text, and what follows."""

    name: str
    edits: tuple[tuple[str, str], ...]  # replacements in GOOD, from the front
    classes: tuple[ChangeClass, ...]
    sql: tuple[str, ...] = ()
    bump: Bump = Bump.MINOR
    refused: str = ""  # a part of the first refusal
    given: Given = field(default_factory=Given)


CASES = (
    Case("a description", (("name: kind\n", "name: kind\n        description: Where.\n"),), (WORDS,), bump=Bump.PATCH),
    Case("a limit", (("value: 1000}", "value: 2000}"),), (WORDS,), bump=Bump.PATCH),
    Case(
        "a field with an optional column",
        (
            (KIND_FIELD, f"      - {{name: channel, logicalType: string}}\n{KIND_FIELD}"),
            (KIND_COLUMN, f"{KIND_COLUMN}      - {{name: channel, logicalType: string}}\n"),
        ),
        (FREE,),
        (f'{ORDERS} ADD COLUMN "channel" text',),
    ),
    Case(
        "a field with a required column",
        (
            (KIND_FIELD, f"      - {{name: channel, logicalType: string, required: true}}\n{KIND_FIELD}"),
            (KIND_COLUMN, f"{KIND_COLUMN}      - {{name: channel, logicalType: string, required: true}}\n"),
        ),
        (PRODUCERS, VALUE),
        (f'{ORDERS} ADD COLUMN "channel" text NOT NULL',),
        bump=Bump.MAJOR,
        refused="--fill channel=...",
    ),
    Case(
        "a field with a required column, and a value for old rows",
        (
            (KIND_FIELD, f"      - {{name: channel, logicalType: string, required: true}}\n{KIND_FIELD}"),
            (KIND_COLUMN, f"{KIND_COLUMN}      - {{name: channel, logicalType: string, required: true}}\n"),
        ),
        (PRODUCERS, VALUE),
        (
            f"{ORDERS} ADD COLUMN \"channel\" text DEFAULT 'it''s' NOT NULL",
            f'{ORDERS} ALTER COLUMN "channel" DROP DEFAULT',
        ),
        bump=Bump.MAJOR,
        given=Given(fill={"channel": "'it''s'"}),
    ),
    Case(
        "required to optional",
        (
            ("physicalType: decimal(10,2)\n        required: true", "physicalType: decimal(10,2)"),
            (
                '{name: price, physicalType: "decimal(10,2)", required: true}',
                '{name: price, physicalType: "decimal(10,2)"}',
            ),
        ),
        (FREE, FREE),
        (f'{ORDERS} ALTER COLUMN "price" DROP NOT NULL',),
    ),
    Case(
        "optional to required",
        (
            ("        physicalType: double\n", "        physicalType: double\n        required: true\n"),
            ("{name: weight, physicalType: double}", "{name: weight, physicalType: double, required: true}"),
        ),
        (PRODUCERS, CHECKED),
        (f'{ORDERS} ALTER COLUMN "weight" SET NOT NULL',),
        bump=Bump.MAJOR,
    ),
    Case(
        "more digits",
        (
            ("physicalType: decimal(10,2)\n", "physicalType: decimal(12,2)\n"),
            ('name: price, physicalType: "decimal(10,2)"', 'name: price, physicalType: "decimal(12,2)"'),
        ),
        (FREE,),
        (f'{ORDERS} ALTER COLUMN "price" TYPE numeric(12,2)',),
    ),
    Case(
        "another scale",
        (
            ("physicalType: decimal(10,2)\n", "physicalType: decimal(11,3)\n"),
            ('name: price, physicalType: "decimal(10,2)"', 'name: price, physicalType: "decimal(11,3)"'),
            ('name: total, physicalType: "decimal(20,2)"', 'name: total, physicalType: "decimal(20,3)"'),
        ),
        (REPLAY, REPLAY),
        (
            f'{ORDERS} ALTER COLUMN "price" TYPE numeric(11,3)',
            'ALTER TABLE "shop"."totals" ALTER COLUMN "total" TYPE numeric(20,3)',
        ),
        bump=Bump.MAJOR,
        refused="price is numeric(10,2)",
    ),
    Case(
        "another type",
        (
            ("        physicalType: double\n", "        logicalType: string\n"),
            ("{name: weight, physicalType: double}", "{name: weight, logicalType: string}"),
        ),
        (PRODUCERS, REPLAY),
        (f'{ORDERS} ALTER COLUMN "weight" TYPE text',),
        bump=Bump.MAJOR,
        refused="requires a full rebuild from the topic",
    ),
    Case("a column that is gone", ((KIND_COLUMN, ""),), (KEEP,), bump=Bump.MAJOR),
    Case(
        "a column that is dropped",
        ((KIND_COLUMN, ""),),
        (KEEP,),
        (f'{ORDERS} DROP COLUMN "kind"',),
        bump=Bump.MAJOR,
        given=Given(drop=frozenset({"kind"})),
    ),
    Case(
        "a column that is renamed",
        (
            ("      - name: kind\n", "      - name: channel\n        physicalName: kind\n"),
            (
                KIND_COLUMN,
                "      - {name: channel, logicalType: string, customProperties: "
                "[{property: renamedFrom, value: kind}]}\n",
            ),
        ),
        (READERS,),
        (f'{ORDERS} RENAME COLUMN "kind" TO "channel"',),
        bump=Bump.MAJOR,
        refused="--allow breaking",
    ),
    Case(
        "another key of the message",
        (("      - name: kind\n", "      - name: kind\n        physicalName: Kind\n"),),
        (PRODUCERS,),
        bump=Bump.MAJOR,
    ),
    Case(
        "a rule less", (("logicalTypeOptions: {minimum: 0.01, maximum: 1000}", "description: x"),), (FREE, FREE, WORDS)
    ),
    Case("a looser limit", (("maximum: 1000}", "maximum: 2000}"),), (FREE,)),
    Case("a tighter limit", (("maximum: 1000}", "maximum: 900}"),), (PRODUCERS,), bump=Bump.MAJOR),
    Case("a value more", (("[web, phone]", "[web, phone, shop]"),), (FREE,)),
    Case("a value less", (("[web, phone]", "[web]"),), (PRODUCERS,), bump=Bump.MAJOR),
    Case("another pattern", (('pattern: "O[0-9]+"', 'pattern: "[A-Z][0-9]+"'),), (PRODUCERS,), bump=Bump.MAJOR),
    Case("a batch rule", (("min_value: 1}", "min_value: 2}"),), (FREE,)),
    Case(
        "another aggregate",
        (
            ("sum(price)", "max(price)"),
            ('total, physicalType: "decimal(20,2)"', 'total, physicalType: "decimal(10,2)"'),
        ),
        (REPLAY, REPLAY),
        bump=Bump.MAJOR,
        refused="numeric(20,2)",
        sql=('ALTER TABLE "shop"."totals" ALTER COLUMN "total" TYPE numeric(10,2)',),
    ),
    Case(
        "the topic",
        (
            (
                "physicalName: shop.orders\n    properties:\n      - name: order_id",
                "physicalName: shop.v2\n    properties:\n      - name: order_id",
            ),
        ),
        (OTHER,),
        bump=Bump.MAJOR,
        refused="topic_changed",
    ),
    Case("the id", (("id: shop_orders", "id: shop_other"),), (OTHER,), bump=Bump.MAJOR, refused="different pipeline"),
    Case(
        "the order of fields",
        (
            ("      - name: weight\n        physicalType: double\n", ""),
            (KIND_FIELD, "      - name: weight\n        physicalType: double\n" + KIND_FIELD),
        ),
        (FREE,),
    ),
)


def good() -> Contract:
    return load(Path("orders.odcs.yaml"), GOOD)


def changed_by(case: Case) -> ChangePlan:
    text = GOOD
    for part, instead in case.edits:
        assert part in text, part
        text = text.replace(part, instead, 1)
    return plan(good(), load(Path("orders.odcs.yaml"), text), given=case.given)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_change_has_its_class_its_version_and_its_statements(case: Case) -> None:
    found = changed_by(case)
    assert tuple(change.kind for change in found.changes) == case.classes
    assert tuple(item.sql for item in found.statements) == case.sql
    assert found.bump is case.bump
    messages = [why for why in found.refusals if "its version is still" not in why]
    assert (case.refused in messages[0]) if case.refused else not messages
    assert found.version_mistake
    assert unused(case.given, found) is None


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ({"aliases": ()}, {"aliases": (("sort",),)}, FREE),
        ({"aliases": (("sort",),)}, {"aliases": ()}, PRODUCERS),
        ({"physical_path": ("a",)}, {"physical_path": ("b",), "aliases": (("a",),)}, FREE),
        ({"physical_path": ("a",)}, {"physical_path": ("b",)}, PRODUCERS),
        ({"number": 1}, {"number": 2}, PRODUCERS),
    ],
)
def test_where_a_field_is_found(old: dict[str, Any], new: dict[str, Any], kind: ChangeClass) -> None:
    contract = good()
    before, after = (
        replace(contract, fields=(replace(contract.fields[0], **each), *contract.fields[1:])) for each in (old, new)
    )
    assert [change.kind for change in plan(before, after).changes] == [kind]


def test_a_contract_that_says_the_same_needs_nothing() -> None:
    found = plan(good(), good())
    assert found.empty
    assert found.changes == ()
    assert found.version_mistake is None
    assert found.bump is Bump.NONE


def test_a_required_column_that_is_gone_takes_null_from_then_on() -> None:
    old = good()
    columns = tuple(column for column in old.row_table.columns if column.name != "order_id")
    found = plan(old, replace(old, tables=(replace(old.row_table, columns=columns),)))
    assert [change.kind for change in found.changes] == [KEEP, KEEP]  # and the accumulate over it
    assert [item.sql for item in found.statements] == [f'{ORDERS} ALTER COLUMN "order_id" DROP NOT NULL']


def test_a_table_that_was_changed_by_hand_needs_nothing_more() -> None:
    old = good()
    column = replace(old.row_table.columns[-1], name="channel")
    new = replace(old, tables=(replace(old.row_table, columns=(*old.row_table.columns, column)), *old.accumulates))
    by_hand = {table.name: shape_of(table) for table in new.tables}
    assert [item.sql for item in plan(old, new).statements] == [f'{ORDERS} ADD COLUMN "channel" text']
    found = plan(old, new, by_hand)
    assert (found.statements, [change.kind for change in found.changes]) == ((), [FREE])
    assert "the table already has the column" in found.changes[0].sentence


def test_a_column_that_has_a_default_in_its_name_gets_no_value() -> None:
    """A statement's kind is data, not taken from its text, which may have any name in it."""
    old = good()
    column = replace(old.row_table.columns[-1], name="DEFAULT", required=False)
    new = replace(old, tables=(replace(old.row_table, columns=(*old.row_table.columns, column)),))
    assert "--fill DEFAULT" in (unused(Given(fill={"DEFAULT": "'x'"}), plan(old, new)) or "")


def test_what_a_person_decides_about_a_column_that_needs_nothing_is_refused() -> None:
    nothing = plan(good(), good())
    assert "--fill kind" in (unused(Given(fill={"kind": "'x'"}), nothing) or "")
    assert "--drop kind" in (unused(Given(drop=frozenset({"kind"})), nothing) or "")


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("kind=it's", "'it''s'"),
        ("kind=", "''"),
        ("weight=1.5", "'1.5'"),
        ("price=12.34", "'12.34'"),
        ("orders=12", "'12'"),
    ],
)
def test_a_value_for_old_rows_is_one_of_its_type(given: str, written: str) -> None:
    assert fills(good(), [given]) == {given.partition("=")[0]: written}


@pytest.mark.parametrize("given", ["kind", "nothing=1", "price=12.345", "orders=1.5", "weight=nan", "kind=\0"])
def test_a_value_for_old_rows_of_another_type_is_refused(given: str) -> None:
    with pytest.raises(BadInput, match="--fill"):
        fills(good(), [given])


@pytest.mark.parametrize(
    ("old", "new", "needed", "message"),
    [
        ("1.0.0", "1.0.0", Bump.NONE, None),
        ("1.0.0", "1.0.0", Bump.PATCH, "1.0.1"),
        ("1.0.0", "1.0.1", Bump.PATCH, None),
        ("1.0.0", "1.0.1", Bump.MINOR, "1.1.0"),
        ("1.0.0", "1.1.0", Bump.MINOR, None),
        ("1.2.3", "1.9.0", Bump.MAJOR, "2.0.0"),
        ("1.2.3", "2.0.0", Bump.MAJOR, None),
        ("0.2.3", "0.3.0", Bump.MAJOR, None),
        ("1.2.3", "1.2.2", Bump.PATCH, "older file"),
        ("1.2.3", "1.2.2", Bump.NONE, "older file"),
        ("2", "3", Bump.MAJOR, None),
        ("1.1", "1.2", Bump.MINOR, None),
        ("spring", "autumn", Bump.MAJOR, None),
        ("spring", "spring", Bump.PATCH, "another one"),
    ],
)
def test_a_version_tells_how_much_has_changed(old: str, new: str, needed: Bump, message: str | None) -> None:
    mistake = version_mistake(old, new, needed)
    assert mistake is None if message is None else message in (mistake or "")
