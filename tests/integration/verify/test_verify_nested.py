"""Nested fields and json columns from produce to verify: exact after a run, and a later change is found."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Column, Contract, Field, RowRule
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.producers.producer import Producer
from platform_defs.samples.mixture import Mixture, Sending
from platform_defs.samples.samples import Samples
from platform_defs.stack.endpoints import Endpoints
from platform_defs.verify.compare.report import BAD, Report
from platform_defs.verify.decoders.documents import NotTheType, canonical, check_jsonb, parse
from platform_defs.verify.verify import verify
from tests.support.world import World

TYPES = {
    ("deviceId",): "string",
    ("user", "address", "city"): "string",
    ("user", "address", "post.code"): "integer",
    ("user", "grüße"): "decimal(9,3)",
    ("user", ""): "timestamp",
    ("payload",): "json",
    ("user", "tags"): "json",
}
NAMES = ("device_id", "city", "post_code", "greetings", "seen_at", "payload", "tags")


def field(name: str, path: tuple[str, ...], kind: str) -> Field:
    required = name in ("device_id", "payload")
    rules = (RowRule(f"{name}_required", name, "required", None, ""),) if required else ()
    return Field(name, column_type(kind), required, rules, physical_path=path)


FIELDS = tuple(field(name, path, kind) for name, (path, kind) in zip(NAMES, TYPES.items(), strict=True))


def nested(pipeline: Pipeline, transform: Any = None) -> Pipeline:
    """Return `pipeline` with the nested fields, each a column of its row table."""
    columns = tuple(Column(item.name, item.type, item.required) for item in FIELDS)
    table = replace(pipeline.contract.row_table, columns=columns, batch_rules=())
    return Pipeline(replace(pipeline.contract, fields=FIELDS, tables=(table,)), transform)


def produce(world: World, contract: Contract, count: int, bad_share: float) -> Mixture:
    """Produce as `tidegate produce` does."""
    mixture = Mixture(Samples(contract, seed=3), bad_share)
    options = world.endpoints.kafka_options()
    sending = Sending(Producer(options, contract.topic, contract.producing.chosen()), mixture)
    sending.send(count)
    sending.finish()
    assert sending.producer.counts.delivered == count
    return mixture


def untouched(messages: DataFrame) -> DataFrame:
    """Return every message, json columns as their text."""
    return messages


@dataclass(frozen=True)
class Produced:
    """A pipeline that has read the produced messages."""

    world: World
    pipeline: Pipeline
    mixture: Mixture

    def verify(self) -> Report:
        return verify(self.pipeline, self.world.endpoints, self.world.spark)

    def after(self, statement: str) -> Report:
        """Return verify's report after `statement` has changed one row; restore the table."""
        table = self.pipeline.contract.row_table.name
        with psycopg.connect(self.world.endpoints.postgres_url, autocommit=True) as connection:
            connection.execute(f"CREATE TEMP TABLE kept AS TABLE {table}".encode())
            one = f"(SELECT ctid FROM {table} ORDER BY _partition, _offset LIMIT 1)"
            assert connection.execute(statement.format(table=table, one=one).encode()).rowcount == 1
            report = self.verify()
            connection.execute(f"TRUNCATE {table}".encode())
            connection.execute(f"INSERT INTO {table} TABLE kept".encode())
        return report


def produced_and_drained(world: World, disposition: str, transform: Any = None) -> Produced:
    pipeline = nested(world.new_pipeline(disposition, transform=None), transform)
    mixture = produce(world, pipeline.contract, 2_000, 0.05)
    world.drain(pipeline)
    return Produced(world, pipeline, mixture)


@pytest.fixture(scope="module")
def appended(endpoints: Endpoints, spark: Callable[[], SparkSession]) -> Produced:
    return produced_and_drained(World(endpoints, spark), "append")


def assert_exact(produced: Produced) -> Report:
    report = produced.verify()
    assert report.ok, report
    assert (report.messages, report.dead_letters) == (2_000, 100)
    reasons = Counter(letter["error_class"] for letter in produced.world.dead_letters(produced.pipeline))
    assert reasons == produced.mixture.bad
    assert {"WrongType", "DuplicateKey", "TooDeep", "OutOfRange", "NulCharacter", "InvalidUnicode"} < set(reasons)
    return report


def test_what_is_produced_arrives_and_is_verified(appended: Produced) -> None:
    assert assert_exact(appended).rows == appended.mixture.good == 1_900


@pytest.mark.longest
def test_through_a_transform_too(world: World) -> None:
    assert assert_exact(produced_and_drained(world, "append", untouched)).rows == 1_900


@pytest.mark.slow
def test_an_upsert_too(world: World) -> None:
    assert 0 < assert_exact(produced_and_drained(world, "upsert")).rows <= 1_900


