"""--where: which expressions DuckDB evaluates, what they select, and what they cannot reach."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.errors import BadInput
from platform_defs.messages.message_filter import Where

pytestmark = pytest.mark.long


SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("amount", pa.decimal128(18, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
        ("payload", pa.string()),
        ("_offset", pa.int64()),
    ]
)
ROWS = pa.RecordBatch.from_pylist(
    [
        {"name": "a", "amount": "1.50", "at": 0, "tags": ["x"], "payload": '{"city": "Bern"}', "_offset": 5},
        {"name": None, "amount": None, "at": None, "tags": None, "payload": None, "_offset": 6},
        {"name": "it's", "amount": "100.00", "at": 10**15, "tags": [], "payload": "{}", "_offset": 9},
    ],
    schema=pa.schema([field if field.name != "amount" else pa.field("amount", pa.string()) for field in SCHEMA]),
)


def rows() -> pa.RecordBatch:
    columns = [ROWS.column(field.name).cast(field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def selected(expression: str) -> list[Any]:
    return Where(expression, SCHEMA, frozenset({"secret"}), "is classified").places(rows()).to_pylist()


@pytest.mark.parametrize(
    ("expression", "places"),
    [
        ("amount > 1.5", [2]),
        ("amount >= 1.50 -- a comment", [0, 2]),
        ("name is null", [1]),
        ("name = 'it''s' or _offset = 5", [0, 2]),
        ("\"at\" < '1970-01-02'", [0]),
        ("\"at\" < timestamptz '1970-01-01 00:00:01+00'", [0]),
        ("list_contains(tags, 'x')", [0]),
        ("payload->>'$.city' = 'Bern'", [0]),
        ("name like 'it%' and _offset between 5 and 9", [2]),
        ("NAME = 'a'", [0]),
        ("false", []),
        ("true", [0, 1, 2]),
        ("null", []),
    ],
)
def test_an_expression_selects_the_messages_for_which_it_is_true(expression: str, places: list[int]) -> None:
    assert selected(expression) == places


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("amuont > 1", "The columns are name, amount, at"),
        ("amount >", "syntax error"),
        ("", "write one expression"),
        ("amount > 1, name = 'a'", "write one expression"),
        ("name", "BOOL"),
        ("count(*) > 1", "aggregates"),
        ("amount > ?", "parameter"),
        ("secret = 'x'", "secret is classified"),
        ("messages.SECRET like 'x%'", "secret is classified"),
        ("amount > (select 1)", "without SELECT"),
        ("exists (select * from read_text('/etc/passwd'))", "without SELECT"),
        ("name in (from '/etc/passwd.csv')", "without SELECT"),
        ("true) from messages where (true", "without SELECT"),
        ("true) union select (true", "without SELECT"),
        ("true); attach '/tmp/x.db' as x; select (true", "without SELECT"),
        ("true) order by (1", "without SELECT"),
        ("true) limit (1", "without SELECT"),
        ("name::int = 1", "Could not convert"),
    ],
)
def test_anything_else_is_refused_with_the_reason(expression: str, why: str) -> None:
    with pytest.raises(BadInput, match="--where") as refused:
        selected(expression)
    assert why in str(refused.value)


def test_an_expression_reads_no_file_and_changes_no_setting(tmp_path: Path) -> None:
    where = Where("true", SCHEMA, frozenset(), "")
    secret = tmp_path / "secret.csv"
    secret.write_text("a\nhush\n")
    reaching = [
        f"select * from read_csv('{secret}')",
        f"select * from '{secret}'",
        f"attach '{tmp_path}/x.db' as x",
        f"copy (select 1) to '{tmp_path}/out.csv'",
        "set enable_external_access = true",
        "set threads = 8",
        "install httpfs",
        "load httpfs",
    ]
    for statement in reaching:
        with pytest.raises(Exception, match=r"(?i)disabled|locked|cannot|not allowed|permission"):
            where._session.execute(statement)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret.csv"]


@pytest.mark.slow
@given(text=st.text(max_size=40))
def test_any_text_is_an_expression_or_bad_input(text: str) -> None:
    try:
        places = selected(text)
    except BadInput:
        return
    assert set(places) <= {0, 1, 2}


def test_a_deeply_nested_expression_is_bad_input() -> None:
    with pytest.raises(BadInput):
        selected("(" * 5_000 + "true" + ")" * 5_000)


@pytest.mark.parametrize(
    ("expression", "used"),
    [
        ("name = 'a'", {"name"}),
        ("messages.NAME = 'a' and _offset > 1", set(SCHEMA.names)),
        ("amount > 1 or list_contains(tags, name)", {"amount", "tags", "name"}),
        ("messages is null", set(SCHEMA.names)),
        ("columns(*) is null", set(SCHEMA.names)),
        ("true", set()),
    ],
)
def test_a_column_that_an_expression_does_not_name_is_not_used(expression: str, used: set[str]) -> None:
    where = Where(expression, SCHEMA, frozenset(), "")
    assert {name for name in SCHEMA.names if where.uses(name)} == used