@pytest.mark.longest
@pytest.mark.parametrize(
    ("statement", "expected", "what"),
    [
        (
            "UPDATE {table} SET payload = jsonb_set(payload, '{{place,note}}', '1') WHERE ctid = {one}",
            {"wrong": 1},
            "payload is",
        ),
        (
            "UPDATE {table} SET payload = "
            "jsonb_set(payload, '{{count}}', to_jsonb((payload->>'count')::numeric + 1e-30)) WHERE ctid = {one}",
            {"wrong": 1},
            "payload is",
        ),
        ("UPDATE {table} SET payload = payload - 'tags' WHERE ctid = {one}", {"wrong": 1}, "payload is"),
        (
            "UPDATE {table} SET tags = 'null' WHERE ctid = (SELECT min(ctid) FROM {table} WHERE tags IS NULL)",
            {"wrong": 1},
            "tags is 'null', not null",
        ),
        ("UPDATE {table} SET city = city || '!' WHERE ctid = {one}", {"wrong": 1}, "city is"),
        (
            "UPDATE {table} SET greetings = coalesce(greetings, 0) + 0.001 WHERE ctid = {one}",
            {"wrong": 1},
            "greetings is",
        ),
        ("DELETE FROM {table} WHERE ctid = {one}", {"lost": 1}, "1 row of the message is missing"),
        ("INSERT INTO {table} SELECT * FROM {table} WHERE ctid = {one}", {"duplicated": 1}, "1 row too many"),
    ],
)
def test_what_is_done_to_a_nested_or_json_value_is_found(
    appended: Produced, statement: str, expected: dict[str, int], what: str
) -> None:
    report = appended.after(statement)
    assert {name: getattr(report, name) for name in BAD if getattr(report, name)} == expected
    assert what in report.samples[0].what


def test_what_jsonb_takes_for_equal_is_no_difference(appended: Produced) -> None:
    other_scale = "jsonb_set(payload, '{{count}}', to_jsonb((payload->>'count')::numeric(12,3)))"
    report = appended.after(f"UPDATE {{table}} SET payload = {other_scale} WHERE ctid = {{one}}")
    assert report.ok, report


NUMBERS = st.one_of(
    st.from_regex(r"-?(0|[1-9][0-9]{0,4})(\.[0-9]{1,4})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.builds("{}e{}".format, st.sampled_from(["0", "1", "9.9", "0.01", "-0.0"]), st.integers(-16_390, 131_080)),
)
PIECES = st.sampled_from(["a", "é", "😀", r"\"", r"\u0000", r"\ud800", r"\udc00", r"\u0061", r"\n"])
TEXTS = st.recursive(
    st.one_of(
        NUMBERS,
        st.lists(PIECES, max_size=3).map(lambda parts: f'"{"".join(parts)}"'),
        st.sampled_from(["null", "true", "false"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{' , '.join(items)}]"),
        st.lists(st.tuples(st.sampled_from(['"a"', '"b"', r'"\u0061"', '""']), inner), max_size=3).map(
            lambda pairs: "{" + ",".join(map(":".join, pairs)) + "}"
        ),
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def database(endpoints: Endpoints) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(endpoints.postgres_url, autocommit=True) as connection:
        yield connection


def taken_by_postgres(database: psycopg.Connection[Any], text: str) -> bool:
    try:
        database.execute("SELECT %s::jsonb", [text])
    except psycopg.DataError:
        return False
    return True


@pytest.mark.longest
@settings(max_examples=400, deadline=None)
@given(TEXTS)
@example("9e131071")
@example("1e131072")
@example("0.01e131073")
@example("1e-16383")
@example("1e-16384")
@example("0e-16384")
@example("0e999999")
@example("0e1073741822")
@example("0e1073741824")  # between the two, Postgres 18 takes what 15 refuses: refused here
@example("[" * 100 + "1" + "]" * 100)
@example(r'"\ud83d\ude00"')
@example(r'"\ude00\ud83d"')
def test_the_judge_refuses_what_postgres_refuses(database: psycopg.Connection[Any], text: str) -> None:
    reason = refusal(text)
    if reason not in ("DuplicateKey", "TooDeep"):  # which Postgres takes
        assert taken_by_postgres(database, text) == (reason is None), reason


def refusal(text: str) -> str | None:
    try:
        check_jsonb(parse(text.encode()))
    except NotTheType as wrong:
        return str(wrong)
    return None


@pytest.mark.longest
@settings(max_examples=400, deadline=None)
@given(TEXTS, TEXTS)
@example("1.0", "1.00")
@example('{"a":1,"b":2}', '{"b":2.0,"a":10e-1}')
@example('{"a":1,"a":2}', '{"a":2}')
@example("-0", "0.00")
@example('"a"', r'"\u0061"')
def test_two_texts_are_the_same_where_postgres_says_so(database: psycopg.Connection[Any], one: str, other: str) -> None:
    if taken_by_postgres(database, one) and taken_by_postgres(database, other):
        (same,) = database.execute("SELECT %s::jsonb = %s::jsonb", [one, other]).fetchone() or (None,)
        assert (canonical(one) == canonical(other)) == same
        (stored,) = database.execute("SELECT %s::jsonb::text", [one]).fetchone() or (None,)
        assert canonical(stored) == canonical(one)
